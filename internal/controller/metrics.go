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

// A RefusalCounter counts what RunPolicies have refused, by policy and detail: runs, after they were created, and calls. What the API
// server refuses, it counts itself.
type RefusalCounter struct{ *prometheus.CounterVec }

// NewRefusalCounter makes a RefusalCounter, to be registered.
func NewRefusalCounter() *RefusalCounter {
	return &RefusalCounter{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "interlock_runpolicy_refusals_total",
		Help: "Runs that ended with PolicyDenied, and calls that were not sent (PolicyStricter), since a RunPolicy does not allow them, by policy and detail.",
	}, []string{"policy", "detail"})}
}

// A QueueGauge says how many runs wait for their turn, by the RunPolicy that bounds how many are under way. It looks when it is asked.
type QueueGauge struct {
	queue   *Queue
	waiting *prometheus.Desc
}

// NewQueueGauge makes a QueueGauge, to be registered.
func NewQueueGauge(q *Queue) *QueueGauge {
	return &QueueGauge{q, prometheus.NewDesc("interlock_runpolicy_queued_runs",
		"Runs that wait to begin since as many as maxConcurrentRuns of a RunPolicy allows are under way in their namespace, by policy.", []string{"policy"}, nil)}
}

// Describe implements prometheus.Collector.
func (g *QueueGauge) Describe(out chan<- *prometheus.Desc) { out <- g.waiting }

// Collect implements prometheus.Collector.
func (g *QueueGauge) Collect(out chan<- prometheus.Metric) {
	for policy, n := range g.queue.waitingBy() {
		out <- prometheus.MustNewConstMetric(g.waiting, prometheus.GaugeValue, float64(n), policy)
	}
}

func (c *RefusalCounter) count(r *policyRefusal) {
	if c != nil {
		c.WithLabelValues(r.policy, r.detail).Inc()
	}
}
