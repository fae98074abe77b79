// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package scripted_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/model/scripted"
	"github.com/interlock-dev/interlock/internal/run"
)

const wholeYAML = `
# Every key there is.
turns:
- expect:
    contains: ["2 results"]
    tools: [search]
  text: |
    Let me
    look.
  calls:
  - tool: search
    id: call_1
    arguments: {big: 9007199254740993, exact: 1.10, tiny: 1e-7, when: 2026-01-01, flag: true, none: null, word: yes, nested: [{a: "<&>"}]}
  - {tool: search, rawArguments: '{not JSON'}
  - {tool: search}
  finish: Length
  usage: {input: 120, output: 30, cachedInput: 20, reasoning: 10}
  delayMilliseconds: 0
  fail: {times: 1, reason: Unavailable}
`

const wholeJSON = `{"turns":[{"expect":{"contains":["2 results"],"tools":["search"]},"text":"Let me\nlook.\n","calls":[
 {"tool":"search","id":"call_1","arguments":{ "big": 9007199254740993, "exact":1.10,"tiny":1e-7,"when":"2026-01-01","flag":true,"none":null,"word":"yes","nested":[{"a":"<&>"}]}},
 {"tool":"search","rawArguments":"{not JSON"},{"tool":"search"}],
 "finish":"Length","usage":{"input":120,"output":30,"cachedInput":20,"reasoning":10},"fail":{"times":1,"reason":"Unavailable"}}]}`

