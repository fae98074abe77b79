// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"
	"time"

	"github.com/interlock-dev/interlock/internal/policy"
)

// An Event is something that happened. An event that does not fit the state changes nothing.
//
//sumtype:decl
type Event interface {
	isEvent()
	String() string
}

// Created says that the run was seen for the first time.
type Created struct {
	UID    string
	At     time.Time
	Limits Limits
}

// Prepared says that the run's bindings were looked at. Missing names what it waits for; empty means that it can begin.
type Prepared struct {
	Missing string
}

// ModelReplied says that the model answered attempt Attempt at step Step.
type ModelReplied struct {
	Step, Attempt int
	At            time.Time
	Finish        Finish
	// Empty: the reply has no text.
	Empty bool
	Calls []ProposedCall
	Usage TokenUsage
	// Answer is the reply's text with its citations, in case it ends the run.
	Answer Answer
}

// A ProposedCall is a call that the model asks for, with what the shell found out about it.
type ProposedCall struct {
	Facts policy.Call
	// ArgumentsDigest and OperationID are of the canonical arguments; empty if there are none.
	ArgumentsDigest, OperationID string
	Binding                      Binding
	// Recorded is the refusal that the journal already holds, when the reply was found there after a crash: it stands, whatever
	// has changed since. The zero Verdict means that there is none.
	Recorded policy.Verdict
}

// ModelFailed says that attempt Attempt at step Step failed.
type ModelFailed struct {
	Step, Attempt int
	Failure       Failure
}

// ToolSucceeded says that attempt Attempt at call CallID was answered. The answer is with the shell.
type ToolSucceeded struct {
	CallID  string
	Attempt int
	At      time.Time
}

// ToolFailed says that attempt Attempt at call CallID failed.
type ToolFailed struct {
	CallID  string
	Attempt int
	Failure Failure
}

// A Failure says why an attempt failed and how the next would be made.
type Failure struct {
	At            time.Time
	Code, Message string
	// Retryable: the same attempt may succeed later. RetryAfter is the other side's advice; zero means none.
	Retryable  bool
	RetryAfter time.Duration
	// MaxAttempts and Backoff are the binding's rules for another attempt.
	MaxAttempts int
	Backoff     time.Duration
}

// EffectLost says that nobody performs what the state has in flight at attempt Attempt: call CallID or, if that is empty,
// the model call. The process that did has died.
type EffectLost struct {
	CallID  string
	Attempt int
	At      time.Time
}

// CancelRequested says that somebody wants the run to end.
type CancelRequested struct {
	At     time.Time
	Reason string
}

// TimePassed says that it is At now. The deadline, or the end of a pause, may have come.
type TimePassed struct {
	At time.Time
}

func (Created) isEvent()         {}
func (Prepared) isEvent()        {}
func (ModelReplied) isEvent()    {}
func (ModelFailed) isEvent()     {}
func (ToolSucceeded) isEvent()   {}
func (ToolFailed) isEvent()      {}
func (EffectLost) isEvent()      {}
func (CancelRequested) isEvent() {}
func (TimePassed) isEvent()      {}

// String names the event in a few words.
func (e Created) String() string { return "created at " + clock(e.At) }

// String names the event in a few words.
func (e Prepared) String() string {
	if e.Missing != "" {
		return "prepared, missing " + e.Missing
	}
	return "prepared"
}

// String names the event in a few words.
func (e ModelReplied) String() string {
	tools := make([]string, len(e.Calls))
	for i, c := range e.Calls {
		tools[i] = c.Facts.Tool
	}
	return fmt.Sprintf("model replied s%d#%d %s [%s]", e.Step, e.Attempt, e.Finish, strings.Join(tools, " "))
}

// String names the event in a few words.
func (e ModelFailed) String() string {
	return fmt.Sprintf("model failed s%d#%d %s", e.Step, e.Attempt, e.Failure.Code)
}

// String names the event in a few words.
func (e ToolSucceeded) String() string {
	return fmt.Sprintf("tool succeeded %s#%d", e.CallID, e.Attempt)
}

// String names the event in a few words.
func (e ToolFailed) String() string {
	return fmt.Sprintf("tool failed %s#%d %s", e.CallID, e.Attempt, e.Failure.Code)
}

// String names the event in a few words.
func (e EffectLost) String() string {
	if e.CallID == "" {
		return fmt.Sprintf("effect lost model#%d", e.Attempt)
	}
	return fmt.Sprintf("effect lost %s#%d", e.CallID, e.Attempt)
}

// String names the event in a few words.
func (e CancelRequested) String() string { return "cancel requested" }

// String names the event in a few words.
func (e TimePassed) String() string { return "time passed " + clock(e.At) }
