// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/model/modeltest"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/test/chatserver"
)

// ask gets the reply to an answer whose body is body.
func ask(t *testing.T, body string) (run.Reply, error) {
	t.Helper()
	m, _ := serving(t, chatserver.Always(chatserver.Answer{Body: body}))
	return m.Complete(t.Context(), modeltest.Request())
}

func TestComplete_readsRepliesOfEveryShape(t *testing.T) {
	choice := func(message, finish string) string {
		return `{"choices":[{"message":` + message + `,"finish_reason":` + finish + `}]}`
	}
	calls := func(list string) string { return choice(`{"content":null,"tool_calls":`+list+`}`, `"tool_calls"`) }
	one := []run.Proposal{{ModelCallID: "x", Tool: "search", Arguments: "{}"}}
	const oneCall = `[{"id":"x","type":"function","function":{"name":"search","arguments":"{}"}}]`
	args := func(s string) []run.Proposal { return []run.Proposal{{ModelCallID: "x", Tool: "search", Arguments: s}} }
	with := func(arguments string) string {
		return calls(`[{"id":"x","type":"function","function":{"name":"search"` + arguments + `}}]`)
	}
	for name, tc := range map[string]struct {
		body string
		want run.Reply
	}{
		"arguments that are null":       {with(`,"arguments":null`), run.Reply{Calls: args("")}},
		"arguments that are missing":    {with(``), run.Reply{Calls: args("")}},
		"arguments that are an object":  {with(`,"arguments":{ "a": 1.10 }`), run.Reply{Calls: args(`{ "a": 1.10 }`)}},
		"arguments that are a list":     {with(`,"arguments":[1]`), run.Reply{Calls: args(`[1]`)}},
		"arguments that are a number":   {with(`,"arguments":7`), run.Reply{Calls: args(`7`)}},
		"a lone surrogate in the JSON":  {with(`,"arguments":"{\"a\":\"\ud800\"}"`), run.Reply{Calls: args(`"{\"a\":\"\ud800\"}"`)}},
		"a replacement character":       {with(`,"arguments":"{\"a\":\"` + "\uFFFD" + `\"}"`), run.Reply{Calls: args(`{"a":"` + "\uFFFD" + `"}`)}},
		"a call without a type":         {calls(`[{"id":"x","function":{"name":"search","arguments":"{}"}}]`), run.Reply{Calls: one}},
		"a call whose ID is a number":   {calls(`[{"id":7,"function":{"name":"search","arguments":"{}"}}]`), run.Reply{Calls: []run.Proposal{{ModelCallID: "7", Tool: "search", Arguments: "{}"}}}},
		"a call that is null":           {calls(`[null]`), run.Reply{Calls: []run.Proposal{{}}}},
		"a call of an unknown type":     {calls(`[{"id":"x","type":"weird"}]`), run.Reply{Calls: []run.Proposal{{ModelCallID: "x"}}}},
		"a custom call named as a tool": {calls(`[{"id":"x","type":"custom","custom":{"name":"search","input":"{}"}}]`), run.Reply{Calls: args(`"{}"`)}},
		"calls that are null":           {choice(`{"content":"a","tool_calls":null}`, `"stop"`), run.Reply{Text: "a"}},
		"calls that say stop":           {choice(`{"tool_calls":`+oneCall+`}`, `"stop"`), run.Reply{Calls: one}},
		"an end that is null":           {choice(`{"content":"a"}`, `null`), run.Reply{Text: "a"}},
		"an end that is unknown":        {choice(`{"content":"a"}`, `"eos"`), run.Reply{Text: "a"}},
		"tool_calls without calls":      {choice(`{"content":"a"}`, `"tool_calls"`), run.Reply{Text: "a"}},
		"filtered":                      {choice(`{"content":"a","tool_calls":`+oneCall+`}`, `"content_filter"`), run.Reply{Text: "a", Calls: one, Finish: run.FinishRefused}},
		"refused, with calls":           {choice(`{"content":null,"refusal":"no","tool_calls":`+oneCall+`}`, `"stop"`), run.Reply{Text: "no", Calls: one, Finish: run.FinishRefused}},
		"refused after some text":       {choice(`{"content":"well","refusal":"no"}`, `"length"`), run.Reply{Text: "well", Finish: run.FinishRefused}},
		"nothing but thought":           {choice(`{"content":""}`, `"length"`), run.Reply{Finish: run.FinishLength}},
		"no message":                    {`{"choices":[{}]}`, run.Reply{}},
		"a choice that is null":         {`{"choices":[null]}`, run.Reply{}},
		"two choices":                   {`{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`, run.Reply{Text: "a"}},
		"content in parts":              {choice(`{"content":[{"type":"thinking","text":"hm"},{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `"stop"`), run.Reply{Text: "ab"}},
		"content in parts of no kind":   {choice(`{"content":[1]}`, `"stop"`), run.Reply{Text: "[1]"}},
		"text that is not UTF-8":        {choice("{\"content\":\"a\xffb\"}", `"stop"`), run.Reply{Text: "a\uFFFDb"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want.Finish == "" {
				tc.want.Finish = run.FinishStop
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(run.Reply{}, "RequestID")); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComplete_callsMalformedWhatIsNoCompletion(t *testing.T) {
	filler := strings.Repeat("a", model.MaxReplyBytes)
	for name, body := range map[string]string{
		"nothing":                     ``,
		"null":                        `null`,
		"a list":                      `[]`,
		"a string":                    `"x"`,
		"an object without choices":   `{}`,
		"choices that are null":       `{"choices":null}`,
		"no choice":                   `{"choices":[]}`,
		"choices that are an object":  `{"choices":{}}`,
		"an error in place of it":     `{"error":{"message":"boom","code":500}}`,
		"calls that are no list":      `{"choices":[{"message":{"tool_calls":{"id":"x"}}}]}`,
		"JSON that ends too soon":     `{"choices":[{"message":{"content":"a`,
		"HTML":                        `<html><body>gateway</body></html>`,
		"text longer than it may be":  `{"choices":[{"message":{"content":"` + filler + `a"}}]}`,
		"calls longer than they may":  `{"choices":[{"message":{"tool_calls":[{"function":{"name":"a","arguments":"` + filler + `"}}]}}]}`,
		"a body longer than may be":   `{"choices":[{"message":{"content":"` + strings.Repeat("a", model.MaxBodyBytes) + `"}}]}`,
		"white space longer than max": strings.Repeat(" ", model.MaxBodyBytes+1),
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := ask(t, body)
			var failed *model.Error
			if !errors.As(err, &failed) || failed.Reason != model.ReasonMalformed {
				t.Errorf("Complete() = %v, %v, want Malformed", reply, err)
			}
		})
	}
}

func TestComplete_takesAReplyAsLongAsItMayBe(t *testing.T) {
	got, err := ask(t, `{"choices":[{"message":{"content":"`+strings.Repeat("a", model.MaxReplyBytes)+`"}}]}`)
	if err != nil || len(got.Text) != model.MaxReplyBytes {
		t.Errorf("Complete() = %d bytes, %v", len(got.Text), err)
	}
}

// Some servers say tool_calls or stop although the reply hit its cap in the middle of a call.
func TestComplete_recognisesAReplyThatWasCutOffInSilence(t *testing.T) {
	for name, tc := range map[string]struct {
		arguments string
		output    int64
		want      run.Finish
	}{
		"half a call at the cap":   {`{"query":"f`, 1000, run.FinishLength},
		"no arguments at the cap":  {``, 1000, run.FinishLength},
		"a whole call at the cap":  {`{"query":"f"}`, 1000, run.FinishStop},
		"half a call below it":     {`{"query":"f`, 999, run.FinishStop},
		"half a call, no accounts": {`{"query":"f`, 0, run.FinishStop},
	} {
		t.Run(name, func(t *testing.T) {
			c := &chatserver.Completion{Calls: []chatserver.Call{{ID: "x", Name: "search", Arguments: tc.arguments}}}
			if tc.output > 0 {
				c.Usage = &chatserver.Usage{Prompt: 10, Completion: tc.output}
			}
			m, _ := serving(t, chatserver.Always(chatserver.Answer{Completion: c}))
			got, err := m.Complete(t.Context(), modeltest.Request())
			if err != nil || got.Finish != tc.want {
				t.Errorf("finish = %s, %v, want %s", got.Finish, err, tc.want)
			}
		})
	}
}

func TestComplete_keepsNamesOfTheProviderOnlyIfTheyArePlain(t *testing.T) {
	for name, tc := range map[string]struct{ said, want string }{
		"a plain name":  {"org/model-4.1:2026@eu", "org/model-4.1:2026@eu"},
		"nothing":       {"", ""},
		"white space":   {"a b", ""},
		"a long name":   {strings.Repeat("a", 257), ""},
		"not ASCII":     {"modèle", ""},
		"a command":     {"-rf", ""},
		"markup":        {"<b>", ""},
		"a longest one": {strings.Repeat("a", 256), strings.Repeat("a", 256)},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serving(t, chatserver.Always(chatserver.Answer{
				Body:   `{"model":"` + tc.said + `","choices":[{"message":{"content":"a"}}]}`,
				Header: http.Header{"X-Request-Id": {tc.said}},
			}))
			got, err := m.Complete(t.Context(), modeltest.Request())
			if err != nil || got.Model != tc.want || got.RequestID != tc.want {
				t.Errorf("model %q, request %q, %v; want %q", got.Model, got.RequestID, err, tc.want)
			}
		})
	}
}

func TestComplete_believesUsageOnlyIfItCanBeTrue(t *testing.T) {
	for name, tc := range map[string]struct {
		usage string
		want  run.TokenUsage
	}{
		"everything": {
			`{"prompt_tokens":12,"completion_tokens":7,"total_tokens":19,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":3}}`,
			run.TokenUsage{Input: 12, CachedInput: 5, Output: 7, Reasoning: 3, Reported: true},
		},
		"no details":                       {`{"prompt_tokens":12,"completion_tokens":7}`, run.TokenUsage{Input: 12, Output: 7, Reported: true}},
		"details that are null":            {`{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":null}`, run.TokenUsage{Input: 12, Output: 7, Reported: true}},
		"reasoning in the total only":      {`{"prompt_tokens":12,"completion_tokens":7,"total_tokens":119,"completion_tokens_details":{"reasoning_tokens":100}}`, run.TokenUsage{Input: 12, Output: 107, Reasoning: 100, Reported: true}},
		"a total that is too small":        {`{"prompt_tokens":12,"completion_tokens":7,"total_tokens":3}`, run.TokenUsage{Input: 12, Output: 7, Reported: true}},
		"null":                             {`null`, run.TokenUsage{}},
		"an empty object":                  {`{}`, run.TokenUsage{}},
		"a list":                           {`[1,2]`, run.TokenUsage{}},
		"only input":                       {`{"prompt_tokens":12}`, run.TokenUsage{}},
		"only output":                      {`{"completion_tokens":7}`, run.TokenUsage{}},
		"nulls":                            {`{"prompt_tokens":null,"completion_tokens":7}`, run.TokenUsage{}},
		"zeros":                            {`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, run.TokenUsage{}},
		"text that cost nothing":           {`{"prompt_tokens":12,"completion_tokens":0}`, run.TokenUsage{}},
		"negative input":                   {`{"prompt_tokens":-12,"completion_tokens":7}`, run.TokenUsage{}},
		"negative output":                  {`{"prompt_tokens":12,"completion_tokens":-7}`, run.TokenUsage{}},
		"absurd input":                     {`{"prompt_tokens":100000001,"completion_tokens":7}`, run.TokenUsage{}},
		"absurd output":                    {`{"prompt_tokens":12,"completion_tokens":100000001}`, run.TokenUsage{}},
		"an absurd total":                  {`{"prompt_tokens":12,"completion_tokens":7,"total_tokens":99999999999999999999}`, run.TokenUsage{}},
		"numbers that overflow":            {`{"prompt_tokens":-9223372036854775808,"completion_tokens":7,"total_tokens":9223372036854775807}`, run.TokenUsage{}},
		"more cached than there was":       {`{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":13}}`, run.TokenUsage{}},
		"negative cached":                  {`{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":-1}}`, run.TokenUsage{}},
		"more reasoning than was put out":  {`{"prompt_tokens":12,"completion_tokens":7,"completion_tokens_details":{"reasoning_tokens":8}}`, run.TokenUsage{}},
		"negative reasoning":               {`{"prompt_tokens":12,"completion_tokens":7,"completion_tokens_details":{"reasoning_tokens":-1}}`, run.TokenUsage{}},
		"words":                            {`{"prompt_tokens":"many","completion_tokens":"few"}`, run.TokenUsage{}},
		"numbers that came as strings":     {`{"prompt_tokens":"12","completion_tokens":"7"}`, run.TokenUsage{Input: 12, Output: 7, Reported: true}},
		"the most that a model could read": {`{"prompt_tokens":100000000,"completion_tokens":7}`, run.TokenUsage{Input: 100000000, Output: 7, Reported: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, `{"choices":[{"message":{"content":"a"}}],"usage":`+tc.usage+`}`)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
	for usage, want := range map[string]run.TokenUsage{
		`{"prompt_tokens":12,"completion_tokens":0}`:    {Input: 12, Reported: true},
		`{"prompt_tokens":12}`:                          {},
		`{"prompt_tokens":12,"completion_tokens":null}`: {},
	} {
		t.Run("an empty answer that reports "+usage, func(t *testing.T) {
			got, err := ask(t, `{"choices":[{"message":{"content":""}}],"usage":`+usage+`}`)
			if err != nil || got.Usage != want {
				t.Errorf("usage = %v, %v, want %v", got.Usage, err, want)
			}
		})
	}
}
