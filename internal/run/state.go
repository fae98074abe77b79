// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// StateVersion is the version of the state machine. It goes up when an older one would misread a State.
const StateVersion = 5

// A Phase is where a run stands.
type Phase string

// The phases; see the drawing in the package comment.
const (
	Pending  Phase = "Pending"
	Thinking Phase = "Thinking"
	Acting   Phase = "Acting"
	// AwaitingApproval is Acting while nothing can go on without a person.
	AwaitingApproval Phase = "AwaitingApproval"
	// Suspended is any of these while the whole run is held.
	Suspended Phase = "Suspended"
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
	Cancelled Phase = "Cancelled"
)

// A State is all that a run is, but for what was said: that is in the journal. The zero State is a run that was never
// looked at.
type State struct {
	// UID is the run's; operation IDs and jitter follow from it.
	UID    string
	Phase  Phase
	Limits Limits
	// Started is when the run was first seen; Deadline is when it ends at the latest; Completed is when it ended.
	Started, Deadline, Completed time.Time
	// Waiting is why a Pending run does not go on, in words.
	Waiting string
	// Step is the model turn that the run is at, from 1.
	Step int
	// Model is the request in flight; nil outside Thinking.
	Model *ModelCall
	// Context is the most tokens that the next request can have: what the model will be shown.
	Context int64
	// Terms are those of the model's binding now, of a run without a Router.
	Terms Terms
	// Router is how the model is found, and Route is what came of it; nil for a run that has one model.
	Router *Router
	Route  *Route
	// Holds say what must not begin now.
	Holds Holds
	// Calls are those of the newest reply that had any.
	Calls []Call
	Usage Usage
	// Repeats count the newest different calls with their results; at most maxRepeats.
	Repeats []Repeat
	// Ending is how the run is about to end, while a write that was sent is not settled yet or a child run goes on; nil otherwise.
	Ending *Ending
	// Termination is nil until the run ends, and never changes after.
	Termination *Termination
	// Answer is the result of a run that ended with Final.
	Answer Answer
}

// Limits are what a run may use; none is zero by omission.
type Limits struct {
	MaxSteps, MaxToolCalls, MaxInvalid int
	// MaxRepeats is how many times the same call with the same result ends the run.
	MaxRepeats int
	// Parallelism is how many child runs go on at once, and MaxChildren how many there are in all, theirs included.
	Parallelism, MaxChildren  int
	InputTokens, OutputTokens int64
	// Cost is 0 if only the tokens are limited.
	Cost     Money
	Deadline time.Duration
	// ToolFailureEnds: a call that fails for good ends the run. DenialEnds: one that is not permitted, or that people deny or
	// do not approve in time, ends it.
	ToolFailureEnds, DenialEnds bool
}

// A ModelCall is the request to the model for State.Step.
type ModelCall struct {
	// Attempt counts the requests at this step, from 1; Failures counts those that failed, and were not only lost.
	Attempt, Failures int
	// NotBefore is when the next attempt is due; zero while the request is in flight.
	NotBefore time.Time
	// Code is why the attempt before failed.
	Code string
	// Reserved is what the request in flight may use; zero outside.
	Reserved Reservation
	// Held: the attempt has not begun, and begins when nothing holds it any more.
	Held bool
	// Tried are the models that the run has fallen back from at this step, since they were overloaded.
	Tried []string
}

// Usage is what a run has used. No number ever goes down.
type Usage struct {
	ModelCalls, ToolCalls, Invalid int
	// Children counts the child runs that have ended, theirs included, and ChildSteps their steps. What they used is in the other
	// numbers, too; what they sent that was invalid is not.
	Children, ChildSteps int
	// Tokens and Cost are charged: as the provider reported, or as they were reserved.
	Tokens TokenUsage
	Cost   Money
	// Unreported counts the requests of which the provider did not report what they used.
	Unreported int
}

// An Answer is what a run was for. Text and Citations are bounded.
type Answer struct {
	Text      string
	Citations []Citation
}

// A Citation is a source that an answer names and that a result of the run really had.
type Citation struct {
	Source
	// CallID is the first call whose result had it; ObservedAt and SourceVersion are that result's.
	CallID        string
	ObservedAt    time.Time
	SourceVersion string
}

// A Reason is why a run ended.
type Reason string

// The reasons. The set is closed.
const (
	ReasonFinal        Reason = "Final"
	ReasonMaxSteps     Reason = "MaxSteps"
	ReasonDeadline     Reason = "Deadline"
	ReasonBudget       Reason = "Budget"
	ReasonCancelled    Reason = "Cancelled"
	ReasonPolicyDenied Reason = "PolicyDenied"
	ReasonToolFailed   Reason = "ToolFailed"
	ReasonModelFailed  Reason = "ModelFailed"
)

