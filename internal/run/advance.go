// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"time"

	"github.com/interlock-dev/interlock/internal/policy"
)

// maxAsked is how many calls people are asked about at once: what they are shown of each is in the status, which stays small.
const maxAsked = 8

// goOn does what can be done now: begins the calls that may begin or, once each has its result, goes to the next step or to
// the end that had to wait.
func (s State) goOn(at time.Time) (State, []Effect) {
	var effects []Effect
	for i := range s.Calls {
		if e := s.begin(i); e != nil {
			effects = append(effects, e)
		}
	}
	for i := range s.Calls {
		if s.starved(i) {
			return then(effects)(s.budgetSpent(i, at))
		}
	}
	for _, c := range s.Calls {
		if !c.Done() {
			s.Phase = s.phase()
			return s, effects
		}
	}
	if s.Ending != nil {
		return s.end(at, s.Ending.Termination)
	}
	return s.nextStep(at)
}

// begin takes a call that passed the gate one step further, if it is its time.
func (s State) begin(i int) Effect {
	c := &s.Calls[i]
	if !c.parked() {
		return nil
	}
	held := s.Holds.ofTool(c.Tool) != ""
	switch {
	case c.Rules.Preview && c.Preview == nil:
		if held || s.asked() >= maxAsked {
			return nil
		}
		return c.preview()
	case !c.approved():
		if s.asked() < maxAsked {
			c.State = CallAwaitingApproval
		}
	case held || !s.itsTurn(i):
	case c.Grant != nil:
		return s.startChild(i)
	default:
		return c.execute()
	}
	return nil
}

// itsTurn keeps the order that the model had in mind: a write begins when every call before it is done, and a call that reads
// when every write before it is. Calls that read run side by side.
func (s State) itsTurn(i int) bool {
	for _, before := range s.Calls[:i] {
		if !before.Done() && (before.Rules.Write || s.Calls[i].Rules.Write) {
			return false
		}
	}
	return true
}

// asked counts the calls that people are asked about, or will be as soon as they are previewed.
func (s State) asked() int {
	n := 0
	for _, c := range s.Calls {
		switch c.State {
		case CallPreviewing, CallAwaitingApproval, CallApproved:
			n++
		case CallReady, CallRejected, CallExecuting, CallBackoff, CallLookingUp, CallSucceeded, CallFailed:
		}
	}
	return n
}

// phase is AwaitingApproval while people are asked and nothing else is under way.
func (s State) phase() Phase {
	if s.Holds.Run != "" && s.Ending == nil {
		return Suspended
	}
	waiting := false
	for _, c := range s.Calls {
		if c.InFlight() || !c.NotBefore.IsZero() {
			return Acting
		}
		waiting = waiting || c.State == CallAwaitingApproval
	}
	if waiting {
		return AwaitingApproval
	}
	return Acting
}

// inFlight finds the call for which the given attempt is in flight; -1 if there is none. A write that is about to be looked up
// may be answered yet, by another process that had sent it.
func (s State) inFlight(callID string, attempt int) int {
	for i, c := range s.Calls {
		if c.ID == callID && c.Attempt == attempt && (c.InFlight() || c.State == CallLookingUp) {
			return i
		}
	}
	return -1
}

func (c *Call) preview() Effect {
	c.State, c.NotBefore = CallPreviewing, time.Time{}
	c.Attempt++
	return PreviewTool{
		CallID: c.ID, Tool: c.Tool, Attempt: c.Attempt, OperationID: c.OperationID, ArgumentsDigest: c.ArgumentsDigest,
	}
}

func (c *Call) execute() Effect {
	c.State, c.NotBefore = CallExecuting, time.Time{}
	c.Attempt++
	return CallTool{
		CallID: c.ID, Tool: c.Tool, Attempt: c.Attempt, OperationID: c.OperationID, ArgumentsDigest: c.ArgumentsDigest,
	}
}

// executeAgain sends a call once more, or ends the run if the budget does not hold it. An attempt that a breaker kept from being
// sent was counted for this one.
func (s State) executeAgain(i int, at time.Time) (State, []Effect) {
	counted := s.Calls[i].State == CallBackoff && s.Calls[i].Code == CodeBreakerOpen
	switch {
	case counted, s.left().ToolCalls > 0:
	case s.childrenOut() > 0:
		return s.budgetSpent(i, at)
	default:
		return s.end(at, s.toolCallsSpent(s.Calls[i].ID))
	}
	if !counted {
		s.Usage.ToolCalls++
	}
	if s.Calls[i].Grant != nil {
		s.Calls[i].park()
		return s.goOn(at)
	}
	if s.Holds.ofTool(s.Calls[i].Tool) != "" {
		s.Calls[i].park()
		return s, nil
	}
	return s, []Effect{s.Calls[i].execute()}
}

func (s State) previewed(e Previewed) (State, []Effect) {
	i := s.inFlight(e.CallID, e.Attempt)
	if i < 0 || s.Calls[i].State != CallPreviewing {
		return s, nil
	}
	c := &s.Calls[i]
	c.State, c.Code, c.Preview, c.Ask = CallReady, "", &e.Preview, e.Ask
	return s.goOn(e.At)
}

