// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import "time"

// Refused says that somebody's policy does not let the run begin, or go on. Detail is a code, and Message says in words whose
// policy it is, and what to do.
type Refused struct {
	At              time.Time
	Detail, Message string
}

func (Refused) isEvent() {}

// String names the event in a few words.
func (e Refused) String() string { return "refused " + e.Detail }

// refusedBy ends a run that a policy does not allow.
func (s State) refusedBy(e Refused) (State, []Effect) {
	if s.Phase == "" || s.Ending != nil {
		return s, nil
	}
	return s.end(e.At, Termination{Reason: ReasonPolicyDenied, Detail: e.Detail, Message: e.Message})
}
