// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package scripted_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

func TestComplete_checksWhatTheModelIsShown(t *testing.T) {
	shown := run.ModelRequest{
		Step: 1, Attempt: 1,
		Messages: []run.Message{
			{Role: run.RoleUser, Text: "the goal"},
			{Role: run.RoleAssistant, Text: "thinking"},
			{Role: run.RoleTool, CallID: "s1c1", Text: "2 results"},
			{Role: run.RoleTool, CallID: "s1c2", Text: "denied"},
		},
		Tools: []run.ToolDefinition{{Name: "b"}, {Name: "a"}},
	}
	for name, tc := range map[string]struct {
		expect string
		want   string // part of the message; empty if the expectation is met
	}{
		"texts in different messages":       {expect: `contains: ["2 res", denied]`},
		"text that is nowhere":              {expect: `contains: ["2 res", approved]`, want: `turn 1 expects a message that contains "approved"; none of the 2 `},
		"text from before the last reply":   {expect: `contains: [the goal]`, want: `"the goal"`},
		"the model's own text":              {expect: `contains: [thinking]`, want: `"thinking"`},
		"the tools in another order":        {expect: `tools: [a, b]`},
		"a tool that is missing":            {expect: `tools: [a, b, c]`, want: `turn 1 expects the tools "a, b, c"; on offer are "a, b"`},
		"a tool too many":                   {expect: `tools: [a]`, want: `turn 1 expects the tools "a"`},
		"no tool at all":                    {expect: `tools: []`, want: `expects the tools ""`},
		"long text is repeated only partly": {expect: `contains: ["` + strings.Repeat("ö", 5000) + `"]`, want: `ö…"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := aModel(t, "turns:\n- text: ok\n  expect: {"+tc.expect+"}\n").Complete(t.Context(), shown)
			if tc.want == "" {
				if err != nil {
					t.Errorf("error = %v, want none", err)
				}
				return
			}
			var failed *model.Error
			if !errors.As(err, &failed) || failed.Reason != model.ReasonInvalidRequest || !strings.Contains(failed.Message, tc.want) || len(failed.Message) > 1024 {
				t.Errorf("error = %v, want InvalidRequest with %s", err, tc.want)
			}
		})
	}
}

func TestComplete_looksAtAllMessagesBeforeTheFirstReply(t *testing.T) {
	m := aModel(t, "turns:\n- text: ok\n  expect: {contains: [the goal]}\n")
	req := run.ModelRequest{Step: 1, Attempt: 1, Messages: []run.Message{{Role: run.RoleUser, Text: "this is the goal"}}}
	if _, err := m.Complete(t.Context(), req); err != nil {
		t.Error(err)
	}
}
