// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"
	"time"
)

// A CallState is where a call stands.
type CallState string

// The states of a call; see the drawing in the package comment.
const (
	CallRejected         CallState = "Rejected"
	CallReady            CallState = "Ready"
	CallPreviewing       CallState = "Previewing"
	CallAwaitingApproval CallState = "AwaitingApproval"
	CallApproved         CallState = "Approved"
	CallExecuting        CallState = "Executing"
	CallBackoff          CallState = "Backoff"
	CallLookingUp        CallState = "LookingUp"
	CallSucceeded        CallState = "Succeeded"
	CallFailed           CallState = "Failed"
)

// A Call is one tool call of a reply.
type Call struct {
	// ID is ours: step and place in the reply, such as s3c1. The model's own ID plays no part.
	ID string
	// Tool is the name that the model used, fit to be shown.
	Tool  string
	State CallState
	// Attempt counts what was sent for the call, previews and look-ups included, from 1; 0 if nothing was. It names what is in
	// flight. Failures counts those of them that failed, and were not only lost.
	Attempt, Failures int
	// NotBefore is when the next attempt is due: in Backoff, and in LookingUp while no look-up is in flight.
	NotBefore time.Time
	// Code is why it was refused or failed, or why the attempt before did.
	Code string
	// OperationID is the idempotency key. ArgumentsDigest is that of the exact bytes to send.
	OperationID, ArgumentsDigest string
	// Binding is the version of the tool's rules that the call was checked against, and Rules are what it asks for.
	Binding Binding
	Rules   Rules
	// Preview is what the tool server said it would do; nil until then. Ask is what people are asked; nil if they are not.
	Preview *Preview
	Ask     *Ask
	// Grant is what the call's child run may use; nil if the call starts none, or its child has ended. Child is the UID of that run,
	// once it is known to be there.
	Grant *Grant
	Child string
}

// A Binding names one version of a ToolBinding.
type Binding struct {
	UID        string
	Generation int64
}

// Rules say what has to be done to make a call. The zero Rules are those of a call that reads.
type Rules struct {
	// Write: the call may change the world. It is made in its turn, and its outcome is settled before the run ends.
	Write bool
	// Preview: the call is previewed, and what was previewed is committed.
	Preview bool
	// LookUp: the tool server can be asked what became of the operation.
	LookUp bool
	// Approvals is how many people have to approve; 0 if nobody is asked.
	Approvals int
	// Timeout is how long one attempt may take.
	Timeout time.Duration
}

// A Preview names what a tool server said it would do.
type Preview struct {
	// ID is the server's; Digest is ours, of all that it said. ResourceVersion is that of what would be changed.
	ID, Digest, ResourceVersion string
}

// An Ask is a question to people: may this call go ahead, exactly as the digest has it, before it expires?
type Ask struct {
	Digest   string
	Expires  time.Time
	Consents []Consent
}

// A Consent is one person's approval.
type Consent struct {
	// Approval is the UID of the object; By is who made it.
	Approval, By string
}

// Done reports whether c has its result.
func (c Call) Done() bool {
	switch c.State {
	case CallRejected, CallSucceeded, CallFailed:
		return true
	case CallReady, CallPreviewing, CallAwaitingApproval, CallApproved, CallExecuting, CallBackoff, CallLookingUp:
		return false
	}
	return false
}

// InFlight reports whether something was sent for c and not yet answered.
func (c Call) InFlight() bool {
	switch c.State {
	case CallPreviewing, CallExecuting:
		return true
	case CallLookingUp:
		return c.NotBefore.IsZero()
	case CallReady, CallAwaitingApproval, CallApproved, CallBackoff, CallRejected, CallSucceeded, CallFailed:
		return false
	}
	return false
}

// Unsettled reports whether c is a write that may have happened, or be happening, with its outcome not known.
func (c Call) Unsettled() bool {
	return c.Rules.Write && c.Grant == nil && (c.State == CallExecuting || c.State == CallLookingUp)
}

// asked reports whether people's answer still counts: until the call is sent.
func (c Call) asked() bool {
	return c.Ask != nil && (c.State == CallAwaitingApproval || c.State == CallApproved || c.State == CallBackoff)
}

// approved reports whether enough people have approved.
func (c Call) approved() bool {
	return c.Rules.Approvals == 0 || (c.Ask != nil && len(c.Ask.Consents) >= c.Rules.Approvals)
}

func (c Call) clone() Call {
	if c.Preview != nil {
		c.Preview = new(*c.Preview)
	}
	if c.Ask != nil {
		c.Ask = new(*c.Ask)
		c.Ask.Consents = slices.Clone(c.Ask.Consents)
	}
	if c.Grant != nil {
		c.Grant = new(*c.Grant)
	}
	return c
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
	if c.childOut() {
		text += fmt.Sprintf("[child of %d steps %dt %d+%d", c.Grant.Steps, c.Grant.ToolCalls, c.Grant.InputTokens, c.Grant.OutputTokens)
		if c.Grant.Cost > 0 {
			text += " cost " + c.Grant.Cost.String()
		}
		text += "]"
	}
	if c.asked() {
		text += fmt.Sprintf("[%d/%d until %s]", len(c.Ask.Consents), c.Rules.Approvals, clock(c.Ask.Expires))
	}
	return text
}
