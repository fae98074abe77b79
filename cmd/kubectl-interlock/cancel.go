// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func cancelCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a run",
		Long:  "End a run. A write that was sent is settled first, so the run may go on for a while. It can't be taken back.",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return a.cancel(c.Context(), args[0], reason) },
	}
	c.Flags().StringVar(&reason, "reason", "", "Why. It stands in the run's termination message.")
	if err := c.MarkFlagRequired("reason"); err != nil {
		panic(err)
	}
	return c
}

func (a *app) cancel(ctx context.Context, name, reason string) error {
	c, namespace, err := a.cluster.connect()
	if err != nil {
		return err
	}
	run := &v1alpha1.AgentRun{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, run); err != nil {
		return fmt.Errorf("reading the run: %w", err)
	}
	if t := run.Status.Termination; t != nil {
		return fmt.Errorf("AgentRun %s has ended already: %s", name, t.Reason)
	}
	// With the UID, a run that took the place of this one in the meantime is left alone.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": run.UID},
		"spec":     map[string]any{"cancel": v1alpha1.Cancellation{Reason: reason}},
	})
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	if err := c.Patch(ctx, run, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("cancelling the run: %w", err)
	}
	a.out.printf("agentrun.interlock.dev/%s is being cancelled\n", name)
	return nil
}
