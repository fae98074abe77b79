// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/interlock-dev/interlock/internal/policy"
)

// faulty is wrong in every way at once, so that the order of the gate shows.
func faulty() policy.Call {
	return policy.Call{
		Tool: "x", CutOff: true, Refused: true, Tools: "a, b",
		Unavailable: "it is down", Malformed: "there are two", Invalid: "/q is missing",
	}
}

func TestCheck_theFirstObjectionInTheOrderOfTheGateDecides(t *testing.T) {
	c := faulty()
	for _, step := range []struct {
		want string
		mend func()
	}{
		{policy.CodeReplyRefused, func() { c.Refused = false }},
		{policy.CodeReplyCutOff, func() { c.CutOff = false }},
		{policy.CodeUnknownTool, func() { c.Known = true }},
		{policy.CodeToolUnavailable, func() { c.Unavailable = "" }},
		{policy.CodeMalformedArguments, func() { c.Malformed = "" }},
		{policy.CodeInvalidArguments, func() { c.Invalid = "" }},
	} {
		got := policy.Check(c)
		if got.Code != step.want || got.Message == "" || got.Allowed() {
			t.Errorf("Check(%+v) = %+v, want a refusal with code %s and a message", c, got, step.want)
		}
		step.mend()
	}
	if got := policy.Check(c); !got.Allowed() {
		t.Errorf("Check(%+v) = %+v, want it allowed", c, got)
	}
}

func TestCheck_anUnknownToolIsToldWhatThereIs(t *testing.T) {
	for name, test := range map[string]struct{ tools, want string }{
		"some tools": {"a, b", `There is no tool "x". The tools are: a, b.`},
		"no tools":   {"", `There is no tool "x". This run has no tools.`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policy.Check(policy.Call{Tool: "x", Tools: test.tools}); got.Message != test.want {
				t.Errorf("got %q, want %q", got.Message, test.want)
			}
		})
	}
}
