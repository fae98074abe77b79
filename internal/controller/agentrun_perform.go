// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
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
		case run.PreviewTool:
			r.askTool(ctx, p, e.CallID, r.preview)
		case run.CallTool:
			r.askTool(ctx, p, e.CallID, r.execute)
		case run.StartChild:
			r.askTool(ctx, p, e.CallID, r.startChild)
		case run.LookUpTool:
			r.askTool(ctx, p, e.CallID, r.lookUp)
		case run.StopEffects:
			r.stop(p, e)
		case run.KeepTurn, run.KeepResults:
		}
	}
	return nil
}

// stop aborts what is in flight, but for the writes that have to be settled.
func (r *AgentRunReconciler) stop(p *pass, e run.StopEffects) {
	var keep []string
	for _, c := range p.after.Calls {
		if slices.Contains(e.Keep, c.ID) {
			keep = append(keep, toolJobID(c.ID, c.Attempt))
		}
	}
	r.Effects.Stop(p.key, keep...)
	if len(keep) == 0 {
		r.bulkheads.Drop(string(p.key.UID))
	}
}

// standIn are the rules of a binding that can't be read: those that a binding has by default, without a place to wait for.
func standIn() (v1alpha1.RetryPolicy, v1alpha1.ConcurrencyLimit, int32) {
	return v1alpha1.RetryPolicy{MaxAttempts: 3, BackoffMilliseconds: 1000}, v1alpha1.ConcurrencyLimit{Max: 1}, 1
}

func rateOf(l *v1alpha1.RateLimit) effect.Rate {
	if l == nil {
		return effect.Rate{}
	}
	return effect.Rate{Events: int(l.Requests), Burst: int(l.Burst), Per: time.Duration(l.PerSeconds) * time.Second}
}

// callModel puts the request in line. What is asked, and with what key, is looked up when its turn comes: what has been
// changed or taken away by then counts.
func (r *AgentRunReconciler) callModel(ctx context.Context, p *pass, e run.CallModel) {
	agentRun, ref := p.run, p.ref
	b, err := r.modelBinding(ctx, agentRun, modelOf(agentRun, e))
	if err != nil {
		b = &v1alpha1.ModelBinding{}
		b.Spec.Retry, b.Spec.Concurrency, b.Spec.TimeoutSeconds = standIn()
	}
	r.start(ctx, effect.Job[RunKey, *outcome]{
		Owner: p.key, ID: modelJobID(e.Step, e.Attempt), Deadline: p.after.Deadline,
		Timeout: time.Duration(b.Spec.TimeoutSeconds) * time.Second,
		Pace:    r.Models.paces.Get(string(b.UID), rateOf(b.Spec.Rate)),
		Behind:  []*effect.Bulkhead{r.Models.bulkheads.Get(string(b.UID), int(b.Spec.Concurrency.Max))},
	}, outcome{step: e.Step, attempt: e.Attempt, choice: e.Choose}, func(ctx context.Context, o *outcome) {
		r.askModel(ctx, agentRun, ref, e, o)
	})
}

// start puts a job in line that makes an outcome. A panic, which only a fault in us or in a library can bring about, fails the
// effect instead of the operator: the same answer would bring it down again after each restart.
func (r *AgentRunReconciler) start(ctx context.Context, job effect.Job[RunKey, *outcome], o outcome, do func(context.Context, *outcome)) {
	job.Do = func(ctx context.Context) (out *outcome) {
		defer func() {
			if fault := recover(); fault != nil {
				ctrl.LoggerFrom(ctx).Error(fmt.Errorf("panic: %v", fault), "an effect failed by a fault of ours", "id", job.ID, "stack", string(debug.Stack()))
				o.reply, o.result, o.preview, o.nothing = nil, nil, nil, false
				o.failure = &run.Failure{Code: codeInternal, Message: "The operator failed to deal with what came back.", InDoubt: true}
				out = o.finish(r.Clock.Now())
			}
		}()
		do(ctx, &o)
		return o.finish(r.Clock.Now())
	}
	r.Effects.Start(ctx, job)
}

