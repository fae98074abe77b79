// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"time"
)

// lookUpTime is how long an end waits, beyond the call's own time, for an answer to what became of it.
const lookUpTime = 30 * time.Second

// doubt deals with a write that may have happened, and with a look-up that brought no answer. It is looked up, never sent
// again to find out.
func (s State) doubt(i int, f Failure) (State, []Effect) {
	c := &s.Calls[i]
	c.Code = f.Code
	switch {
	case c.Grant != nil:
		return s.lookAgain(i, f)
	case !c.Rules.LookUp:
		return s.unknown(i, f.At)
	case c.State == CallExecuting:
		return s.lookUp(i, f.At)
	}
	c.Failures++
	c.NotBefore = f.At.Add(pause(c.OperationID, c.Failures, f))
	return s, nil
}

// lookUp asks what became of a write. What can't be looked up has been given the time of the call, in which another process
// might have answered, and is unknown for good.
func (s State) lookUp(i int, at time.Time) (State, []Effect) {
	c := &s.Calls[i]
	switch {
	case c.Grant != nil:
		return s, []Effect{c.startAgain()}
	case !c.Rules.LookUp:
		return s.unknown(i, at)
	}
	c.State, c.NotBefore = CallLookingUp, time.Time{}
	c.Attempt++
	return s, []Effect{LookUpTool{CallID: c.ID, Tool: c.Tool, Attempt: c.Attempt, OperationID: c.OperationID}}
}

// nothingDone sends a write again that has certainly not happened, unless the run is about to end.
func (s State) nothingDone(e NothingDone) (State, []Effect) {
	i := s.inFlight(e.CallID, e.Attempt)
	if i < 0 || s.Calls[i].State == CallPreviewing {
		return s, nil
	}
	c := &s.Calls[i]
	if s.Ending != nil {
		return s.failCall(i, Failure{At: e.At, Code: CodeRunEnded, Message: "The run ended before the call was made."})
	}
	if c.Ask != nil && !e.At.Before(c.Ask.Expires) {
		return s.failCall(i, Failure{At: e.At, Code: CodeApprovalExpired, Message: "The call was not made, and the approval has expired."})
	}
	c.State = CallReady
	return s.executeAgain(i, e.At)
}

// effectLost goes on where a process died. What changes nothing is made again; a write is looked up. It is a new attempt, but
// no failure.
func (s State) effectLost(e EffectLost) (State, []Effect) {
	if e.CallID == "" {
		if !s.asking(s.Step, e.Attempt) {
			return s, nil
		}
		s.settle(TokenUsage{})
		return s.askAgain(e.At)
	}
	i := s.inFlight(e.CallID, e.Attempt)
	if i < 0 {
		return s, nil
	}
	switch c := &s.Calls[i]; {
	case c.Child != "":
		return s, nil
	case c.Grant != nil && c.State != CallPreviewing:
		return s, []Effect{c.startAgain()}
	case c.State == CallPreviewing && s.Holds.ofTool(c.Tool) != "":
		c.park()
		return s, nil
	case c.State == CallPreviewing:
		return s, []Effect{c.preview()}
	case !c.Rules.Write:
		return s.executeAgain(i, e.At)
	case !c.Rules.LookUp:
		c.State, c.NotBefore = CallLookingUp, e.At.Add(c.Rules.Timeout)
		return s, nil
	}
	return s.lookUp(i, e.At)
}

// end ends the run: at once or, if a write is not settled or a child run goes on, as soon as that is over. Nothing else goes on meanwhile. Calls without a
// result get one, so that the journal is whole.
func (s State) end(at time.Time, t Termination) (State, []Effect) {
	t.Step = s.Step
	if s.Model != nil && s.Model.Reserved != (Reservation{}) {
		s.settle(TokenUsage{})
	}
	s.Model, s.Waiting = nil, ""
	var open []CallResult
	var unsettled []string
	until := at
	for i := range s.Calls {
		c := &s.Calls[i]
		switch {
		case c.Done():
		case c.Outstanding():
			unsettled = append(unsettled, c.ID)
			if settled := at.Add(c.Rules.Timeout + lookUpTime); settled.After(until) {
				until = settled
			}
		default:
			c.State, c.NotBefore, c.Code = CallFailed, time.Time{}, CodeRunEnded
			open = append(open, c.result("The run ended before the call was answered."))
		}
	}
	keep := s.keep(open)
	switch {
	case len(unsettled) == 0:
		s.terminate(at, t)
	case s.Ending == nil:
		s.Ending = &Ending{Termination: t, Until: until}
		s.Phase = s.phase()
	default:
		return s, keep
	}
	return s, append(keep, StopEffects{At: at, Keep: unsettled})
}

func (s *State) terminate(at time.Time, t Termination) {
	switch t.Reason {
	case ReasonFinal:
		s.Phase = Succeeded
	case ReasonCancelled:
		s.Phase = Cancelled
	case ReasonMaxSteps, ReasonDeadline, ReasonBudget, ReasonPolicyDenied, ReasonToolFailed, ReasonModelFailed:
		s.Phase = Failed
	}
	s.Termination, s.Ending, s.Completed = &t, nil, at
}

// giveUp ends a run whose writes could not be settled in time, or whose children have not ended by then: they are charged whole.
func (s State) giveUp(at time.Time) (State, []Effect) {
	for i, c := range s.Calls {
		if c.Unsettled() {
			return s.unknown(i, at)
		}
	}
	for i, c := range s.Calls {
		if c.childOut() {
			s.chargeChild(i, nil)
			return s.failCall(i, Failure{At: at, Code: CodeRunEnded, Message: "The run ended before its child run did."})
		}
	}
	return s.goOn(at)
}

// unknown ends the run, since nobody can say whether the call has changed anything: to go on would be to guess.
func (s State) unknown(i int, at time.Time) (State, []Effect) {
	c := &s.Calls[i]
	c.State, c.NotBefore, c.Code = CallFailed, time.Time{}, DetailOutcomeUnknown
	keep := s.keep([]CallResult{c.result("Nobody can say whether the call took effect. A person has to find out.")})
	message := fmt.Sprintf("Whether the call %s to %s took effect is not known. Look for operation %s where the tool acts.", c.ID, c.Tool, c.OperationID)
	if s.Ending != nil {
		message += fmt.Sprintf(" The run was about to end with %s.", s.Ending.Termination)
	}
	s.Ending = nil
	return then(keep)(s.end(at, Termination{Reason: ReasonToolFailed, Detail: DetailOutcomeUnknown, CallID: c.ID, Message: message}))
}
