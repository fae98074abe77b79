// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"

	"github.com/interlock-dev/interlock/internal/run"
)

// CheckReply reports a reply that passes a limit as an *Error with ReasonMalformed. Names and IDs count like text: they are
// the model's words too, and they are stored.
func CheckReply(r run.Reply) error {
	if n := len(r.Calls); n > MaxCalls {
		return &Error{Reason: ReasonMalformed, Message: fmt.Sprintf("the answer holds %d calls; at most %d are taken", n, MaxCalls)}
	}
	size := len(r.Text)
	for _, c := range r.Calls {
		size += len(c.ModelCallID) + len(c.Tool) + len(c.Arguments)
	}
	if size > MaxReplyBytes {
		return &Error{Reason: ReasonMalformed, Message: fmt.Sprintf("the answer's text and calls are longer than %d bytes", MaxReplyBytes)}
	}
	return nil
}
