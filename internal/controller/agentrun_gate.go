// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"strings"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/policy"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// eventOf gives the event that an outcome is.
func (r *AgentRunReconciler) eventOf(ctx context.Context, p *pass, o *outcome) (run.Event, error) {
	switch {
	case o.callID != "" && o.failure != nil:
		return run.ToolFailed{CallID: o.callID, Attempt: o.attempt, Failure: *o.failure}, nil
	case o.callID != "":
		return run.ToolSucceeded{CallID: o.callID, Attempt: o.attempt, At: o.at}, nil
	case o.failure != nil:
		return run.ModelFailed{Step: o.step, Attempt: o.attempt, Failure: *o.failure}, nil
	}
	calls, err := r.proposals(ctx, p.run, *o.reply, o.raw)
	return run.ModelReplied{
		Step: o.step, Attempt: o.attempt, At: o.at, Finish: o.reply.Finish, Empty: o.reply.Text == "",
		Calls: calls, Usage: o.reply.Usage, Answer: o.answer,
	}, err
}

// proposals finds out about each call of a reply what the gate must know. Raw are the arguments as the model sent them.
func (r *AgentRunReconciler) proposals(ctx context.Context, agentRun *v1alpha1.AgentRun, reply journal.Reply, raw []string) ([]run.ProposedCall, error) {
	calls := make([]run.ProposedCall, len(reply.Calls))
	for i, c := range reply.Calls {
		calls[i].Facts = policy.Call{Tool: c.Tool, Tools: toolNames(agentRun)}
		if err := r.examine(ctx, agentRun, c, raw[i], &calls[i]); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// examine fills in the facts of one call. A fact that cannot be known, because an earlier one is wrong, stays empty.
func (r *AgentRunReconciler) examine(ctx context.Context, agentRun *v1alpha1.AgentRun, c journal.Call, raw string, p *run.ProposedCall) error {
	p.Facts.Known = slices.ContainsFunc(agentRun.Spec.Tools, func(t v1alpha1.ToolSelection) bool { return t.Name == c.Tool })
	if !p.Facts.Known {
		return nil
	}
	canonical, malformed := arguments.Canonical(raw)
	if malformed != nil {
		p.Facts.Malformed = malformed.Error()
	} else {
		p.ArgumentsDigest = arguments.Digest(canonical)
		p.OperationID = arguments.OperationID(string(agentRun.UID), c.ID, canonical)
	}
	b, why, err := r.toolBinding(ctx, agentRun.Namespace, c.Tool)
	if err != nil {
		return err
	}
	if why != "" {
		p.Facts.Unavailable = "its ToolBinding " + why
		return nil
	}
	p.Binding = run.Binding{UID: string(b.UID), Generation: b.Generation}
	t, unusable := r.Tools.Open(b)
	switch {
	case unusable != nil:
		p.Facts.Unavailable = "its ToolBinding can't be used"
	case canonical != nil:
		if invalid := t.Schema.Check(canonical); invalid != nil {
			p.Facts.Invalid = invalid.Error()
		}
	}
	return nil
}

func toolNames(agentRun *v1alpha1.AgentRun) string {
	names := make([]string, len(agentRun.Spec.Tools))
	for i, t := range agentRun.Spec.Tools {
		names[i] = t.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// storedArguments is what the journal keeps of a call's arguments: the canonical bytes or, of what has no canonical form, a
// beginning that a person can read.
func storedArguments(raw string) string {
	const most = 4096
	canonical, err := arguments.Canonical(raw)
	if err == nil {
		return string(canonical)
	}
	return text.Clip(text.Clean(raw), most)
}

// answerOf makes the result of a run of a reply's text.
func answerOf(answer string, history []journal.Turn) run.Answer {
	return run.Answer{Text: answer, Citations: journal.Cited(answer, history)}
}
