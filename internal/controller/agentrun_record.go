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

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
)

// record makes the decision durable: what was said and done goes into the journal, then the state with its intents into the
// status, with one write that fails if anybody has changed the run since it was read. What was decided on is then
// acknowledged. If anything fails, nothing has happened yet, and the next pass decides anew.
func (r *AgentRunReconciler) record(ctx context.Context, p *pass) error {
	if err := r.keep(ctx, p); err != nil {
		return err
	}
	status := statusOf(p.after, p.run)
	if !equality.Semantic.DeepEqual(p.run.Status, status) {
		updated := p.run.DeepCopy()
		updated.Status = status
		if err := r.Client.Status().Update(ctx, updated); err != nil {
			return fmt.Errorf("recording the state: %w", err)
		}
		p.run = updated
		r.report(p)
	}
	r.Effects.Acknowledge(p.key, slices.Collect(maps.Keys(p.outcomes))...)
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
		case run.CallModel, run.CallTool, run.StopEffects:
		}
	}
	switch {
	case turn != nil:
		turn.Results = results
		return r.unlessUnstorable(ctx, p, r.Journal.Keep(ctx, p.ref, *turn))
	case len(results) > 0:
		return r.unlessUnstorable(ctx, p, r.Journal.Append(ctx, p.ref, step, results))
	}
	return nil
}

// replyTurn makes the Turn of the reply that came in this pass; nil if the reply was found in the journal.
func (p *pass) replyTurn(step int) *journal.Turn {
	for _, o := range p.outcomes {
		if o.reply != nil && o.step == step {
			return &journal.Turn{Step: step, At: o.at, Reply: *o.reply}
		}
	}
	return nil
}

// resultOf adds to a call's result what the tool has answered in this pass.
func (p *pass) resultOf(result run.CallResult) journal.Result {
	out := journal.Result{CallResult: result, At: p.now}
	for _, o := range p.outcomes {
		if o.callID == result.CallID && o.result != nil && result.State == run.CallSucceeded {
			out.At, out.Answer = o.at, *o.result
		}
	}
	return out
}

// unlessUnstorable deals with what the API server will never take, so that it is dealt with once instead of being tried for
// ever: what came back becomes a failure, to be decided on anew. If the journal does not even take that, or has lost the
// Turn, the run goes on without: it must come to its end.
func (r *AgentRunReconciler) unlessUnstorable(ctx context.Context, p *pass, err error) error {
	switch {
	case errors.Is(err, journal.ErrOtherReply):
		r.Effects.Acknowledge(p.key, slices.Collect(maps.Keys(p.outcomes))...)
		return err
	case !refusedForGood(err) && !errors.Is(err, journal.ErrMissing):
		return err
	}
	blamed := false
	for _, o := range p.outcomes {
		if o.reply != nil || o.result != nil {
			blamed = true
			o.reply, o.result = nil, nil
			o.failure = &run.Failure{At: o.at, Code: codeUnstorable, Message: "What came back can't be stored."}
		}
	}
	if blamed {
		return err
	}
	ctrl.LoggerFrom(ctx).Error(err, "the journal lacks what has happened, since it can't be stored")
	return nil
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
