// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/effect"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
	"github.com/interlock-dev/interlock/internal/tool"
)

// Codes of failures that are neither the model's nor the tool's.
const (
	codeJournal     = "JournalUnavailable"
	codeBindingGone = "BindingUnavailable"
	codeToolChanged = "ToolChanged"
)

func modelJobID(step, attempt int) string         { return fmt.Sprintf("s%d#%d", step, attempt) }
func toolJobID(callID string, attempt int) string { return fmt.Sprintf("%s#%d", callID, attempt) }

// perform hands over what the recorded state intends. Only the pass whose write came through gets here, so that what two
// passes decide on one state is performed once.
func (r *AgentRunReconciler) perform(ctx context.Context, p *pass) error {
	for _, e := range p.effects {
		switch e := e.(type) {
		case run.CallModel:
			r.callModel(ctx, p, e)
		case run.CallTool:
			r.callTool(ctx, p, e)
		case run.StopEffects:
			r.Effects.Stop(p.key)
			r.bulkheads.Drop(string(p.key.UID))
		case run.KeepTurn, run.KeepResults:
		}
	}
	return nil
}

func (r *AgentRunReconciler) callModel(ctx context.Context, p *pass, e run.CallModel) {
	agentRun, ref := p.run, p.ref
	o := outcome{step: e.Step, attempt: e.Attempt}
	var b v1alpha1.ModelBinding
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: agentRun.Spec.Model.Name}, &b); err != nil {
		// The defaults of a binding stand in for the one that could not be read.
		b.Spec.Retry = v1alpha1.RetryPolicy{MaxAttempts: 3, BackoffMilliseconds: 1000}
		b.Spec.TimeoutSeconds, b.Spec.Concurrency.Max = 1, 1
		o.fail(run.Failure{Code: codeBindingGone, Message: "The ModelBinding can't be read.", Retryable: true}, b.Spec.Retry)
	}
	r.Effects.Start(ctx, effect.Job[RunKey, *outcome]{
		Owner: p.key, ID: modelJobID(e.Step, e.Attempt), Deadline: p.after.Deadline,
		Timeout: time.Duration(b.Spec.TimeoutSeconds) * time.Second,
		Behind:  []*effect.Bulkhead{r.Models.bulkheads.Get(string(b.UID), int(b.Spec.Concurrency.Max))},
		Do: func(ctx context.Context) *outcome {
			if o.failure == nil {
				r.askModel(ctx, agentRun, ref, &b, &o)
			}
			return o.finish(r.Clock.Now())
		},
	})
}

// askModel shows the model the history and makes an outcome of what it says.
func (r *AgentRunReconciler) askModel(ctx context.Context, agentRun *v1alpha1.AgentRun, ref journal.RunRef, b *v1alpha1.ModelBinding, o *outcome) {
	history, err := r.Journal.History(ctx, ref, o.step-1)
	if err != nil {
		o.failJournal(ctx, err)
		return
	}
	tools, err := r.definitions(ctx, agentRun)
	if err != nil {
		o.failJournal(ctx, err)
		return
	}
	m, err := r.Models.Open(ctx, b)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "opening the model", "modelBinding", b.Name)
		o.fail(run.Failure{Code: codeBindingGone, Message: "The ModelBinding can't be used.", Retryable: true}, b.Spec.Retry)
		return
	}
	brief := journal.Brief{Goal: agentRun.Spec.Goal, Instructions: agentRun.Spec.Instructions}
	reply, err := m.Complete(ctx, run.ModelRequest{
		ID: fmt.Sprintf("%s/s%d", ref.UID, o.step), Step: o.step, Attempt: o.attempt,
		System: brief.System(), Messages: journal.Messages(brief, history), Tools: tools, MaxOutputTokens: int(b.Spec.MaxOutputTokens),
	})
	if err != nil {
		o.fail(modelFailure(err), b.Spec.Retry)
		return
	}
	stored := journal.ReplyOf(o.step, reply, storedArguments)
	if err := stored.Check(); err != nil {
		o.fail(run.Failure{Code: string(model.ReasonMalformed), Message: "The reply is too large.", Retryable: true}, b.Spec.Retry)
		return
	}
	o.reply = &stored
	for _, c := range reply.Calls {
		o.raw = append(o.raw, c.Arguments)
	}
	if len(reply.Calls) == 0 {
		o.answer = answerOf(stored.Text, history)
	}
}

// definitions describes the run's tools to the model. A tool that can't be used now is still described, if it ever was
// usable: a tool set that changes from step to step confuses models and their caches.
func (r *AgentRunReconciler) definitions(ctx context.Context, agentRun *v1alpha1.AgentRun) ([]run.ToolDefinition, error) {
	var definitions []run.ToolDefinition
	for _, selected := range agentRun.Spec.Tools {
		var b v1alpha1.ToolBinding
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: agentRun.Namespace, Name: selected.Name}, &b)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading ToolBinding %s: %w", selected.Name, err)
		}
		if t, openErr := r.Tools.Open(&b); err == nil && openErr == nil {
			definitions = append(definitions, t.Definition)
		}
	}
	return definitions, nil
}