// Details below a reason that the core gives itself. Below ModelFailed stands the model port's reason as well, and below
// ToolFailed the call's code.
const (
	DetailToolCalls = "ToolCalls"
	DetailInvalid   = "TooManyInvalid"
	DetailRefused   = "Refused"
	// DetailOutcomeUnknown: nobody can say whether a write happened. Only a person can find out.
	DetailOutcomeUnknown = "OutcomeUnknown"
)

// A Termination says why a run ended.
type Termination struct {
	Reason  Reason
	Detail  string
	Message string
	Step    int
	CallID  string
}

// An Ending is an end that waits for a write to be settled, or for child runs to end: nothing new is begun meanwhile.
type Ending struct {
	Termination
	// Until is when the outcome of what is still unsettled counts as unknown.
	Until time.Time
}

// Finished reports whether the run has ended. Nothing is started after that.
func (s State) Finished() bool { return s.Termination != nil }

// Unsettled reports whether a write may have happened, or be happening, with its outcome not known.
func (s State) Unsettled() bool { return slices.ContainsFunc(s.Calls, Call.Unsettled) }

// NextWake is when time alone may change the state: the deadline, or the end of a pause. Zero: never.
func (s State) NextWake() time.Time {
	if s.Finished() {
		return time.Time{}
	}
	next := s.Deadline
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if s.Model != nil {
		sooner(s.Model.NotBefore)
	}
	if s.Ending != nil {
		next = s.Ending.Until
	}
	for _, c := range s.Calls {
		sooner(c.NotBefore)
		if c.asked() {
			sooner(c.Ask.Expires)
		}
	}
	return next
}

// Call finds a call of the current step by its ID.
func (s State) Call(id string) (Call, bool) {
	i := slices.IndexFunc(s.Calls, func(c Call) bool { return c.ID == id })
	if i < 0 {
		return Call{}, false
	}
	return s.Calls[i], true
}

// MayGather reports whether recording events can wait: each is the result of a call that changed nothing, and others of the
// same step are still under way. Waiting saves a write; the price is that a crash makes the calls again.
func (s State) MayGather(events []Event) bool {
	executing := 0
	for _, c := range s.Calls {
		if c.State == CallExecuting && !c.Rules.Write && c.Grant == nil {
			executing++
		}
	}
	for _, e := range events {
		succeeded, ok := e.(ToolSucceeded)
		if c, _ := s.Call(succeeded.CallID); !ok || c.Rules.Write {
			return false
		}
	}
	return len(events) < executing
}

// String gives the state on one line.
func (s State) String() string {
	if s.Phase == "" {
		return "Unseen"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s", s.Phase)
	if s.Step > 0 {
		fmt.Fprintf(&b, " step %d", s.Step)
	}
	if s.Waiting != "" {
		fmt.Fprintf(&b, " (%s)", s.Waiting)
	}
	if s.Route != nil {
		fmt.Fprintf(&b, " %s", s.Route)
	}
	if m := s.Model; m != nil {
		fmt.Fprintf(&b, " model#%d", m.Attempt)
		if m.Held {
			b.WriteString(" held")
		}
		if m.Code != "" {
			fmt.Fprintf(&b, " after %s", m.Code)
		}
		if r := m.Reserved; r != (Reservation{}) {
			fmt.Fprintf(&b, "[%d+%d]", r.Input, r.Output)
		}
		if !m.NotBefore.IsZero() {
			fmt.Fprintf(&b, " not before %s", clock(m.NotBefore))
		}
	}
	for _, c := range s.Calls {
		fmt.Fprintf(&b, " %s", c)
	}
	if e := s.Ending; e != nil {
		fmt.Fprintf(&b, " ending %s until %s", e.Termination, clock(e.Until))
	}
	if t := s.Termination; t != nil {
		fmt.Fprintf(&b, " %s", t)
	}
	if s.Usage != (Usage{}) {
		fmt.Fprintf(&b, " %s", s.Usage)
	}
	return b.String()
}

// String gives what was used: requests to the model, calls to tools, invalid things, tokens in and out.
func (u Usage) String() string {
	text := fmt.Sprintf("used %dm %dt %di %d+%d", u.ModelCalls, u.ToolCalls, u.Invalid, u.Tokens.Input, u.Tokens.Output)
	if u.Children > 0 {
		text += fmt.Sprintf(" of %d children with %d steps", u.Children, u.ChildSteps)
	}
	if u.Cost > 0 {
		text += " cost " + u.Cost.String()
	}
	return text
}

// String gives reason and detail, such as Budget/ToolCalls.
func (t Termination) String() string {
	if t.Detail == "" {
		return string(t.Reason)
	}
	return string(t.Reason) + "/" + t.Detail
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
