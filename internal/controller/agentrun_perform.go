// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/effect"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

// Codes of failures that are neither the model's nor the tool's.
const (
	codeJournal     = "JournalUnavailable"
	codeBindingGone = "BindingUnavailable"
	codeToolChanged = "ToolChanged"
	codeInternal    = "Internal"
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

// standIn are the rules of a binding that can't be read: those that a binding has by default, without a place to wait for.
func standIn() (v1alpha1.RetryPolicy, v1alpha1.ConcurrencyLimit, int32) {
	return v1alpha1.RetryPolicy{MaxAttempts: 3, BackoffMilliseconds: 1000}, v1alpha1.ConcurrencyLimit{Max: 1}, 1
}

// callModel puts the request in line. What is asked, and with what key, is looked up when its turn comes: what has been
// changed or taken away by then counts.
func (r *AgentRunReconciler) callModel(ctx context.Context, p *pass, e run.CallModel) {
	agentRun, ref := p.run, p.ref
	b, err := r.modelBinding(ctx, agentRun)
	if err != nil {
		b = &v1alpha1.ModelBinding{}
		b.Spec.Retry, b.Spec.Concurrency, b.Spec.TimeoutSeconds = standIn()
	}
	r.start(ctx, effect.Job[RunKey, *outcome]{
		Owner: p.key, ID: modelJobID(e.Step, e.Attempt), Deadline: p.after.Deadline,
		Timeout: time.Duration(b.Spec.TimeoutSeconds) * time.Second,
		Behind:  []*effect.Bulkhead{r.Models.bulkheads.Get(string(b.UID), int(b.Spec.Concurrency.Max))},
	}, outcome{step: e.Step, attempt: e.Attempt}, func(ctx context.Context, o *outcome) {
		r.askModel(ctx, agentRun, ref, o)
	})
}

// start puts a job in line that makes an outcome. A panic, which only a fault in us or in a library can bring about, fails the
// effect instead of the operator: the same answer would bring it down again after each restart.
func (r *AgentRunReconciler) start(ctx context.Context, job effect.Job[RunKey, *outcome], o outcome, do func(context.Context, *outcome)) {
	job.Do = func(ctx context.Context) (out *outcome) {
		defer func() {
			if fault := recover(); fault != nil {
				ctrl.LoggerFrom(ctx).Error(fmt.Errorf("panic: %v", fault), "an effect failed by a fault of ours", "id", job.ID, "stack", string(debug.Stack()))
				o.reply, o.result = nil, nil
				o.failure = &run.Failure{Code: codeInternal, Message: "The operator failed to deal with what came back."}
				out = o.finish(r.Clock.Now())
			}
		}()
		do(ctx, &o)
		return o.finish(r.Clock.Now())
	}
	r.Effects.Start(ctx, job)
}

func (r *AgentRunReconciler) modelBinding(ctx context.Context, agentRun *v1alpha1.AgentRun) (*v1alpha1.ModelBinding, error) {
	var b v1alpha1.ModelBinding
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: agentRun.Namespace, Name: agentRun.Spec.Model.Name}, &b)
	return &b, err
}

// askModel shows the model the history and makes an outcome of what it says.
func (r *AgentRunReconciler) askModel(ctx context.Context, agentRun *v1alpha1.AgentRun, ref journal.RunRef, o *outcome) {
	b, err := r.modelBinding(ctx, agentRun)
	if err != nil {
		retry, _, _ := standIn()
		o.fail(run.Failure{Code: codeBindingGone, Message: "The ModelBinding can't be read.", Retryable: true}, retry)
		return
	}
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

// callTool puts a call in line. Whether its tool may still be called, by the rules it was checked against, is looked at when
// its turn comes.
func (r *AgentRunReconciler) callTool(ctx context.Context, p *pass, e run.CallTool) {
	ref, call, calls := p.ref, callOf(p.after, e.CallID), len(p.after.Calls)
	b, _, _ := r.toolBinding(ctx, ref.Namespace, call.Tool)
	if b == nil {
		b = &v1alpha1.ToolBinding{}
		b.Spec.Retry, b.Spec.Concurrency, b.Spec.TimeoutSeconds = standIn()
	}
	r.start(ctx, effect.Job[RunKey, *outcome]{
		Owner: p.key, ID: toolJobID(e.CallID, e.Attempt), Deadline: p.after.Deadline,
		Timeout: time.Duration(b.Spec.TimeoutSeconds) * time.Second,
		Behind: []*effect.Bulkhead{
			r.bulkheads.Get(string(p.key.UID), int(p.run.Spec.Limits.Parallelism)),
			r.Tools.bulkheads.Get(string(b.UID), int(b.Spec.Concurrency.Max)),
		},
	}, outcome{step: p.after.Step, callID: e.CallID, attempt: e.Attempt}, func(ctx context.Context, o *outcome) {
		r.execute(ctx, ref, call, calls, o)
	})
}

func callOf(s run.State, id string) run.Call {
	c, _ := s.Call(id)
	return c
}

// execute sends a call: exactly the bytes whose digest is in the recorded state, by the binding that they were checked
// against.
func (r *AgentRunReconciler) execute(ctx context.Context, ref journal.RunRef, call run.Call, calls int, o *outcome) {
	b, why, err := r.toolBinding(ctx, ref.Namespace, call.Tool)
	switch {
	case b == nil:
		retry, _, _ := standIn()
		o.fail(run.Failure{Code: codeBindingGone, Message: "The tool's binding can't be used now. " + why, Retryable: err != nil}, retry)
		return
	case (run.Binding{UID: string(b.UID), Generation: b.Generation}) != call.Binding:
		o.fail(run.Failure{Code: codeToolChanged, Message: "The tool's binding was changed after the call was checked. Make the call again."}, b.Spec.Retry)
		return
	}
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
