// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// observe turns what is new about the run into events, in the order in which they count: what has finished, then what
// people want, then what time has brought, then what a dead process left behind.
func (r *AgentRunReconciler) observe(ctx context.Context, p *pass) error {
	if v := p.run.Status.StateVersion; v > run.StateVersion {
		r.eventUnsupported(p.run, v)
		return errDone
	}
	p.before = stateOf(p.run)
	if err := r.release(ctx, p, p.before); err != nil {
		return err
	}
	b, err := r.models(ctx, p)
	if err != nil {
		return err
	}
	if p.policies, err = policiesOf(ctx, r.Client, p.run.Namespace); err != nil {
		return err
	}
	if p.before.Holds, err = r.holds(ctx, p, b); err != nil {
		return err
	}
	deleted := !p.run.DeletionTimestamp.IsZero()
	switch {
	case deleted && !p.before.Unsettled() && !isChild(p.run):
		r.Effects.Stop(p.key)
		return errDone
	case p.before.Finished():
		if err := r.letGo(ctx, p); err != nil {
			return err
		}
		if p.run.Status.ObservedGeneration != p.run.Generation {
			// Somebody has changed what can be changed of a run that has ended. It has been seen.
			return nil
		}
		return r.expire(ctx, p)
	case p.before.Phase == "":
		p.events = append(p.events, run.Created{UID: p.ref.UID, At: p.now, Limits: limitsOf(p.run.Spec), Until: untilOf(p.run)})
	}

	p.outcomes = r.Effects.Finished(p.key)
	for _, id := range slices.Sorted(maps.Keys(p.outcomes)) {
		e, err := r.eventOf(ctx, p, p.outcomes[id])
		if err != nil {
			return err
		}
		p.events = append(p.events, e)
	}
	children, err := r.children(ctx, p)
	if err != nil {
		return err
	}
	p.events = append(p.events, children...)
	p.events = append(p.events, wishes(p, deleted)...)
	for _, look := range []func(context.Context, *pass) ([]run.Event, error){r.allowed, r.prepared, r.answers, r.orphans, r.held} {
		events, err := look(ctx, p)
		if err != nil {
			return err
		}
		p.events = append(p.events, events...)
	}

	if (len(p.events) == 0 && !p.isOutdated()) || (len(p.events) > 0 && p.before.MayGather(p.events)) {
		p.wake = wakeAt(p.before, p.run.Spec)
		return errDone
	}
	return nil
}

// isOutdated reports whether the status speaks of another generation of the spec, or gives another reason why the run is held.
func (p *pass) isOutdated() bool {
	return p.run.Status.ObservedGeneration != p.run.Generation || (p.before.Held() != "" && conditionMessage(p.run) != messageOf(p.before, p.run))
}

// wishes gives what people want of the run, and what time has brought. They come before anything that lets a call through.
func wishes(p *pass, deleted bool) []run.Event {
	var events []run.Event
	switch c := p.run.Spec.Cancel; {
	case p.before.Ending != nil:
	case p.orphan:
		events = append(events, run.CancelRequested{At: p.now, Reason: "the run that started it does not wait for it any more"})
	case deleted:
		events = append(events, run.CancelRequested{At: p.now, Reason: "the run was deleted"})
	case c != nil:
		events = append(events, run.CancelRequested{At: p.now, Reason: text.Clean(c.Reason)})
	}
	if wake := p.before.NextWake(); !wake.IsZero() && !p.now.Before(wake) {
		events = append(events, run.TimePassed{At: p.now})
	}
	return events
}

// prepared looks whether a run that has not begun can begin.
func (r *AgentRunReconciler) prepared(ctx context.Context, p *pass) ([]run.Event, error) {
	if p.before.Step > 0 {
		return nil, nil
	}
	missing, err := r.missing(ctx, p)
	if err != nil || missing != "" {
		return []run.Event{run.Prepared{At: p.now, Missing: missing}}, err
	}
	if missing, err = r.itsTurn(ctx, p); err != nil || missing != "" {
		return []run.Event{run.Prepared{At: p.now, Missing: missing}}, err
	}
	request, err := r.request(ctx, p.run, nil)
	e := run.Prepared{At: p.now, Context: request.MaxTokens()}
	if router := p.before.Router; router != nil && router.Chooser != nil {
		e.Question = question(p.run, router).MaxTokens()
	}
	return []run.Event{e}, err
}

