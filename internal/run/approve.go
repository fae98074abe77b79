// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"time"

	"github.com/interlock-dev/interlock/internal/policy"
)

// Codes of calls that people did not let through.
const (
	// CodeApprovalDenied: an approver said no.
	CodeApprovalDenied = "ApprovalDenied"
	// CodeApprovalExpired: too few approved it in time.
	CodeApprovalExpired = "ApprovalExpired"
)

// approvedBy counts a person's consent, once, if it is to what is being asked and not too late.
func (s State) approvedBy(e Approved) (State, []Effect) {
	i := s.awaiting(e.CallID, e.Digest)
	if i < 0 || !e.At.Before(s.Calls[i].Ask.Expires) {
		return s, nil
	}
	c := &s.Calls[i]
	if slices.ContainsFunc(c.Ask.Consents, func(other Consent) bool { return other.By == e.Consent.By }) {
		return s, nil
	}
	c.Ask.Consents = append(c.Ask.Consents, e.Consent)
	if !c.approved() {
		return s, nil
	}
	c.State = CallApproved
	return s.goOn(e.At)
}

// denied takes one person's no, however many have said yes.
func (s State) denied(e Denied) (State, []Effect) {
	i := s.awaiting(e.CallID, e.Digest)
	if i < 0 {
		return s, nil
	}
	message := "An approver denied the call, so it was not made."
	if e.Reason != "" {
		message += " The reason given: " + e.Reason
	}
	return s.refuse(i, e.At, policy.Verdict{Code: CodeApprovalDenied, Message: message}, true)
}

// withdraw refuses a call that passed the gate and is not in flight: its tool has changed, or the journal says that it was
// refused.
func (s State) withdraw(callID string, at time.Time, v policy.Verdict) (State, []Effect) {
	for i, c := range s.Calls {
		if c.ID == callID && !c.Done() && !c.InFlight() && !c.Outstanding() {
			return s.refuse(i, at, v, v.Code == CodeApprovalDenied || v.Code == CodeApprovalExpired)
		}
	}
	return s, nil
}

// awaiting finds the call that people are asked about, as digest has it; -1 if there is none.
func (s State) awaiting(callID, digest string) int {
	return slices.IndexFunc(s.Calls, func(c Call) bool {
		return c.ID == callID && c.State == CallAwaitingApproval && c.Ask != nil && c.Ask.Digest == digest
	})
}