func TestParse_readsYAMLAndJSONAlike(t *testing.T) {
	want := run.Reply{
		Text: "Let me\nlook.\n",
		Calls: []run.Proposal{
			{ModelCallID: "call_1", Tool: "search", Arguments: `{"big":9007199254740993,"exact":1.10,"tiny":1e-7,"when":"2026-01-01",` +
				`"flag":true,"none":null,"word":"yes","nested":[{"a":"<&>"}]}`},
			{Tool: "search", Arguments: "{not JSON"},
			{Tool: "search", Arguments: "{}"},
		},
		Finish: run.FinishLength,
		Usage:  run.TokenUsage{Input: 120, Output: 30, CachedInput: 20, Reasoning: 10, Reported: true},
		Model:  "scripted",
	}
	shown := run.ModelRequest{
		Step: 1, Attempt: 2,
		Messages: []run.Message{{Role: run.RoleUser, Text: "2 results"}},
		Tools:    []run.ToolDefinition{{Name: "search"}},
	}
	for name, script := range map[string]string{"YAML": wholeYAML, "JSON": wholeJSON} {
		t.Run(name, func(t *testing.T) {
			got, err := aModel(t, script).Complete(t.Context(), shown)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_refusesWhatItDoesNotUnderstand(t *testing.T) {
	turns := func(n int) string {
		return `{"turns":[` + strings.TrimSuffix(strings.Repeat(`{"text":"a"},`, n), ",") + `]}`
	}
	for name, tc := range map[string]struct{ script, want string }{
		"nothing":                     {"", "it is empty"},
		"no turns":                    {"turns: []", "0 turns; it needs 1 to 200"},
		"too many turns":              {turns(201), "201 turns"},
		"too many bytes":              {"turns: [{text: " + strings.Repeat("a", scripted.MaxBytes) + "}]", "at most 262144 are read"},
		"text that is no script":      {"hello", "cannot unmarshal string"},
		"broken YAML":                 {"turns: [", "reading the script: yaml"},
		"two documents":               {"turns: [{text: a}]\n---\nturns: [{text: b}]", "more than one document"},
		"an unknown key":              {"turns: [{txet: a}]", `unknown field "turns[0].txet"`},
		"an unknown key, deep":        {"turns: [{calls: [{tol: a}]}]", `unknown field "turns[0].calls[0].tol"`},
		"a key in other case":         {"turns: [{Text: a}]", `unknown field "turns[0].Text"`},
		"a repeated key in JSON":      {`{"turns":[{"text":"a","text":"b"}]}`, `duplicate field "turns[0].text"`},
		"a repeated key in YAML":      {"turns: [{calls: [{tool: a, arguments: {b: 1, b: 2}}]}]", `line 1: the key "b" is there twice`},
		"an anchor":                   {"turns: [&a {text: b}, {text: c}]", "line 1: anchors and aliases are not read"},
		"an anchor on a key":          {"turns: [{&a text: b}]", "a key must be a plain string"},
		"an alias":                    {"turns:\n- text: a\n  calls: [*a]", "unknown anchor"},
		"a key that is a list":        {"turns: [{calls: [{tool: a, arguments: {[1]: 2}}]}]", "a key must be a plain string"},
		"a number that JSON has not":  {"turns:\n- calls: [{tool: a, arguments: {b: 0x1F}}]", `line 2: write "0x1F" as JSON does`},
		"infinity":                    {"turns: [{calls: [{tool: a, arguments: {b: .inf}}]}]", `write ".inf" as JSON does`},
		"a tag of its own":            {"turns: [{text: !secret a}]", `values tagged "!secret" are not read`},
		"an unknown finish":           {"turns: [{finish: stop}]", `turns[0].finish: "stop" is none of`},
		"arguments that are a list":   {"turns: [{calls: [{tool: a}, {tool: a, arguments: [1]}]}]", "turns[0].calls[1].arguments: not an object"},
		"arguments that are null":     {"turns: [{calls: [{tool: a, arguments: null}]}]", "turns[0].calls[0].arguments: not an object"},
		"arguments of two kinds":      {"turns: [{calls: [{tool: a, arguments: {}, rawArguments: x}]}]", "not both"},
		"usage below zero":            {"turns: [{usage: {input: -1}}]", "turns[0].usage.input: -1 is not from 0 to"},
		"more cached than there is":   {"turns: [{usage: {input: 1, cachedInput: 2}}]", "usage.cachedInput: 2 is not from 0 to 1"},
		"more reasoning than output":  {"turns: [{usage: {output: 1, reasoning: 2}}]", "usage.reasoning: 2 is not from 0 to 1"},
		"a delay below zero":          {"turns: [{delayMilliseconds: -1}]", "turns[0].delayMilliseconds: -1 is not from 0 to 600000"},
		"an unknown reason":           {"turns: [{text: a}, {fail: {times: 1, reason: Bored}}]", `turns[1].fail.reason: "Bored" is not a reason`},
		"a failure that never is":     {"turns: [{fail: {reason: Timeout}}]", "turns[0].fail.times: 0 is not from 1 to 1000"},
		"advice that lasts too long":  {"turns: [{fail: {times: 1, reason: Timeout, retryAfterSeconds: 86401}}]", "turns[0].fail.retryAfterSeconds: 86401 is not"},
		"a turn count that is a word": {"turns: many", "cannot unmarshal string"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scripted.Parse([]byte(tc.script))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Parse() = %v, want an error of one line with %s", err, tc.want)
			}
		})
	}
}

func TestParse_takesWhatIsAtALimit(t *testing.T) {
	turns := `{"turns":[` + strings.TrimSuffix(strings.Repeat(`{"text":"a"},`, scripted.MaxTurns), ",") + `]}`
	if _, err := scripted.Parse([]byte(turns + strings.Repeat(" ", scripted.MaxBytes-len(turns)))); err != nil {
		t.Error(err)
	}
}

func TestParse_readsEveryReason(t *testing.T) {
	for _, reason := range []model.Reason{
		model.ReasonUnavailable, model.ReasonRateLimited, model.ReasonTimeout, model.ReasonMalformed, model.ReasonUnauthorized,
		model.ReasonNotFound, model.ReasonContextLength, model.ReasonInvalidRequest, model.ReasonRefused,
	} {
		if _, err := scripted.Parse(fmt.Appendf(nil, "turns: [{fail: {times: 1, reason: %s}}]", reason)); err != nil {
			t.Error(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{wholeYAML, wholeJSON, "turns: [&a {text: b}, *a]", "a: !!binary x", "turns: [{calls: [{tool: a, arguments: {b: .5}}]}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		m, err := scripted.New(model.Config{Script: script})
		if err != nil {
			return
		}
		if _, err := m.Complete(t.Context(), run.ModelRequest{Step: 1, Attempt: 10_000}); err != nil {
			if _, ok := errors.AsType[*model.Error](err); !ok {
				t.Errorf("Complete() = %v (%T), want nil or an *Error", err, err)
			}
		}
	})
}
