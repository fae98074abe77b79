// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/approval"
	"github.com/interlock-dev/interlock/internal/text"
)

func showCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show RUN",
		Short: "Show where a run stands, and what it asks for",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return a.show(c.Context(), args[0]) },
	}
}

func (a *app) show(ctx context.Context, name string) error {
	c, namespace, err := a.cluster.connect()
	if err != nil {
		return err
	}
	run := &v1alpha1.AgentRun{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, run); err != nil {
		return fmt.Errorf("reading the run: %w", err)
	}
	queue, err := queueText(ctx, c, run)
	if err != nil {
		return err
	}
	a.showState(run, queue)
	if err := a.showCalls(run.Status.Calls); err != nil {
		return err
	}
	a.showUsage(run.Status.Usage)
	a.showEnd(&run.Status)
	for _, asked := range run.Status.PendingApprovals {
		r, err := readRequest(ctx, c, run, asked)
		if err != nil {
			return err
		}
		a.out.printf("\n")
		r.present(a.out, a.clock.Now())
		for _, difference := range r.differences() {
			a.out.printf("Warning: %s.\n", visibleLines(difference))
		}
	}
	return nil
}

func (a *app) showState(run *v1alpha1.AgentRun, queue string) {
	s := run.Status
	a.out.printf("AgentRun %s/%s is %s.\n", run.Namespace, run.Name, orUnknown(string(s.Phase)))
	if ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); ready != nil {
		a.out.field("Reason", ready.Reason)
		a.out.field("Message", ready.Message)
	}
	if queue != "" {
		a.out.field("Queue", queue)
	}
	a.out.field("Requested by", orUnknown(run.Spec.RequestedBy))
	a.out.field("Runs as", approval.Principal(run.Namespace, run.Spec.ServiceAccountName))
	a.out.field("Step", fmt.Sprintf("%d of at most %d", s.Step, run.Spec.Limits.MaxSteps))
	a.out.field("Started", formatTime(s.StartTime))
	a.out.field("Deadline", formatTime(s.Deadline))
	a.out.field("Ended", formatTime(s.CompletionTime))
	if m := s.ModelCall; m != nil {
		a.out.field("Model", withCode(fmt.Sprintf("%s, attempt %d", m.State, m.Attempt), m.Code))
	}
	a.out.printf("\nIts goal:\n")
	a.out.quote(run.Spec.Goal)
}

func (a *app) showCalls(calls []v1alpha1.CallStatus) error {
	if len(calls) == 0 {
		return nil
	}
	a.out.printf("\nThe calls of this step:\n")
	var rows [][]string
	for _, call := range calls {
		effect := ""
		if call.Write != nil {
			effect = string(call.Write.Effect)
		}
		rows = append(rows, []string{call.ID, call.Tool, string(call.State), strconv.Itoa(int(call.Attempt)), call.Code, effect})
	}
	return a.out.table([]string{"Call", "Tool", "State", "Sent", "Code", "Effect"}, rows)
}

func (a *app) showUsage(u *v1alpha1.RunUsage) {
	if u == nil {
		return
	}
	a.out.printf("\nUsed so far:\n")
	a.out.field("Model calls", count(u.ModelCalls))
	a.out.field("Tool calls", count(u.ToolCalls))
	a.out.field("Invalid", count(u.Invalid))
	a.out.field("Tokens", fmt.Sprintf("%s (%s in, %s of them cached; %s out)", count(u.TotalTokens), count(u.InputTokens), count(u.CachedInputTokens), count(u.OutputTokens)))
}

func count[N int32 | int64](n *N) string {
	if n == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*n), 10)
}

func (a *app) showEnd(s *v1alpha1.AgentRunStatus) {
	if e := s.Ending; e != nil {
		a.out.printf("\nIt is about to end, when what was sent is settled: %s\n", text.Visible(ended(&e.Termination)))
	}
	if t := s.Termination; t != nil {
		a.out.printf("\nIt ended: %s\n", text.Visible(ended(t)))
	}
	if s.Result == nil {
		return
	}
	a.out.printf("\nThe model's answer:\n")
	a.out.quote(s.Result.Text)
	for _, cited := range s.Result.Citations {
		a.out.printf("%s\n", "  "+text.Visible(fmt.Sprintf("[%s] %s %s (call %s)", cited.ID, cited.Title, cited.URL, cited.CallID)))
	}
}
