// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import "time"

// Holds say what must not begin now, and why, in words for people: a run is suspended, or somebody has thrown the switch of a
// model or a tool. What is held waits; time does not. The shell looks them up for each pass; they are not recorded.
type Holds struct {
	// Run holds everything, Model the requests to the model, and Tools the calls of a tool, by its name. Empty: no hold.
	Run, Model string
	Tools      map[string]string
}

// modelHold gives why the model is not asked; empty if it may be.
func (s State) modelHold() string {
	unfit := s.offer().Unfit
	switch {
	case s.Holds.Run != "":
		return s.Holds.Run
	case unfit != "" && s.Router != nil:
		return s.Router.Unfit()
	}
	return unfit
}

// ofTool gives why a tool is not called; empty if it may be.
func (h Holds) ofTool(name string) string {
	if h.Run != "" {
		return h.Run
	}
	return h.Tools[name]
}

// Held gives why something that could go on does not, in words; empty if nothing is held.
func (s State) Held() string {
	if s.Finished() || s.Ending != nil {
		return ""
	}
	if s.Holds.Run != "" {
		return s.Holds.Run
	}
	if s.Model != nil && s.Model.Held {
		return s.modelHold()
	}
	for _, c := range s.Calls {
		if why := s.Holds.ofTool(c.Tool); why != "" && c.parked() {
			return why
		}
	}
	return ""
}

// CanResume reports whether something that was held can go on.
func (s State) CanResume(at time.Time) bool {
	next, effects := Decide(s, Resumed{At: at})
	return len(effects) > 0 || next.Phase != s.Phase
}

// suspended parks the run: what is in flight is aborted, but for a write that was sent, which is settled, and child runs, which are
// held by themselves. An aborted request is
// charged as one that was lost.
func (s State) suspended(e Suspend) (State, []Effect) {
	if s.Phase == "" || s.Holds.Run == "" || s.Ending != nil {
		return s, nil
	}
	var unsettled []string
	var kept []Effect
	news := s.Phase != Suspended
	for i := range s.Calls {
		c := &s.Calls[i]
		switch {
		case c.Outstanding():
			unsettled = append(unsettled, c.ID)
		case c.State == CallExecuting && s.left().ToolCalls <= 0 && s.childrenOut() > 0:
			var more []Effect
			s, more = s.budgetSpent(i, e.At)
			kept, news = append(kept, more...), true
		case c.State == CallExecuting && s.left().ToolCalls <= 0:
			return then(kept)(s.end(e.At, s.toolCallsSpent(c.ID)))
		case c.State == CallExecuting:
			s.Usage.ToolCalls++
			c.park()
			news = true
		case c.State == CallPreviewing:
			c.park()
			news = true
		}
	}
	if s.Model != nil && s.Model.Reserved != (Reservation{}) {
		s.settle(TokenUsage{})
	}
	if s.Model != nil && s.Model.NotBefore.IsZero() && !s.Model.Held {
		s.Model = &ModelCall{Attempt: s.Model.Attempt + 1, Failures: s.Model.Failures, Code: s.Model.Code, Held: true, Tried: s.Model.Tried}
		news = true
	}
	if s.Phase = Suspended; !news {
		return s, nil
	}
	return s, append(kept, StopEffects{At: e.At, Keep: unsettled})
}

// resumed goes on with what was held, as far as nothing holds it any more.
func (s State) resumed(at time.Time) (State, []Effect) {
	switch {
	case s.Phase == "" || s.Holds.Run != "":
		return s, nil
	case s.Step == 0:
		s.Phase = Pending
		return s, nil
	case s.Model != nil && s.Model.Held:
		return s.ask(at, *s.Model)
	case s.Model != nil:
		s.Phase = Thinking
		return s, nil
	}
	return s.goOn(at)
}

// notSent parks what was about to be sent when a hold was seen. Nothing has happened.
func (s State) notSent(e NotSent) (State, []Effect) {
	if e.CallID == "" {
		if s.asking(e.Step, e.Attempt) {
			s.Model.Reserved = Reservation{}
			return s.askAgain(e.At)
		}
		return s, nil
	}
	i := s.inFlight(e.CallID, e.Attempt)
	switch {
	case i < 0:
		return s, nil
	case s.Calls[i].childOut() && s.Calls[i].State == CallLookingUp:
		return s.lookAgain(i, Failure{At: e.At, Code: s.Calls[i].Code, Backoff: time.Second})
	case s.Calls[i].State == CallLookingUp:
		return s, nil
	}
	c := &s.Calls[i]
	if s.Ending != nil {
		return s.failCall(i, Failure{At: e.At, Code: CodeRunEnded, Message: "The run ended before the call was made."})
	}
	c.park()
	return s.goOn(e.At)
}

// park takes a call out of flight that is to be sent later, and was counted for it.
func (c *Call) park() {
	c.NotBefore = time.Time{}
	c.State = CallReady
	if c.Ask != nil && c.approved() {
		c.State = CallApproved
	}
}

// parked reports whether c waits for nothing but its turn, or a hold.
func (c Call) parked() bool { return c.State == CallReady || c.State == CallApproved }
