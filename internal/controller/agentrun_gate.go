// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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
	case o.held:
		return run.NotSent{CallID: o.callID, Step: o.step, Attempt: o.attempt, At: o.at}, nil
	case o.child != "":
		return run.ChildStarted{CallID: o.callID, At: o.at, UID: o.child}, nil
	case o.callID != "" && o.failure != nil:
		return run.ToolFailed{CallID: o.callID, Attempt: o.attempt, Failure: *o.failure}, nil
	case o.callID != "" && o.nothing:
		return run.NothingDone{CallID: o.callID, Attempt: o.attempt, At: o.at}, nil
	case o.callID != "" && o.preview != nil:
		return r.previewed(ctx, p, o)
	case o.callID != "":
		return run.ToolSucceeded{CallID: o.callID, Attempt: o.attempt, At: o.at, Tokens: o.result.MaxTokens(), Digest: arguments.Digest(o.result.Data)}, nil
	case o.failure != nil:
		return run.ModelFailed{Step: o.step, Attempt: o.attempt, Failure: *o.failure}, nil
	case o.undercounted > 0:
		return run.Undercounted{Step: o.step, Attempt: o.attempt, At: o.at, Input: o.undercounted}, nil
	}
	if o.choice {
		e := chosen(o.step, o.attempt, *o.reply)
		e.At = o.at
		return e, nil
	}
	calls, err := r.proposals(ctx, p, o.at, *o.reply, o.raw)
	return run.ModelReplied{
		Step: o.step, Attempt: o.attempt, At: o.at, Finish: o.reply.Finish, Empty: o.reply.Text == "",
		Calls: calls, Usage: o.reply.Usage, Tokens: o.reply.MaxTokens(), Answer: o.answer,
	}, err
}

// proposals finds out about each call of a reply, which came at the given time, what the gate must know. Raw are the arguments
// as the model sent them.
func (r *AgentRunReconciler) proposals(ctx context.Context, p *pass, at time.Time, reply journal.Reply, raw []string) ([]run.ProposedCall, error) {
	calls := make([]run.ProposedCall, len(reply.Calls))
	for i, c := range reply.Calls {
		calls[i].Facts = policy.Call{Tool: c.Tool, Tools: toolNames(p.run)}
		if err := r.examine(ctx, p, at, c, raw[i], &calls[i]); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// examine fills in the facts of one call. A fact that cannot be known, because an earlier one is wrong, stays empty.
func (r *AgentRunReconciler) examine(ctx context.Context, p *pass, at time.Time, c journal.Call, raw string, call *run.ProposedCall) error {
	call.Facts.Known = slices.ContainsFunc(p.run.Spec.Tools, func(t v1alpha1.ToolSelection) bool { return t.Name == c.Tool })
	if !call.Facts.Known {
		return nil
	}
	canonical, malformed := arguments.Canonical(raw)
	if malformed != nil {
		call.Facts.Malformed = malformed.Error()
	} else {
		call.ArgumentsDigest = arguments.Digest(canonical)
		call.OperationID = arguments.OperationID(p.ref.UID, c.ID, canonical)
	}
	b, why, err := r.toolBinding(ctx, p.ref.Namespace, c.Tool)
	if err != nil {
		return err
	}
	if why != "" {
		call.Facts.Unavailable = "its ToolBinding " + why
		return nil
	}
	if why := noChild(p.run, b); why != "" {
		call.Facts.Unavailable = "its ToolBinding " + why
		return nil
	}
	call.Binding, call.Rules, call.Grant = bindingOf(b), rulesFor(p.policies, b), grantOf(p.run, b)
	t, unusable := r.Tools.Open(b)
	switch {
	case unusable != nil:
		// The model is told, and the run goes on.
		call.Facts.Unavailable = "its ToolBinding can't be used"
		return nil //nolint:nilerr // it is a fact about the call
	case canonical != nil:
		if invalid := t.Schema.Check(canonical); invalid != nil {
			call.Facts.Invalid = invalid.Error()
		}
	}
	may, err := r.Principals.May(ctx, principalOf(p.run), c.Tool, false)
	if err != nil {
		return err
	}
	if !may {
		call.Facts.Unpermitted = unpermitted(p.run)
	}
	if call.Rules.Approvals > 0 && !call.Rules.Preview {
		call.Ask = ask(p.run, b, t, run.Call{
			ID: c.ID, OperationID: call.OperationID, ArgumentsDigest: call.ArgumentsDigest, Binding: call.Binding,
		}, expiry(p, b, at, time.Time{}))
	}
	return nil
}

// bindingOf names the version of a tool's rules. Its switch is not one of them.
func bindingOf(b *v1alpha1.ToolBinding) run.Binding {
	generation, ok := rulesGeneration(b)
	if !ok {
		generation = b.Generation
	}
	return run.Binding{UID: string(b.UID), Generation: generation}
}

func unpermitted(agentRun *v1alpha1.AgentRun) string {
	return fmt.Sprintf("its ServiceAccount %s lacks the verb invoke on the ToolBinding", agentRun.Spec.ServiceAccountName)
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