// modelOf names the model that a request goes to.
func modelOf(agentRun *v1alpha1.AgentRun, e run.CallModel) string {
	return cmp.Or(e.Model, agentRun.Spec.Model.Name)
}

func (r *AgentRunReconciler) modelBinding(ctx context.Context, agentRun *v1alpha1.AgentRun, name string) (*v1alpha1.ModelBinding, error) {
	var b v1alpha1.ModelBinding
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: agentRun.Namespace, Name: name}, &b)
	return &b, err
}

// askModel shows the model the history and makes an outcome of what it says.
// The request is not sent if it can have more tokens than were reserved for it.
func (r *AgentRunReconciler) askModel(ctx context.Context, agentRun *v1alpha1.AgentRun, ref journal.RunRef, e run.CallModel, o *outcome) {
	b, err := r.modelBinding(ctx, agentRun, modelOf(agentRun, e))
	if err != nil || e.MaxOutput == 0 {
		retry, _, _ := standIn()
		o.fail(run.Failure{Code: codeBindingGone, Message: "The ModelBinding can't be read.", Retryable: true, Unsent: true, Overload: true}, retry)
		return
	}
	if o.held = b.Spec.Suspend || unmet(agentRun.Spec.Model, b) != "" || r.heldNow(ctx, agentRun); o.held {
		return
	}
	history, err := r.Journal.History(ctx, ref, o.step-1)
	if err != nil {
		o.failJournal(ctx, err)
		return
	}
	request, err := r.requestFor(ctx, agentRun, e, history)
	if err != nil {
		o.failJournal(ctx, err)
		return
	}
	m, err := r.Models.Open(ctx, b)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "opening the model", "modelBinding", b.Name)
		o.fail(run.Failure{Code: codeBindingGone, Message: "The ModelBinding can't be used.", Retryable: true, Unsent: true, Overload: true}, b.Spec.Retry)
		return
	}
	if n := request.MaxTokens(); n > e.Input {
		ctrl.LoggerFrom(ctx).Info("a request was undercounted and not sent", "step", o.step, "reserved", e.Input, "needed", n)
		o.undercounted = n
		return
	}
	request.ID, request.Step, request.Attempt, request.MaxOutputTokens = fmt.Sprintf("%s/s%d", ref.UID, o.step), journal.NextTurn(history), o.attempt, int(e.MaxOutput)
	var reply run.Reply
	if wait, tried := r.Models.breaker(b).Try(func() effect.Health {
		reply, err = m.Complete(ctx, request)
		return modelHealth(ctx, err)
	}); !tried {
		o.failure = new(breakerOpen("the model "+b.Name, wait))
		o.failure.Overload = true
		return
	}
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
	if len(reply.Calls) == 0 && !o.choice {
		o.answer = answerOf(stored.Text, history)
	}
}

// requestFor makes what the model is shown, or its chooser.
func (r *AgentRunReconciler) requestFor(ctx context.Context, agentRun *v1alpha1.AgentRun, e run.CallModel, history []journal.Turn) (run.ModelRequest, error) {
	if !e.Choose {
		return r.request(ctx, agentRun, history)
	}
	router, err := r.router(ctx, agentRun)
	if err != nil {
		return run.ModelRequest{}, err
	}
	return question(agentRun, router), nil
}

// request makes what the model is shown after the given turns.
func (r *AgentRunReconciler) request(ctx context.Context, agentRun *v1alpha1.AgentRun, history []journal.Turn) (run.ModelRequest, error) {
	tools, err := r.definitions(ctx, agentRun)
	brief := briefOf(agentRun)
	return run.ModelRequest{System: brief.System(), Messages: journal.Messages(brief, history), Tools: tools}, err
}

func briefOf(agentRun *v1alpha1.AgentRun) journal.Brief {
	return journal.Brief{Goal: agentRun.Spec.Goal, Instructions: agentRun.Spec.Instructions}
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
