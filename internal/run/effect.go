// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"
	"time"
)

// An Effect is something that the shell has to do. KeepTurn and KeepResults come before the state is recorded, all others
// only once it has been.
//
//sumtype:decl
type Effect interface {
	isEffect()
	String() string
}

// KeepTurn puts the reply of step Step into the journal, before the state is recorded: a reply that was paid for is never
// asked for again.
type KeepTurn struct {
	Step int
}

// KeepResults puts the results of calls into the journal, before the state that counts them is recorded.
type KeepResults struct {
	Step    int
	Results []CallResult
}

// A CallResult is what came of one call. The data of a call that succeeded is with the shell.
type CallResult struct {
	CallID        string
	State         CallState
	Code, Message string
	Attempts      int
}

// CallModel asks the model for step Step, after the state is recorded.
type CallModel struct {
	Step, Attempt int
	// Model is whom to ask; empty if the run has only one. Choose: it is the chooser, and is asked for a route.
	Model  string
	Choose bool
	// Input is the most tokens that the request may have, and MaxOutput the most that it may ask for: both are reserved.
	Input, MaxOutput int64
}

// CallTool sends a call, after the state is recorded. The shell sends exactly the bytes of ArgumentsDigest.
type CallTool struct {
	CallID, Tool                 string
	Attempt                      int
	OperationID, ArgumentsDigest string
}

// PreviewTool asks what a call would do, after the state is recorded. It changes nothing.
type PreviewTool struct {
	CallID, Tool                 string
	Attempt                      int
	OperationID, ArgumentsDigest string
}

// StartChild starts the child run of a call, with the call's grant as its limits, after the state is recorded. If it is there
// already, nothing happens. Again: it was asked for before, so that it may be.
type StartChild struct {
	CallID, Tool string
	Attempt      int
	Again        bool
}

// LookUpTool asks what became of a call that was sent, after the state is recorded. It changes nothing.
type LookUpTool struct {
	CallID, Tool string
	Attempt      int
	OperationID  string
}

// StopEffects aborts what is in flight, after the state is recorded, but for the calls in Keep. What the others still return
// is not acted on.
type StopEffects struct {
	At   time.Time
	Keep []string
}

func (KeepTurn) isEffect()    {}
func (KeepResults) isEffect() {}
func (CallModel) isEffect()   {}
func (PreviewTool) isEffect() {}
func (CallTool) isEffect()    {}
func (StartChild) isEffect()  {}
func (LookUpTool) isEffect()  {}
func (StopEffects) isEffect() {}

// String names the effect in a few words.
func (e KeepTurn) String() string { return fmt.Sprintf("keep turn %d", e.Step) }

// String names the effect in a few words.
func (e KeepResults) String() string {
	results := make([]string, len(e.Results))
	for i, r := range e.Results {
		results[i] = fmt.Sprintf("%s:%s", r.CallID, r.State)
		if r.Code != "" {
			results[i] += "(" + r.Code + ")"
		}
	}
	return "keep results " + strings.Join(results, " ")
}

// String names the effect in a few words.
func (e CallModel) String() string {
	text := fmt.Sprintf("call model s%d#%d %d+%d", e.Step, e.Attempt, e.Input, e.MaxOutput)
	if e.Model != "" {
		text += " " + e.Model
	}
	if e.Choose {
		text += " to choose"
	}
	return text
}

// String names the effect in a few words.
func (e CallTool) String() string {
	return fmt.Sprintf("call tool %s#%d %s", e.CallID, e.Attempt, e.Tool)
}

// String names the effect in a few words.
func (e PreviewTool) String() string {
	return fmt.Sprintf("preview tool %s#%d %s", e.CallID, e.Attempt, e.Tool)
}

// String names the effect in a few words.
func (e StartChild) String() string {
	return fmt.Sprintf("start child %s#%d %s", e.CallID, e.Attempt, e.Tool)
}

// String names the effect in a few words.
func (e LookUpTool) String() string {
	return fmt.Sprintf("look up tool %s#%d %s", e.CallID, e.Attempt, e.Tool)
}

// String names the effect in a few words.
func (e StopEffects) String() string {
	if len(e.Keep) == 0 {
		return "stop effects"
	}
	return "stop effects but " + strings.Join(e.Keep, " ")
}
