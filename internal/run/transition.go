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

// maxBackoff is the longest pause that we choose ourselves; the other side may ask for a longer one.
const maxBackoff = time.Minute

var refusal = Termination{
	Reason: ReasonModelFailed, Detail: DetailRefused,
	Message: "The model, or its provider's filter, declined to answer.",
}

// asking reports whether the given attempt at the given step is the request in flight.
func (s State) asking(step, attempt int) bool {
	return s.Model != nil && s.Step == step && s.Model.Attempt == attempt && s.Model.NotBefore.IsZero()
}

// executing finds the call in flight at the given attempt; -1 if there is none.
func (s State) executing(callID string, attempt int) int {
	for i, c := range s.Calls {
		if c.ID == callID && c.State == CallExecuting && c.Attempt == attempt && !s.Finished() {
			return i
		}
	}
	return -1
}

// whenAllDone goes to the next step once every call has its result.
func (s State) whenAllDone(at time.Time) (State, []Effect) {
	for _, c := range s.Calls {
		if !c.Done() {
			return s, nil
		}
	}
	return s.nextStep(at)
}

// nextStep asks the model again, if the limits allow it.
func (s State) nextStep(at time.Time) (State, []Effect) {
	switch {
	case s.Usage.Invalid > s.Limits.MaxInvalid:
		return s.end(at, s.tooManyInvalid())
	case s.Step >= s.Limits.MaxSteps:
		return s.end(at, Termination{
			Reason:  ReasonMaxSteps,
			Message: fmt.Sprintf("The model was asked %d times and gave no answer.", s.Limits.MaxSteps),
		})
	}
	return s.think()
}

// think asks the model for the next step.
func (s State) think() (State, []Effect) {
	s.Step++
	s.Phase = Thinking
	return s.ask(ModelCall{Attempt: 1})
}

// ask puts the intent to call the model into the state.
func (s State) ask(m ModelCall) (State, []Effect) {
	s.Model = &m
	s.Usage.ModelCalls++
	return s, []Effect{CallModel{Step: s.Step, Attempt: m.Attempt}}
}

// sendAgain sends the calls at the given places once more, or ends the run if the budget does not hold all of them.
func (s State) sendAgain(at time.Time, places []int) (State, []Effect) {
	if len(places) > 0 && s.Usage.ToolCalls+len(places) > s.Limits.MaxToolCalls {
		return s.end(at, s.toolCallsSpent(s.Calls[places[0]].ID))
	}
	var effects []Effect
	for _, i := range places {
		c := &s.Calls[i]
		c.State, c.Attempt, c.NotBefore = CallExecuting, c.Attempt+1, time.Time{}
		s.Usage.ToolCalls++
		effects = append(effects, c.send())
	}
	return s, effects
}

// end ends the run. Calls without a result get one, so that the journal is whole.
func (s State) end(at time.Time, t Termination) (State, []Effect) {
	switch t.Reason {
	case ReasonFinal:
		s.Phase = Succeeded
	case ReasonCancelled:
		s.Phase = Cancelled
	case ReasonMaxSteps, ReasonDeadline, ReasonBudget, ReasonToolFailed, ReasonModelFailed:
		s.Phase = Failed
	}
	t.Step = s.Step
	s.Termination, s.Completed, s.Model, s.Waiting = &t, at, nil, ""
	var open []CallResult
	for i, c := range s.Calls {
		if c.Done() {
			continue
		}
		s.Calls[i].State, s.Calls[i].NotBefore, s.Calls[i].Code = CallFailed, time.Time{}, CodeRunEnded
		open = append(open, s.Calls[i].result("The run ended before the call was answered."))
	}
	return s, append(s.keep(open), StopEffects{})
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

// retryAt says when to try again after failure f of the given attempt; false if it is not to be tried again. The pause
// doubles with each attempt, up to maxBackoff, and varies by a fifth, so that runs that failed together do not come back
// together. What key names gets the same pause in every replay.
func (s State) retryAt(key string, attempt int, f Failure) (time.Time, bool) {
	if !f.Retryable || attempt >= f.MaxAttempts {
		return time.Time{}, false
	}
	pause := maxBackoff
	if shift := attempt - 1; shift < 16 {
		pause = min(f.Backoff<<shift, maxBackoff)
	}
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%s#%d", key, attempt)
	pause = pause*4/5 + pause*2/5*time.Duration(hash.Sum32()%1000)/1000
	at := f.At.Add(max(pause, f.RetryAfter))
	return at, at.Before(s.Deadline)
}

// keep gives the effect that puts results into the journal; none if there are none.
func (s State) keep(results []CallResult) []Effect {
	if len(results) == 0 {
		return nil
	}
	return []Effect{KeepResults{Step: s.Step, Results: results}}
}

func (c Call) send() Effect {
	return CallTool{
		CallID: c.ID, Tool: c.Tool, Attempt: c.Attempt, OperationID: c.OperationID, ArgumentsDigest: c.ArgumentsDigest,
	}
}

func (c Call) result(message string) CallResult {
	return CallResult{CallID: c.ID, State: c.State, Code: c.Code, Message: message, Attempts: c.Attempt}
}

// withReply counts the tokens of one reply.
func (u Usage) withReply(t TokenUsage) Usage {
	if !t.Reported {
		u.Unreported++
		return u
	}
	u.Tokens.Input += t.Input
	u.Tokens.CachedInput += t.CachedInput
	u.Tokens.Output += t.Output
	u.Tokens.Reasoning += t.Reasoning
	return u
}

// then puts effects before those of a transition.
func then(first []Effect) func(State, []Effect) (State, []Effect) {
	return func(s State, more []Effect) (State, []Effect) { return s, append(first, more...) }
}
