// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"math"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
	"github.com/interlock-dev/interlock/internal/tool"
)

// An outcome is what an effect came to: a reply, an answer of a tool's, or a failure.
type outcome struct {
	at      time.Time
	step    int
	callID  string
	attempt int

	// reply is a model's; raw holds the arguments of its calls as they came, and answer is what it ends the run with if it has
	// no calls.
	reply  *journal.Reply
	raw    []string
	answer run.Answer
	// choice: the model is a chooser.
	choice bool
	// held: it was not sent, since the run, the model or the tool has been suspended.
	held bool
	// undercounted is the most tokens that the request can have, if that is more than was reserved. It was not sent.
	undercounted int64
	// result is a tool's, preview is what it would do, and nothing says that it did nothing.
	result  *run.ToolResult
	preview *run.ToolPreview
	nothing bool
	// child is the UID of the call's child run, once it is there.
	child string
	// failure is why there is neither.
	failure *run.Failure
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
		Unsent: true, Code: codeJournal, Message: "The run's journal can't be read.",
		Retryable: !errors.Is(err, journal.ErrMissing), MaxAttempts: math.MaxInt, Backoff: time.Second,
	}
}

func missingUnless(ok bool) error {
	if ok {
		return nil
	}
	return journal.ErrMissing
}

// modelError gives the port's error in err; nil if there is none.
func modelError(err error) *model.Error {
	e, _ := errors.AsType[*model.Error](err)
	return e
}

// toolError gives the port's error in err; nil if there is none.
func toolError(err error) *tool.Error {
	e, _ := errors.AsType[*tool.Error](err)
	return e
}

func modelFailure(err error) run.Failure {
	e := modelError(err)
	if e == nil {
		return run.Failure{Code: string(model.ReasonUnavailable), Message: "The model could not be asked.", Retryable: true, Overload: true}
	}
	return run.Failure{
		Code: string(e.Reason), Message: text.Clip(text.Clean(e.Message), maxMessage), Retryable: !e.Reason.Permanent(), RetryAfter: e.RetryAfter,
		Unsent: e.Reason.Unseen(), Overload: e.Reason.Overload(),
	}
}

func toolFailure(err error) run.Failure {
	e := toolError(err)
	if e == nil {
		return run.Failure{Code: tool.CodeUnavailable, Message: "The tool could not be called.", Retryable: true, InDoubt: true}
	}
	code := text.Clip(e.Code, maxCode)
	if code == run.CodeBreakerOpen {
		// That one is ours to say: it costs the call nothing.
		code = tool.CodeToolError
	}
	return run.Failure{
		Code: code, Message: text.Clip(text.Clean(e.Message), maxMessage), Retryable: e.Retryable, RetryAfter: e.RetryAfter,
		InDoubt: e.Outcome == tool.InDoubt, Changed: e.Changed,
	}
}

const (
	maxMessage = 1024
	maxCode    = 64
)
