// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"hash/fnv"
	"time"
)

// CodeRunEnded is the code of a call that had no result when the run ended.
const CodeRunEnded = "RunEnded"

// CodeBreakerOpen is the code of an attempt that was not sent, since the other side has been down. It says nothing of the call: it
// is no failure of it, and costs it neither one of its attempts nor a tool call.
const CodeBreakerOpen = "BreakerOpen"

// maxBackoff is the longest pause that we choose ourselves; the other side may ask for a longer one.
const maxBackoff = time.Minute

var refusal = Termination{
	Reason: ReasonModelFailed, Detail: DetailRefused,
	Message: "The model, or its provider's filter, declined to answer.",
}

// asking reports whether the given attempt at the given step is the request in flight.
func (s State) asking(step, attempt int) bool {
	return s.Model != nil && s.Step == step && s.Model.Attempt == attempt && s.Model.InFlight()
}

// InFlight reports whether the request was sent and not yet answered.
func (m ModelCall) InFlight() bool { return m.NotBefore.IsZero() && !m.Held }

// nextStep asks the model again, if the limits allow it.
func (s State) nextStep(at time.Time) (State, []Effect) {
	switch {
	case s.Usage.Invalid > s.Limits.MaxInvalid:
		return s.end(at, s.tooManyInvalid())
	case s.left().Steps <= 0:
		return s.end(at, Termination{
			Reason:  ReasonMaxSteps,
			Message: s.stepsSpent(),
		})
	}
	return s.think(at)
}

// think asks the model for the next step.
func (s State) think(at time.Time) (State, []Effect) {
	s.Step++
	return s.ask(at, ModelCall{Attempt: 1})
}

// askAgain asks the model once more at the same step.
func (s State) askAgain(at time.Time) (State, []Effect) {
	return s.ask(at, ModelCall{Attempt: s.Model.Attempt + 1, Failures: s.Model.Failures, Code: s.Model.Code, Tried: s.Model.Tried})
}

func (s State) stepsSpent() string {
	text := fmt.Sprintf("The model was asked %d times and gave no answer.", s.Step)
	if s.Usage.ChildSteps > 0 {
		text += fmt.Sprintf(" Child runs took %d of the %d steps.", s.Usage.ChildSteps, s.Limits.MaxSteps)
	}
	return text
}

func (s State) tooManyInvalid() Termination {
	return Termination{
		Reason: ReasonModelFailed, Detail: DetailInvalid,
		Message: fmt.Sprintf("The model sent %d invalid things; the run allows %d.", s.Usage.Invalid, s.Limits.MaxInvalid),
	}
}

func (s State) toolCallsSpent(callID string) Termination {
	return Termination{
		Reason: ReasonBudget, Detail: DetailToolCalls, CallID: callID,
		Message: fmt.Sprintf("The run has made %d of %d tool calls, and what comes next would pass that.", s.Usage.ToolCalls, s.Limits.MaxToolCalls),
	}
}

// retryAt says when to try again after failure f, which is the given one in a row; false if it is not to be tried again.
func (s State) retryAt(key string, failures int, f Failure) (time.Time, bool) {
	if !f.Retryable || failures >= f.MaxAttempts {
		return time.Time{}, false
	}
	at := f.At.Add(pause(key, failures, f))
	return at, at.Before(s.Deadline)
}

// pause is how long to wait after failure f, which is the given one in a row. It doubles with each, up to maxBackoff, and
// varies by a fifth, so that runs that failed together do not come back together. What key names gets the same pause in every
// replay.
func pause(key string, failures int, f Failure) time.Duration {
	p := maxBackoff
	if shift := max(failures, 1) - 1; shift < 16 {
		p = min(f.Backoff<<shift, maxBackoff)
	}
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%s#%d", key, failures)
	return max(p*4/5+p*2/5*time.Duration(hash.Sum32()%1000)/1000, f.RetryAfter)
}

// keep gives the effect that puts results into the journal; none if there are none. The model will be shown them.
func (s *State) keep(results []CallResult) []Effect {
	if len(results) == 0 {
		return nil
	}
	for _, r := range results {
		s.Context += ResultTokens(r.Message)
	}
	return []Effect{KeepResults{Step: s.Step, Results: results}}
}

func (c Call) result(message string) CallResult {
	return CallResult{CallID: c.ID, State: c.State, Code: c.Code, Message: message, Attempts: c.Attempt}
}

// then puts effects before those of a transition.
func then(first []Effect) func(State, []Effect) (State, []Effect) {
	return func(s State, more []Effect) (State, []Effect) { return s, append(first, more...) }
}
