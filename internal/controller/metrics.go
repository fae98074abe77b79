// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// AdmissionGauge is 1 while the admission policies are in place, and 0 while they are not. It looks when it is asked.
func AdmissionGauge(ctx context.Context, a Admission) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "interlock_admission_policies_in_place",
		Help: "1 while Interlock's admission policies are in the cluster as they were shipped. While it is 0, nothing is written.",
	}, func() float64 {
		if a.Missing(ctx) == "" {
			return 1
		}
		return 0
	})
}
