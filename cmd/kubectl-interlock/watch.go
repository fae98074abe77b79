// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/text"
)

func watchCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "watch RUN",
		Short: "Follow a run until it ends",
		Long:  "Follow a run until it ends: a line for each change. The exit code is 0 if it ends with its answer (Final), and 1 otherwise.",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return a.watch(c.Context(), args[0]) },
	}
}

func (a *app) watch(ctx context.Context, name string) error {
	c, namespace, err := a.cluster.connect()
	if err != nil {
		return err
	}
	var before v1alpha1.AgentRunStatus
	return follow(ctx, c, &v1alpha1.AgentRunList{}, client.ObjectKey{Namespace: namespace, Name: name}, func(o client.Object) (bool, error) {
		run, ok := o.(*v1alpha1.AgentRun)
		if !ok {
			return false, nil
		}
		now := run.Status
		for _, change := range changes(&before, &now) {
			a.out.printf("%s  step %d  %-16s  %s\n", a.clock.Now().UTC().Format(time.TimeOnly), now.Step, orUnknown(string(now.Phase)), text.Visible(change))
		}
		before = now
		if now.Termination == nil {
			return false, nil
		}
		if now.Termination.Reason != v1alpha1.TerminationFinal {
			return false, fmt.Errorf("the run ended without its answer: %s", now.Termination.Reason)
		}
		return true, nil
	})
}

// changes says what is new in now, in the order in which a run goes on.
func changes(before, now *v1alpha1.AgentRunStatus) []string {
	var all []string
	if before.Step != now.Step || before.Phase != now.Phase {
		all = append(all, phaseChange(now))
	}
	if now.ModelCall != nil && !equality.Semantic.DeepEqual(before.ModelCall, now.ModelCall) {
		all = append(all, "model: "+withCode(fmt.Sprintf("%s, attempt %d", now.ModelCall.State, now.ModelCall.Attempt), now.ModelCall.Code))
	}
	for _, call := range now.Calls {
		if was := callNamed(before.Calls, call.ID); was.State != call.State || was.Attempt != call.Attempt || was.Code != call.Code {
			all = append(all, callChange(now, call))
		}
	}
	if now.Ending != nil && before.Ending == nil {
		all = append(all, fmt.Sprintf("is about to end with %s, when what was sent is settled; at the latest at %s", now.Ending.Reason, formatTime(&now.Ending.Until)))
	}
	if t := now.Termination; t != nil && before.Termination == nil {
		all = append(all, "ended: "+ended(t))
	}
	return all
}

func phaseChange(now *v1alpha1.AgentRunStatus) string {
	if c := meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionReady); c != nil && c.Message != "" {
		return c.Reason + ": " + c.Message
	}
	return "is " + orUnknown(string(now.Phase))
}

func callChange(now *v1alpha1.AgentRunStatus, call v1alpha1.CallStatus) string {
	change := withCode(fmt.Sprintf("call %s %s: %s", call.ID, call.Tool, call.State), call.Code)
	if call.Attempt > 1 {
		change += fmt.Sprintf(", attempt %d", call.Attempt)
	}
	if i := slices.IndexFunc(now.PendingApprovals, func(p v1alpha1.PendingApproval) bool { return p.CallID == call.ID }); i >= 0 {
		change += " until " + formatTime(&now.PendingApprovals[i].Expires)
	}
	return change
}

func callNamed(calls []v1alpha1.CallStatus, id string) v1alpha1.CallStatus {
	if i := slices.IndexFunc(calls, func(c v1alpha1.CallStatus) bool { return c.ID == id }); i >= 0 {
		return calls[i]
	}
	return v1alpha1.CallStatus{}
}

// ended says in one line how a run ended.
func ended(t *v1alpha1.Termination) string {
	line := withCode(string(t.Reason), t.Detail)
	if t.CallID != "" {
		line += ", by call " + t.CallID
	}
	if t.Message != "" {
		line += ": " + t.Message
	}
	return line
}

func withCode(s, code string) string {
	if code == "" {
		return s
	}
	return s + " (" + code + ")"
}