func (r *AgentRunReconciler) callTool(ctx context.Context, p *pass, e run.CallTool) {
	ref, step := p.ref, p.after.Step
	call, _ := p.after.Call(e.CallID)
	o := outcome{step: step, callID: e.CallID, attempt: e.Attempt}
	b, why, err := r.toolBinding(ctx, ref.Namespace, e.Tool)
	if b == nil {
		b = &v1alpha1.ToolBinding{}
		b.Spec.Retry = v1alpha1.RetryPolicy{MaxAttempts: 3, BackoffMilliseconds: 1000}
		b.Spec.TimeoutSeconds, b.Spec.Concurrency.Max = 1, 1
		o.fail(run.Failure{Code: codeBindingGone, Message: "The tool's binding can't be used now. " + why, Retryable: err != nil}, b.Spec.Retry)
	} else if (run.Binding{UID: string(b.UID), Generation: b.Generation}) != call.Binding {
		o.fail(run.Failure{Code: codeToolChanged, Message: "The tool's binding was changed after the call was checked. Make the call again."}, b.Spec.Retry)
	}
	r.Effects.Start(ctx, effect.Job[RunKey, *outcome]{
		Owner: p.key, ID: toolJobID(e.CallID, e.Attempt), Deadline: p.after.Deadline,
		Timeout: time.Duration(b.Spec.TimeoutSeconds) * time.Second,
		Behind: []*effect.Bulkhead{
			r.bulkheads.Get(string(p.key.UID), int(p.run.Spec.Limits.Parallelism)),
			r.Tools.bulkheads.Get(string(b.UID), int(b.Spec.Concurrency.Max)),
		},
		Do: func(ctx context.Context) *outcome {
			if o.failure == nil {
				r.execute(ctx, ref, b, call, len(p.after.Calls), &o)
			}
			return o.finish(r.Clock.Now())
		},
	})
}

// execute sends a call: exactly the bytes whose digest is in the recorded state.
func (r *AgentRunReconciler) execute(ctx context.Context, ref journal.RunRef, b *v1alpha1.ToolBinding, call run.Call, calls int, o *outcome) {
	turn, ok, err := r.Journal.Find(ctx, ref, o.step)
	if err != nil || !ok {
		o.failJournal(ctx, errors.Join(err, missingUnless(ok)))
		return
	}
	proposed, _ := turn.Call(call.ID)
	if arguments.Digest([]byte(proposed.Arguments)) != call.ArgumentsDigest {
		o.fail(run.Failure{Code: codeToolChanged, Message: "The journal does not hold the arguments that were checked."}, b.Spec.Retry)
		return
	}
	t, err := r.Tools.Open(b)
	if err != nil {
		o.fail(run.Failure{Code: codeBindingGone, Message: "The tool's binding can't be used now."}, b.Spec.Retry)
		return
	}
	result, err := t.Server.Execute(ctx, run.ToolCall{
		OperationID: call.OperationID, CallID: call.ID, Tool: t.Name, Arguments: []byte(proposed.Arguments),
		MaxResultBytes: min(int(b.Spec.Result.MaxBytes), journal.MaxStepResults/max(calls, 1)),
	})
	if err != nil {
		o.fail(toolFailure(err), b.Spec.Retry)
		return
	}
	o.result = new(journal.Fit(result, calls))
}

// finish gives the outcome its time.
func (o *outcome) finish(now time.Time) *outcome {
	o.at = now
	if o.failure != nil {
		o.failure.At = now
	}
	return o
}

// fail makes the outcome a failure, to be tried again by the binding's rules if it may be.
func (o *outcome) fail(f run.Failure, retry v1alpha1.RetryPolicy) {
	f.MaxAttempts, f.Backoff = int(retry.MaxAttempts), time.Duration(retry.BackoffMilliseconds)*time.Millisecond
	o.failure = &f
}

// failJournal is for what the API server does not give us: neither model nor tool is to blame, so it is tried again until
// the deadline. A Turn that is gone does not come back.
func (o *outcome) failJournal(ctx context.Context, err error) {
	ctrl.LoggerFrom(ctx).Error(err, "reading what an effect needs", "step", o.step)
	o.failure = &run.Failure{
		Code: codeJournal, Message: "The run's journal can't be read.",
		Retryable: !errors.Is(err, journal.ErrMissing), MaxAttempts: math.MaxInt, Backoff: time.Second,
	}
}

func missingUnless(ok bool) error {
	if ok {
		return nil
	}
	return journal.ErrMissing
}

func modelFailure(err error) run.Failure {
	var e *model.Error
	if !errors.As(err, &e) {
		return run.Failure{Code: string(model.ReasonUnavailable), Message: "The model could not be asked.", Retryable: true}
	}
	return run.Failure{
		Code: string(e.Reason), Message: text.Clip(text.Clean(e.Message), maxMessage), Retryable: !e.Reason.Permanent(), RetryAfter: e.RetryAfter,
	}
}

func toolFailure(err error) run.Failure {
	var e *tool.Error
	if !errors.As(err, &e) {
		return run.Failure{Code: tool.CodeUnavailable, Message: "The tool could not be called.", Retryable: true}
	}
	return run.Failure{
		Code: text.Clip(e.Code, maxCode), Message: text.Clip(text.Clean(e.Message), maxMessage), Retryable: e.Retryable, RetryAfter: e.RetryAfter,
	}
}

const (
	maxMessage = 1024
	maxCode    = 64
)