func (s State) toolSucceeded(e ToolSucceeded) (State, []Effect) {
	i := s.inFlight(e.CallID, e.Attempt)
	if i < 0 || s.Calls[i].State == CallPreviewing || s.Calls[i].childOut() {
		return s, nil
	}
	s.Calls[i].State, s.Calls[i].Code, s.Calls[i].NotBefore = CallSucceeded, "", time.Time{}
	s.Context += e.Tokens
	keep := then(s.keep([]CallResult{s.Calls[i].result("")}))
	if stuck := s.repeats(s.Calls[i], e.Digest); stuck != nil {
		return keep(s.end(e.At, *stuck))
	}
	return keep(s.goOn(e.At))
}

func (s State) toolFailed(e ToolFailed) (State, []Effect) {
	i := s.inFlight(e.CallID, e.Attempt)
	if i < 0 {
		return s, nil
	}
	c, f := &s.Calls[i], e.Failure
	switch {
	case f.InDoubt && c.Outstanding():
		return s.doubt(i, f)
	case f.Retryable && c.childOut() && c.State == CallLookingUp:
		return s.lookAgain(i, f)
	case f.Changed && c.State == CallExecuting && c.Preview != nil && s.Ending == nil:
		return s.previewAgain(i, f)
	}
	if f.Code != CodeBreakerOpen {
		c.Failures++
	}
	if at, ok := s.retryAt(c.OperationID, c.Failures, f); ok && s.Ending == nil && c.State != CallLookingUp {
		c.State, c.NotBefore, c.Code = CallBackoff, at, f.Code
		s.Phase = s.phase()
		return s, nil
	}
	return s.failCall(i, f)
}

// failCall gives a call the result that it failed for good.
func (s State) failCall(i int, f Failure) (State, []Effect) {
	c := &s.Calls[i]
	c.State, c.NotBefore, c.Code = CallFailed, time.Time{}, f.Code
	keep := then(s.keep([]CallResult{c.result(f.Message)}))
	if s.Limits.DenialEnds && s.Ending == nil && (f.Code == policy.CodeNotPermitted || f.Code == CodeApprovalExpired) {
		return keep(s.end(f.At, deniedAs(f.Code, c.ID)))
	}
	if s.Limits.ToolFailureEnds && s.Ending == nil && f.At.Before(s.Deadline) {
		return keep(s.end(f.At, Termination{
			Reason: ReasonToolFailed, Detail: f.Code, CallID: c.ID,
			Message: fmt.Sprintf("The tool %s failed for good at attempt %d, and onToolFailure is Terminate.", c.Tool, c.Attempt),
		}))
	}
	if stuck := s.repeats(*c, f.Code); stuck != nil {
		return keep(s.end(f.At, *stuck))
	}
	return keep(s.goOn(f.At))
}

// previewAgain voids what people approved, since what they were shown is not so any more.
func (s State) previewAgain(i int, f Failure) (State, []Effect) {
	c := &s.Calls[i]
	c.Failures++
	if c.Failures >= f.MaxAttempts {
		return s.failCall(i, f)
	}
	c.State, c.Code, c.Preview, c.Ask = CallReady, f.Code, nil, nil
	return s.goOn(f.At)
}

// refuse gives a call that was not sent its result: it will not be.
func (s State) refuse(i int, at time.Time, v policy.Verdict, denied bool) (State, []Effect) {
	c := &s.Calls[i]
	c.State, c.NotBefore, c.Code = CallRejected, time.Time{}, v.Code
	keep := then(s.keep([]CallResult{c.result(v.Message)}))
	if denied && s.Limits.DenialEnds {
		return keep(s.end(at, deniedAs(v.Code, c.ID)))
	}
	return keep(s.goOn(at))
}

func deniedAs(code, callID string) Termination {
	return Termination{
		Reason: ReasonPolicyDenied, Detail: code, CallID: callID,
		Message: "A call was not permitted, denied, or not approved in time, and onDenied is Terminate.",
	}
}

// timePassed ends a run whose deadline has come, and goes on with what was paused until now.
func (s State) timePassed(now time.Time) (State, []Effect) {
	switch {
	case s.Phase == "":
		return s, nil
	case s.Ending != nil && !now.Before(s.Ending.Until):
		return s.giveUp(now)
	case s.Ending == nil && !now.Before(s.Deadline):
		return s.end(now, Termination{
			Reason:  ReasonDeadline,
			Message: fmt.Sprintf("The deadline of %s passed while the run was %s.", s.Limits.Deadline, s.Phase),
		})
	}
	if m := s.Model; m != nil && !m.NotBefore.IsZero() && !now.Before(m.NotBefore) {
		return s.askAgain(now)
	}
	var all []Effect
	for i := range s.Calls {
		var effects []Effect
		s, effects = s.callDue(i, now)
		all = append(all, effects...)
		// What follows from one may have ended the run, or gone to the next step.
		if s.Finished() || s.Model != nil {
			break
		}
	}
	return s, all
}

// callDue goes on with a call whose pause is over, and refuses one that nobody has approved in time.
func (s State) callDue(i int, now time.Time) (State, []Effect) {
	c := &s.Calls[i]
	switch {
	case c.asked() && !now.Before(c.Ask.Expires):
		return s.refuse(i, now, policy.Verdict{Code: CodeApprovalExpired, Message: "Nobody approved the call in time, so it was not made."}, true)
	case c.NotBefore.IsZero() || now.Before(c.NotBefore):
		return s, nil
	case c.State == CallLookingUp:
		return s.lookUp(i, now)
	case c.Rules.Preview && c.Preview == nil && s.Holds.ofTool(c.Tool) != "":
		c.park()
		return s, nil
	case c.Rules.Preview && c.Preview == nil:
		return s, []Effect{c.preview()}
	}
	return s.executeAgain(i, now)
}
