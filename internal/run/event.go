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
	// Until is the deadline of the run's parent; zero if it has none.
	Until time.Time
}

// Prepared says that the run's bindings were looked at. Missing names what it waits for; empty means that it can begin.
type Prepared struct {
	At      time.Time
	Missing string
	// Context is the most tokens that the first request can have, and Question that to the run's chooser, if it has one.
	Context, Question int64
}

// Chosen says that the chooser answered attempt Attempt at step Step.
type Chosen struct {
	Step, Attempt int
	At            time.Time
	Choice        Choice
	Usage         TokenUsage
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
	// Tokens is the most that the reply can have when the model is shown it again.
	Tokens int64
	// Answer is the reply's text with its citations, in case it ends the run.
	Answer Answer
}

// A ProposedCall is a call that the model asks for, with what the shell found out about it.
type ProposedCall struct {
	Facts policy.Call
	// ArgumentsDigest and OperationID are of the canonical arguments; empty if there are none.
	ArgumentsDigest, OperationID string
	Binding                      Binding
	Rules                        Rules
	// Ask is what people are to be asked, of a call that needs approval and no preview.
	Ask *Ask
	// Grant is what the child run that the call starts may use at most; nil if it starts none.
	Grant *Grant
	// Recorded is the refusal that the journal already holds, when the reply was found there after a crash: it stands, whatever
	// has changed since. The zero Verdict means that there is none.
	Recorded policy.Verdict
}

// ModelFailed says that attempt Attempt at step Step failed.
type ModelFailed struct {
	Step, Attempt int
	Failure       Failure
}

// Undercounted says that attempt Attempt at step Step was not sent: it has Input tokens at most, and less was reserved.
type Undercounted struct {
	Step, Attempt int
	At            time.Time
	Input         int64
}

// Previewed says that the tool server has shown what call CallID would do. Ask is what people are to be asked; nil if nobody
// is.
type Previewed struct {
	CallID  string
	Attempt int
	At      time.Time
	Preview Preview
	Ask     *Ask
}

// Approved says that somebody who may has approved call CallID as Digest has it.
type Approved struct {
	CallID, Digest string
	At             time.Time
	Consent        Consent
}

// Denied says that somebody who may has denied call CallID as Digest has it. Reason is theirs, for the model.
type Denied struct {
	CallID, Digest string
	At             time.Time
	Reason         string
}

// Voided says that the rules under which call CallID was checked do not hold any more.
type Voided struct {
	CallID  string
	At      time.Time
	Verdict policy.Verdict
}

// Recorded says that the journal already holds the refusal of call CallID: the state that counts it was lost. It stands,
// whatever has changed since.
type Recorded struct {
	CallID  string
	At      time.Time
	Verdict policy.Verdict
}

// NothingDone says that attempt Attempt at call CallID has changed nothing, and will not: the tool server knows no such
// operation, or it was never sent.
type NothingDone struct {
	CallID  string
	Attempt int
	At      time.Time
}

// ToolSucceeded says that attempt Attempt at call CallID was answered. The answer is with the shell.
type ToolSucceeded struct {
	CallID  string
	Attempt int
	At      time.Time
	// Tokens is the most that the answer can have when the model is shown it. Digest stands for the answer.
	Tokens int64
	Digest string
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
	// InDoubt: the other side may have acted all the same. Changed: what was previewed is not as it was.
	InDoubt, Changed bool
	// Unsent: of a request to the model, that it cost nothing. It was not sent, or refused unseen.
	Unsent bool
	// Overload: of a request to a model, that another model may answer it.
	Overload bool
	// Retryable: the same attempt may succeed later. RetryAfter is the other side's advice; zero means none.
	Retryable  bool
	RetryAfter time.Duration
	// MaxAttempts and Backoff are the binding's rules for another attempt.
	MaxAttempts int
	Backoff     time.Duration
}

// ChildStarted says that the child run of call CallID is there.
type ChildStarted struct {
	CallID string
	At     time.Time
	UID    string
}

// ChildEnded says that the child run of call CallID has ended, or is gone. Its answer is with the shell.
type ChildEnded struct {
	CallID string
	At     time.Time
	// Spent is what it used; nil if nobody can say.
	Spent *Spent
	// Failure is why there is no answer; nil if there is one. Tokens and Digest are as in ToolSucceeded.
	Failure *Failure
	Tokens  int64
	Digest  string
}

