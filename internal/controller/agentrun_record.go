// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
)

// record makes the decision durable: what was said and done goes into the journal, then the state with its intents into the
// status, with one write that fails if anybody has changed the run since it was read. What was decided on is then
// acknowledged. If the status write fails, nothing is sent, and the next pass decides anew on what the journal holds.
func (r *AgentRunReconciler) record(ctx context.Context, p *pass) error {
	if err := r.keep(ctx, p); err != nil {
		return err
	}
	if err := r.hold(ctx, p); err != nil {
		return err
	}
	status := statusOf(p.after, p.run)
	var err error
	if status.PendingApprovals, err = r.pendingApprovals(ctx, p); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(p.run.Status, status) {
		updated := p.run.DeepCopy()
		updated.Status = status
		err := r.Client.Status().Update(ctx, updated)
		switch {
		case apierrors.IsNotFound(err):
			p.wake = time.Time{}
			return errDone
		case err != nil:
			return fmt.Errorf("recording the state: %w", err)
		}
		if waitsAnew(p.run, updated) {
			p.wake = p.now
		}
		said := conditionMessage(p.run)
		p.run = updated
		if conditionMessage(updated) != said {
			r.report(p)
		}
	}
	r.Effects.Acknowledge(p.key, slices.Collect(maps.Keys(p.outcomes))...)
	if err := r.release(ctx, p, p.after); err != nil || !p.after.Finished() {
		return err
	}
	return r.letGo(ctx, p)
}

// waitsAnew reports whether a run waits for something that it did not wait for before. That may have come while this was recorded, when
// nobody knew that the run would wait for it: so it is looked at once more.
func waitsAnew(before, after *v1alpha1.AgentRun) bool {
	old := waits(before)
	return slices.ContainsFunc(waits(after), func(key string) bool { return !slices.Contains(old, key) })
}

// conditionMessage is what people are told of a run.
func conditionMessage(agentRun *v1alpha1.AgentRun) string {
	ready := meta.FindStatusCondition(agentRun.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return ""
	}
	return ready.Message
}

// finalizer keeps a deleted run until its write is settled. It is there only while there is one.
const finalizer = "interlock.dev/unsettled-write"

// hold keeps the run from vanishing while a write is about to be sent.
func (r *AgentRunReconciler) hold(ctx context.Context, p *pass) error {
	if !p.after.Unsettled() {
		return nil
	}
	return r.finalize(ctx, p, controllerutil.AddFinalizer)
}

// release lets the run go once its writes are settled.
func (r *AgentRunReconciler) release(ctx context.Context, p *pass, s run.State) error {
	if s.Unsettled() {
		return nil
	}
	return client.IgnoreNotFound(r.finalize(ctx, p, controllerutil.RemoveFinalizer))
}