// expire deletes a finished run whose time to live is over.
func (r *AgentRunReconciler) expire(ctx context.Context, p *pass) error {
	r.forget(p.key)
	p.wake = wakeAt(p.before, p.run.Spec)
	if p.wake.IsZero() || p.now.Before(p.wake) {
		return errDone
	}
	p.wake = time.Time{}
	if err := r.Client.Delete(ctx, p.run, client.Preconditions{UID: &p.run.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the finished run: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted a finished run, as its ttlSecondsAfterFinished asks")
	return errDone
}

// missing names what the run needs and is not ready, in words; empty if nothing is missing.
func (r *AgentRunReconciler) missing(ctx context.Context, p *pass) (string, error) {
	agentRun := p.run
	if why, err := r.missingModel(ctx, p); err != nil || why != "" {
		return why, err
	}
	for _, t := range agentRun.Spec.Tools {
		b, why, err := r.toolBinding(ctx, agentRun.Namespace, t.Name)
		if err != nil {
			return "", err
		}
		if why == "" {
			why = noChild(agentRun, b)
		}
		if why != "" {
			return fmt.Sprintf("ToolBinding %s %s", t.Name, why), nil
		}
	}
	return "", nil
}

// missingModel names the model that the run needs and is not ready, in words; empty if none is missing. A run with a router needs one of
// its candidates.
func (r *AgentRunReconciler) missingModel(ctx context.Context, p *pass) (string, error) {
	if p.before.Router != nil {
		return p.before.Router.Unfit(), nil
	}
	b, err := r.modelBinding(ctx, p.run, p.run.Spec.Model.Name)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("ModelBinding %s does not exist", p.run.Spec.Model.Name), nil
	case err != nil:
		return "", fmt.Errorf("reading the ModelBinding: %w", err)
	}
	if why := unusable(p.run, b); why != "" {
		return fmt.Sprintf("ModelBinding %s %s", b.Name, why), nil
	}
	return "", nil
}

// models looks which models the run may ask now, and on what terms. It gives the one of a run that has only one, if it is there.
func (r *AgentRunReconciler) models(ctx context.Context, p *pass) (*v1alpha1.ModelBinding, error) {
	var err error
	if p.before.Router, err = r.router(ctx, p.run); err != nil || p.before.Router != nil {
		return &v1alpha1.ModelBinding{}, err
	}
	b, err := r.modelBinding(ctx, p.run, p.run.Spec.Model.Name)
	p.before.Terms = termsOf(b)
	return b, client.IgnoreNotFound(err)
}

// toolBinding reads a ToolBinding, and says why it can't be used; empty if it can.
func (r *AgentRunReconciler) toolBinding(ctx context.Context, namespace, name string) (*v1alpha1.ToolBinding, string, error) {
	var b v1alpha1.ToolBinding
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &b)
	switch {
	case apierrors.IsNotFound(err):
		return nil, bindingMissing, nil
	case err != nil:
		return nil, "", fmt.Errorf("reading ToolBinding %s: %w", name, err)
	}
	generation := b.Generation
	if _, ok := rulesGeneration(&b); ok {
		generation = b.Status.ObservedGeneration
	}
	if why := notReady(b.Status.Conditions, generation); why != "" {
		return nil, "is not ready: " + why, nil
	}
	return &b, "", nil
}

// bindingMissing is why a binding that is not there can't be used.
const bindingMissing = "does not exist"

// notReady gives the reason why a binding is not Ready for its newest generation; empty if it is.
func notReady(conditions []metav1.Condition, generation int64) string {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration != generation:
		return "it has not been looked at yet"
	case ready.Status != metav1.ConditionTrue:
		return ready.Reason
	}
	return ""
}

