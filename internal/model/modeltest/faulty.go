// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

// A Kind is a way for a call to go wrong.
type Kind string

// The kinds of fault.
const (
	// Fail: the call fails with the fault's reason, and the model is not asked.
	Fail Kind = "Fail"
	// Lose: the model is asked, and charges, but its answer is lost: the call fails with the fault's reason.
	Lose Kind = "Lose"
	// Hang: the call returns only when its context is done, and the model is not asked.
	Hang Kind = "Hang"
)

// A Fault is what happens to one call.
type Fault struct {
	Kind Kind
	// Reason is Unavailable if empty. RetryAfter goes with it.
	Reason     model.Reason
	RetryAfter time.Duration
}

// Faulty is a Model whose nth call goes wrong.
type Faulty struct {
	inner model.Model
	nth   map[int64]Fault
	calls atomic.Int64
}

// NewFaulty wraps inner. The keys of nth count the calls from 1; a call that is not in it goes through.
func NewFaulty(inner model.Model, nth map[int]Fault) *Faulty {
	f := &Faulty{inner: inner, nth: make(map[int64]Fault, len(nth))}
	for n, fault := range nth {
		f.nth[int64(n)] = fault
	}
	return f
}

// Calls counts the calls so far.
func (f *Faulty) Calls() int { return int(f.calls.Load()) }

// Complete asks the wrapped model unless this call is to go wrong.
func (f *Faulty) Complete(ctx context.Context, req run.ModelRequest) (run.Reply, error) {
	fault, found := f.nth[f.calls.Add(1)]
	if !found {
		return f.inner.Complete(ctx, req)
	}
	switch fault.Kind {
	case Hang:
		<-ctx.Done()
		return run.Reply{}, model.ContextError(ctx.Err())
	case Lose:
		if _, err := f.inner.Complete(ctx, req); err != nil {
			return run.Reply{}, err
		}
	case Fail:
	}
	return run.Reply{}, fault.error()
}

func (f Fault) error() *model.Error {
	reason := f.Reason
	if reason == "" {
		reason = model.ReasonUnavailable
	}
	return &model.Error{Reason: reason, RetryAfter: f.RetryAfter, Message: "the test makes this call fail"}
}
