// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/run"
)

// The indexes of the cache.
const (
	// runsByWait finds the runs that wait for a binding ("model/name", "tool/name"), those that wait for people ("approval"), and all
	// that have not ended ("unfinished").
	runsByWait = "interlock.dev/waits-for"
	unfinished = "unfinished"
	// runsByPrincipal finds runs by the user name that they act as.
	runsByPrincipal = "interlock.dev/principal"
	// approvalsByRun finds Approvals by the UID of their run, approvalsByRunName by its name.
	approvalsByRun     = "interlock.dev/run-uid"
	approvalsByRunName = "interlock.dev/run-name"
)

// AddIndexes adds to a cache the indexes that the reconcilers need.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object client.Object
		field  string
		keys   client.IndexerFunc
	}{
		{&v1alpha1.AgentRun{}, runsByWait, ofRun(waits)},
		{&v1alpha1.AgentRun{}, runsByPrincipal, ofRun(func(r *v1alpha1.AgentRun) []string { return []string{principalOf(r).String()} })},
		{&v1alpha1.Approval{}, approvalsByRun, ofApproval(func(a *v1alpha1.Approval) string { return a.Spec.Run.UID })},
		{&v1alpha1.Approval{}, approvalsByRunName, ofApproval(func(a *v1alpha1.Approval) string { return a.Spec.Run.Name })},
	} {
		if err := indexer.IndexField(ctx, index.object, index.field, index.keys); err != nil {
			return fmt.Errorf("adding the index %s: %w", index.field, err)
		}
	}
	return nil
}

func ofRun(keys func(*v1alpha1.AgentRun) []string) client.IndexerFunc {
	return func(o client.Object) []string {
		agentRun, ok := o.(*v1alpha1.AgentRun)
		if !ok {
			return nil
		}
		return keys(agentRun)
	}
}

func ofApproval(key func(*v1alpha1.Approval) string) client.IndexerFunc {
	return func(o client.Object) []string {
		a, ok := o.(*v1alpha1.Approval)
		if !ok {
			return nil
		}
		return []string{key(a)}
	}
}

// waits gives what a run waits for: all that it needs, before it begins; and the tools of its calls that are not yet sent.
func waits(agentRun *v1alpha1.AgentRun) []string {
	var keys []string
	if agentRun.Status.Termination == nil {
		keys = append(keys, unfinished)
	}
	if agentRun.Status.Step == 0 {
		keys = append(keys, waitsForModels(agentRun)...)
		for _, t := range agentRun.Spec.Tools {
			keys = append(keys, "tool/"+t.Name)
		}
	}
	if m := agentRun.Status.ModelCall; m != nil && m.State == v1alpha1.ModelHeld {
		keys = append(keys, waitsForModels(agentRun)...)
	}
	for _, c := range agentRun.Status.Calls {
		call := callFrom(c)
		if call.Done() || call.InFlight() {
			continue
		}
		keys = append(keys, "tool/"+c.Tool)
		if call.State == run.CallAwaitingApproval {
			keys = append(keys, "approval")
		}
	}
	return keys
}

func waitsForModels(agentRun *v1alpha1.AgentRun) []string {
	var keys []string
	for _, name := range modelNames(agentRun.Spec.Model) {
		keys = append(keys, "model/"+name)
	}
	return keys
}