// EffectLost says that nobody performs what the state has in flight at attempt Attempt: for call CallID or, if that is
// empty, the model call. The process that did has died.
type EffectLost struct {
	CallID  string
	Attempt int
	At      time.Time
}

// NotSent says that attempt Attempt, for call CallID or, if that is empty, at step Step of the model, was not sent, since
// something held it at the last moment. Nothing has happened.
type NotSent struct {
	CallID        string
	Step, Attempt int
	At            time.Time
}

// Suspend says that the whole run is held from now on.
type Suspend struct {
	At time.Time
}

// Resumed says that something that was held can go on.
type Resumed struct {
	At time.Time
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
func (Chosen) isEvent()          {}
func (ModelReplied) isEvent()    {}
func (ModelFailed) isEvent()     {}
func (Undercounted) isEvent()    {}
func (Previewed) isEvent()       {}
func (Approved) isEvent()        {}
func (Denied) isEvent()          {}
func (Voided) isEvent()          {}
func (Recorded) isEvent()        {}
func (NothingDone) isEvent()     {}
func (ToolSucceeded) isEvent()   {}
func (ToolFailed) isEvent()      {}
func (ChildStarted) isEvent()    {}
func (ChildEnded) isEvent()      {}
func (EffectLost) isEvent()      {}
func (NotSent) isEvent()         {}
func (Suspend) isEvent()         {}
func (Resumed) isEvent()         {}
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
func (e Chosen) String() string {
	return fmt.Sprintf("chosen s%d#%d %s %s", e.Step, e.Attempt, e.Choice.Kind, e.Choice.Model)
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
func (e Undercounted) String() string {
	return fmt.Sprintf("undercounted s%d#%d, it is %d", e.Step, e.Attempt, e.Input)
}

// String names the event in a few words.
func (e Previewed) String() string {
	return fmt.Sprintf("previewed %s#%d %s", e.CallID, e.Attempt, e.Preview.ResourceVersion)
}

// String names the event in a few words.
func (e Approved) String() string { return fmt.Sprintf("approved %s by %s", e.CallID, e.Consent.By) }

// String names the event in a few words.
func (e Denied) String() string { return "denied " + e.CallID }

// String names the event in a few words.
func (e Voided) String() string { return fmt.Sprintf("voided %s %s", e.CallID, e.Verdict.Code) }

// String names the event in a few words.
func (e Recorded) String() string { return fmt.Sprintf("recorded %s %s", e.CallID, e.Verdict.Code) }

// String names the event in a few words.
func (e NothingDone) String() string { return fmt.Sprintf("nothing done %s#%d", e.CallID, e.Attempt) }

// String names the event in a few words.
func (e ToolSucceeded) String() string {
	return fmt.Sprintf("tool succeeded %s#%d", e.CallID, e.Attempt)
}

// String names the event in a few words.
func (e ToolFailed) String() string {
	return fmt.Sprintf("tool failed %s#%d %s", e.CallID, e.Attempt, e.Failure.Code)
}

// String names the event in a few words.
func (e ChildStarted) String() string { return "child started " + e.CallID }

// String names the event in a few words.
func (e ChildEnded) String() string {
	if e.Failure != nil {
		return fmt.Sprintf("child ended %s %s", e.CallID, e.Failure.Code)
	}
	return "child ended " + e.CallID
}

// String names the event in a few words.
func (e EffectLost) String() string {
	if e.CallID == "" {
		return fmt.Sprintf("effect lost model#%d", e.Attempt)
	}
	return fmt.Sprintf("effect lost %s#%d", e.CallID, e.Attempt)
}

// String names the event in a few words.
func (e NotSent) String() string {
	if e.CallID == "" {
		return fmt.Sprintf("not sent s%d#%d", e.Step, e.Attempt)
	}
	return fmt.Sprintf("not sent %s#%d", e.CallID, e.Attempt)
}

// String names the event in a few words.
func (e Suspend) String() string { return "suspend" }

// String names the event in a few words.
func (e Resumed) String() string { return "resumed" }

// String names the event in a few words.
func (e CancelRequested) String() string { return "cancel requested" }

// String names the event in a few words.
func (e TimePassed) String() string { return "time passed " + clock(e.At) }