func (r *AgentRunReconciler) finalize(ctx context.Context, p *pass, change func(client.Object, string) bool) error {
	updated := p.run.DeepCopy()
	if !change(updated, finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(p.run, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, updated, patch); err != nil {
		return fmt.Errorf("changing the finalizer: %w", err)
	}
	p.run = updated
	return nil
}

// keep puts into the journal what the state is about to count. A new Turn is stored with the results that it has already.
func (r *AgentRunReconciler) keep(ctx context.Context, p *pass) error {
	var turn *journal.Turn
	var results []journal.Result
	var step int
	for _, e := range p.effects {
		switch e := e.(type) {
		case run.KeepTurn:
			turn = p.replyTurn(e.Step)
		case run.KeepResults:
			step = e.Step
			for _, result := range e.Results {
				results = append(results, p.resultOf(result))
			}
		case run.CallModel, run.PreviewTool, run.CallTool, run.StartChild, run.LookUpTool, run.StopEffects:
		}
	}
	if turn != nil {
		turn.Results = results
		return r.keepTurn(ctx, p, *turn)
	}
	return r.keepResults(ctx, p, step, results)
}

// keepTurn stores a new Turn. From then on the journal has the reply, with what was refused of it: should the status write
// fail, the next pass takes it from there instead of looking at the reply anew.
func (r *AgentRunReconciler) keepTurn(ctx context.Context, p *pass, turn journal.Turn) error {
	err := r.Journal.Keep(ctx, p.ref, turn)
	if err == nil || errors.Is(err, journal.ErrOtherReply) {
		r.Effects.Acknowledge(p.key, slices.Collect(maps.Keys(p.outcomes))...)
		return err
	}
	if (refusedForGood(err) || p.tooLate(err)) && p.blame(func(o *outcome) bool { return o.reply != nil }) {
		return fmt.Errorf("storing the reply of step %d: %w", turn.Step, err)
	}
	return r.goOnWithout(ctx, p, err)
}

// keepResults adds results to the Turn of a step. If the API server refuses them together, they are tried one by one, so that
// one that can't be stored does not cost the others.
func (r *AgentRunReconciler) keepResults(ctx context.Context, p *pass, step int, results []journal.Result) error {
	if len(results) == 0 {
		return nil
	}
	err := r.Journal.Append(ctx, p.ref, step, results)
	if p.tooLate(err) || !refusedForGood(err) {
		return r.goOnWithout(ctx, p, err)
	}
	blamed := false
	for _, result := range results {
		one := r.Journal.Append(ctx, p.ref, step, []journal.Result{result})
		if one != nil && !refusedForGood(one) {
			return one
		}
		if one != nil && p.blame(func(o *outcome) bool { return o.callID == result.CallID && o.result != nil }) {
			blamed = true
			r.blameChild(p, result.CallID)
		}
	}
	if blamed {
		return fmt.Errorf("storing results of step %d: %w", step, err)
	}
	return r.goOnWithout(ctx, p, err)
}

// blame turns what came back and can't be stored into a failure, to be decided on in the next pass: it is dealt with once
// instead of being tried for ever. It reports whether there was any.
func (p *pass) blame(at func(*outcome) bool) bool {
	blamed := false
	for _, o := range p.outcomes {
		if at(o) {
			o.reply, o.result, blamed = nil, nil, true
			o.failure = &run.Failure{At: o.at, Code: codeUnstorable, Message: "What came back can't be stored."}
		}
	}
	return blamed
}

// blameChild remembers that the journal does not take the answer of a child, which is read anew in each pass.
func (r *AgentRunReconciler) blameChild(p *pass, callID string) {
	if o := p.outcomes[childOutcome+callID]; o != nil {
		r.unstorable.Store(o.child, nil)
	}
}

// goOnWithout lets a run go on when the journal does not even take that something failed, or has lost its Turn: it must come
// to its end. Any other error is given back.
func (r *AgentRunReconciler) goOnWithout(ctx context.Context, p *pass, err error) error {
	if !refusedForGood(err) && !errors.Is(err, journal.ErrMissing) && !p.tooLate(err) {
		return err
	}
	ctrl.LoggerFrom(ctx).Error(err, "the journal lacks what has happened")
	return nil
}

// tooLate reports whether the API server forbids what the journal needs (a quota is used up, the namespace is about to go) of a run that
// has to end: it does not wait for that to change.
func (p *pass) tooLate(err error) bool {
	over := !p.now.Before(p.before.Deadline) || p.run.Spec.Cancel != nil || !p.run.DeletionTimestamp.IsZero() || p.orphan
	return over && apierrors.IsForbidden(err)
}

// replyTurn makes the Turn of the reply that came in this pass; nil if the reply was found in the journal.
func (p *pass) replyTurn(step int) *journal.Turn {
	for _, o := range p.outcomes {
		if o.reply != nil && o.step == step {
			return &journal.Turn{Step: step, At: o.at, Route: o.choice, Reply: *o.reply}
		}
	}
	return nil
}

// resultOf adds to a call's result what the tool has answered in this pass.
func (p *pass) resultOf(result run.CallResult) journal.Result {
	out := journal.Result{CallResult: result, At: p.now}
	c, _ := p.after.Call(result.CallID)
	if result.Attempts > 0 {
		out.OperationID = c.OperationID
	}
	if c.Ask != nil {
		out.ApprovalDigest, out.ApprovedBy = c.Ask.Digest, c.Ask.Consents
	}
	for _, o := range p.outcomes {
		if o.callID == result.CallID && o.result != nil && result.State == run.CallSucceeded {
			out.At, out.Answer = o.at, *o.result
		}
	}
	return out
}

// refusedForGood reports whether the API server will never take what it was sent. That an object is too large it says in three
// ways, and in two of them only in words: etcd's, and those of the limit on messages to etcd.
func refusedForGood(err error) bool {
	if err == nil {
		return false
	}
	words := err.Error()
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(words, "request is too large") || strings.Contains(words, "trying to send message larger than max")
}

// codeUnstorable is the code of an answer that the API server does not take.
const codeUnstorable = "Unstorable"
