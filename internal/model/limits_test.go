// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

func TestCheckReply_takesWhatIsAtALimitAndRefusesWhatPassesIt(t *testing.T) {
	text := func(n int) string { return strings.Repeat("a", n) }
	for name, tc := range map[string]struct {
		reply       run.Reply
		wantRefused bool
	}{
		"an empty reply":                         {reply: run.Reply{}},
		"as many calls as allowed":               {reply: run.Reply{Calls: make([]run.Proposal, model.MaxCalls)}},
		"one call too many":                      {reply: run.Reply{Calls: make([]run.Proposal, model.MaxCalls+1)}, wantRefused: true},
		"as much text as allowed":                {reply: run.Reply{Text: text(model.MaxReplyBytes)}},
		"text and arguments together at limit":   {reply: run.Reply{Text: text(model.MaxReplyBytes - 2), Calls: []run.Proposal{{Arguments: "{}"}}}},
		"text and arguments together past limit": {reply: run.Reply{Text: text(model.MaxReplyBytes - 1), Calls: []run.Proposal{{Arguments: "{}"}}}, wantRefused: true},
		"a tool's name counts":                   {reply: run.Reply{Calls: []run.Proposal{{Tool: text(model.MaxReplyBytes + 1)}}}, wantRefused: true},
		"a call ID counts":                       {reply: run.Reply{Calls: []run.Proposal{{ModelCallID: text(model.MaxReplyBytes + 1)}}}, wantRefused: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := model.CheckReply(tc.reply)
			var failed *model.Error
			if got := errors.As(err, &failed) && failed.Reason == model.ReasonMalformed; got != tc.wantRefused {
				t.Errorf("CheckReply() = %v, want refused %v", err, tc.wantRefused)
			}
			if !tc.wantRefused && err != nil {
				t.Errorf("CheckReply() = %v, want nil", err)
			}
		})
	}
}
