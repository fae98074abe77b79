// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// queueText says which of the runs that wait for their turn a run is; empty if it does not wait for it. Nobody has written that
// down: it is counted.
func queueText(ctx context.Context, c client.Client, run *v1alpha1.AgentRun) (string, error) {
	if !queued(run) {
		return "", nil
	}
	var all v1alpha1.AgentRunList
	if err := c.List(ctx, &all, client.InNamespace(run.Namespace)); err != nil {
		return "", fmt.Errorf("counting the runs that wait: %w", err)
	}
	place, waiting := 1, 0
	for i := range all.Items {
		other := &all.Items[i]
		if !queued(other) {
			continue
		}
		waiting++
		if cmp.Or(other.CreationTimestamp.Compare(run.CreationTimestamp.Time), cmp.Compare(other.Name, run.Name)) < 0 {
			place++
		}
	}
	return fmt.Sprintf("number %d of %d that wait", place, max(place, waiting)), nil
}

func queued(run *v1alpha1.AgentRun) bool {
	return meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionQueued)
}