// orphans gives the events for what is in flight according to the state, with nobody in this process who performs it. What
// the journal holds already is taken from there: an answer is not asked, or paid, for twice.
func (r *AgentRunReconciler) orphans(ctx context.Context, p *pass) ([]run.Event, error) {
	var found []run.Event
	if m := p.before.Model; m != nil && m.InFlight() && !r.Effects.Knows(p.key, modelJobID(p.before.Step, m.Attempt)) {
		e, err := r.adoptReply(ctx, p, *m)
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	for _, c := range p.before.Calls {
		if (!c.InFlight() && !c.Outstanding()) || (c.Grant != nil && c.State != run.CallPreviewing) || r.Effects.Knows(p.key, toolJobID(c.ID, c.Attempt)) {
			continue
		}
		turn, err := r.turnOf(ctx, p, c)
		if err != nil {
			return nil, err
		}
		if e := adoptResult(p, c, turn); e != nil {
			found = append(found, e)
		}
	}
	return found, nil
}

// children gives the events for the calls whose child runs nobody is starting. They come before what time has brought: a child that has
// ended in time is charged what it used.
func (r *AgentRunReconciler) children(ctx context.Context, p *pass) ([]run.Event, error) {
	var found []run.Event
	for _, c := range p.before.Calls {
		if !c.Outstanding() || c.Grant == nil || r.Effects.Knows(p.key, toolJobID(c.ID, c.Attempt)) {
			continue
		}
		events, err := r.adoptChild(ctx, p, c)
		if err != nil {
			return nil, err
		}
		found = append(found, events...)
	}
	return found, nil
}

// turnOf gives the Turn of a call; an empty one if there is none. Of a write it is read anew: another process may have written
// there.
func (r *AgentRunReconciler) turnOf(ctx context.Context, p *pass, c run.Call) (journal.Turn, error) {
	if !c.Rules.Write {
		turn, _, err := r.Journal.Find(ctx, p.ref, p.before.Step)
		return turn, err
	}
	turn, err := r.Journal.Read(ctx, p.ref, p.before.Step)
	if errors.Is(err, journal.ErrMissing) {
		return journal.Turn{}, nil
	}
	return turn, err
}

func (r *AgentRunReconciler) adoptReply(ctx context.Context, p *pass, m run.ModelCall) (run.Event, error) {
	turn, ok, err := r.Journal.Find(ctx, p.ref, p.before.Step)
	if err != nil {
		return nil, err
	}
	if !ok {
		return run.EffectLost{Attempt: m.Attempt, At: p.now}, nil
	}
	if turn.Route {
		e := chosen(p.before.Step, m.Attempt, turn.Reply)
		e.At = p.now
		return e, nil
	}
	e := run.ModelReplied{
		Step: p.before.Step, Attempt: m.Attempt, At: p.now, Finish: turn.Reply.Finish, Empty: turn.Reply.Text == "", Usage: turn.Reply.Usage,
		Tokens: turn.Reply.MaxTokens(),
	}
	stored := make([]string, len(turn.Reply.Calls))
	for i, c := range turn.Reply.Calls {
		stored[i] = c.Arguments
	}
	e.Calls, err = r.proposals(ctx, p, turn.At, turn.Reply, stored)
	if err != nil {
		return nil, err
	}
	for i, c := range turn.Reply.Calls {
		if result, ok := turn.Result(c.ID); ok {
			e.Calls[i].Recorded.Code, e.Calls[i].Recorded.Message = result.Code, result.Message
		}
	}
	if len(turn.Reply.Calls) == 0 {
		history, err := r.Journal.History(ctx, p.ref, p.before.Step-1)
		if err != nil && !errors.Is(err, journal.ErrMissing) {
			return nil, err
		}
		e.Answer = answerOf(turn.Reply.Text, history)
	}
	return e, nil
}

// adoptResult gives what the journal holds of a call. If it holds nothing, what is in flight is lost; nil if nothing is. It is
// lost, too, if all the journal holds is that the run ended with the call open: what ended the run ends it again.
func adoptResult(p *pass, c run.Call, turn journal.Turn) run.Event {
	result, ok := turn.Result(c.ID)
	switch {
	case ok && result.State == run.CallSucceeded:
		return run.ToolSucceeded{CallID: c.ID, Attempt: c.Attempt, At: p.now, Tokens: result.Answer.MaxTokens(), Digest: arguments.Digest(result.Answer.Data)}
	case ok && result.Code != run.CodeRunEnded:
		return run.ToolFailed{CallID: c.ID, Attempt: c.Attempt, Failure: run.Failure{At: p.now, Code: result.Code, Message: result.Message}}
	}
	if !c.InFlight() {
		return nil
	}
	return run.EffectLost{CallID: c.ID, Attempt: c.Attempt, At: p.now}
}
