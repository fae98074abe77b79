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
const StateVersion = 1

// A Phase is where a run stands.
type Phase string

// The phases; see the drawing in the package comment.
const (
	Pending   Phase = "Pending"
	Thinking  Phase = "Thinking"
	Acting    Phase = "Acting"
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
	// Calls are those of the newest reply that had any.
	Calls []Call
	Usage Usage
	// Termination is nil until the run ends, and never changes after.
	Termination *Termination
	// Answer is the result of a run that ended with Final.
	Answer Answer
}

// Limits are what a run may use; none is zero by omission.
type Limits struct {
	MaxSteps, MaxToolCalls, MaxInvalid int
	Deadline                           time.Duration
	// ToolFailureEnds: a call that fails for good ends the run.
	ToolFailureEnds bool
}

// A ModelCall is the request to the model for State.Step.
type ModelCall struct {
	// Attempt counts the tries at this step, from 1.
	Attempt int
	// NotBefore is when the next attempt is due; zero while the request is in flight.
	NotBefore time.Time
	// Code is why the attempt before failed.
	Code string
}

// A CallState is where a call stands.
type CallState string

// The states of a call; see the drawing in the package comment.
const (
	CallRejected  CallState = "Rejected"
	CallExecuting CallState = "Executing"
	CallBackoff   CallState = "Backoff"
	CallSucceeded CallState = "Succeeded"
	CallFailed    CallState = "Failed"
)

// A Call is one tool call of a reply.
type Call struct {
	// ID is ours: step and place in the reply, such as s3c1. The model's own ID plays no part.
	ID string
	// Tool is the name that the model used, fit to be shown.
	Tool  string
	State CallState
	// Attempt counts the times it was sent, from 1; 0 if it was refused.
	Attempt int
	// NotBefore is when the next attempt is due, in Backoff.
	NotBefore time.Time
	// Code is why it was refused or failed, or why the attempt before did.
	Code string
	// OperationID is the idempotency key. ArgumentsDigest is that of the exact bytes to send.
	OperationID, ArgumentsDigest string
	// Binding is the version of the tool's rules that the call was checked against.
	Binding Binding
}

// A Binding names one version of a ToolBinding.
type Binding struct {
	UID        string
	Generation int64
}

// Done reports whether c has its result.
func (c Call) Done() bool {
	switch c.State {
	case CallRejected, CallSucceeded, CallFailed:
		return true
	case CallExecuting, CallBackoff:
		return false
	}
	return false
}

// Usage is what a run has used. No number ever goes down.
type Usage struct {
	ModelCalls, ToolCalls, Invalid int
	Tokens                         TokenUsage
	// Unreported counts the replies for which the provider reported no tokens.
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
	ReasonFinal       Reason = "Final"
	ReasonMaxSteps    Reason = "MaxSteps"
	ReasonDeadline    Reason = "Deadline"
	ReasonBudget      Reason = "Budget"
	ReasonCancelled   Reason = "Cancelled"
	ReasonToolFailed  Reason = "ToolFailed"
	ReasonModelFailed Reason = "ModelFailed"
)

// Details below a reason that the core gives itself. Below ModelFailed stands the model port's reason as well, and below
// ToolFailed the call's code.
const (
	DetailToolCalls = "ToolCalls"
	DetailInvalid   = "TooManyInvalid"
	DetailRefused   = "Refused"
)

// A Termination says why a run ended.
type Termination struct {
	Reason  Reason
	Detail  string
	Message string
	Step    int
	CallID  string
}

// Finished reports whether the run has ended. Nothing is started after that.
func (s State) Finished() bool { return s.Termination != nil }

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
	for _, c := range s.Calls {
		if c.State == CallBackoff {
			sooner(c.NotBefore)
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
		if c.State == CallExecuting {
			executing++
		}
	}
	for _, e := range events {
		if _, ok := e.(ToolSucceeded); !ok {
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
	if m := s.Model; m != nil {
		fmt.Fprintf(&b, " model#%d", m.Attempt)
		if m.Code != "" {
			fmt.Fprintf(&b, " after %s", m.Code)
		}
		if !m.NotBefore.IsZero() {
			fmt.Fprintf(&b, " not before %s", clock(m.NotBefore))
		}
	}
	for _, c := range s.Calls {
		fmt.Fprintf(&b, " %s", c)
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
	return fmt.Sprintf("used %dm %dt %di %d+%d", u.ModelCalls, u.ToolCalls, u.Invalid, u.Tokens.Input, u.Tokens.Output)
}

// String gives the call in a few words.
func (c Call) String() string {
	text := fmt.Sprintf("%s:%s:%s", c.ID, c.Tool, c.State)
	if c.Attempt > 0 {
		text += fmt.Sprintf("#%d", c.Attempt)
	}
	if c.Code != "" {
		text += "(" + c.Code + ")"
	}
	if !c.NotBefore.IsZero() {
		text += "@" + clock(c.NotBefore)
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
