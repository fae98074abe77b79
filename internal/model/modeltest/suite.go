// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

// maxMessage bounds a message that is shown to users, in bytes.
const maxMessage = 1024

// Run tests an adapter against the contract of model.Model.
func Run(t *testing.T, newModel NewModel) {
	t.Helper()
	t.Run("replies", func(t *testing.T) { runReplies(t, newModel) })
	t.Run("failures", func(t *testing.T) { runFailures(t, newModel) })
	t.Run("contexts", func(t *testing.T) { runContexts(t, newModel) })
	t.Run("concurrent calls", func(t *testing.T) { runConcurrent(t, newModel) })
}

func runReplies(t *testing.T, newModel NewModel) {
	t.Helper()
	for name, reply := range replies() {
		t.Run(name, func(t *testing.T) {
			got, err := newModel(t, Behaviour{Reply: reply}).Complete(t.Context(), Request())
			if err != nil {
				t.Fatalf("Complete() = %v", err)
			}
			if diff := cmp.Diff(reply, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(run.Reply{}, "Model", "RequestID")); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
			if got.Model == "" {
				t.Error("the reply does not say which model answered")
			}
		})
	}
	t.Run("one call more than allowed is malformed", func(t *testing.T) {
		m := newModel(t, Behaviour{Reply: run.Reply{Finish: run.FinishStop, Calls: numbered(model.MaxCalls + 1)}})
		_, err := m.Complete(t.Context(), Request())
		wantError(t, err, model.ReasonMalformed)
	})
}

// replies are answers that come back as they are, by what they show.
func replies() map[string]run.Reply {
	call := run.Proposal{ModelCallID: "call_1", Tool: "search", Arguments: `{"query":"fsm"}`}
	used := run.TokenUsage{Input: 120, CachedInput: 100, Output: 30, Reasoning: 20, Reported: true}
	rows := map[string]run.Reply{
		"text and its usage":           {Text: "hello, wörld", Finish: run.FinishStop, Usage: used},
		"usage that is not reported":   {Text: "hello", Finish: run.FinishStop},
		"a call without text":          {Calls: []run.Proposal{call}, Finish: run.FinishStop, Usage: used},
		"text and calls are both kept": {Text: "let me look", Calls: []run.Proposal{call}, Finish: run.FinishStop},
		"a cut-off reply":              {Text: "let me", Finish: run.FinishLength, Usage: used},
		"a cut-off reply with calls":   {Calls: []run.Proposal{call}, Finish: run.FinishLength},
		"a refusal":                    {Text: "I will not", Finish: run.FinishRefused, Usage: used},
		"an empty answer":              {Finish: run.FinishStop},
		"as many calls as allowed":     {Calls: numbered(model.MaxCalls), Finish: run.FinishStop},
		"parallel calls in order":      {Calls: numbered(8), Finish: run.FinishStop},
		"empty and repeated call IDs": {Finish: run.FinishStop, Calls: []run.Proposal{
			{Tool: "a", Arguments: "{}"}, {Tool: "b", Arguments: "{}"}, {ModelCallID: "x", Tool: "c", Arguments: "{}"}, {ModelCallID: "x", Tool: "c", Arguments: "{}"},
		}},
		"a name that no tool has": {Finish: run.FinishStop, Calls: []run.Proposal{{ModelCallID: "x", Tool: "../no such\ntool", Arguments: "{}"}}},
	}
	for name, arguments := range map[string]string{
		"empty": "", "not JSON": `{"query":`, "not an object": `[1]`, "null": `null`, "a repeated key": `{"a":1,"a":2}`, "a lone surrogate": `{"a":"\ud800"}`,
		"numbers beyond a float": `{"a":9007199254740993,"b":1e400,"c":1.10}`, "white space": "{ \"a\" :\t1 }\n",
	} {
		rows["arguments as they are: "+name] = run.Reply{Finish: run.FinishStop, Calls: []run.Proposal{{ModelCallID: "x", Tool: "search", Arguments: arguments}}}
	}
	return rows
}

func numbered(n int) []run.Proposal {
	calls := make([]run.Proposal, 0, n)
	for i := range n {
		calls = append(calls, run.Proposal{ModelCallID: fmt.Sprintf("call_%d", i), Tool: "search", Arguments: fmt.Sprintf(`{"n":%d}`, i)})
	}
	return calls
}

func runFailures(t *testing.T, newModel NewModel) {
	t.Helper()
	for _, reason := range []model.Reason{
		model.ReasonUnavailable, model.ReasonRateLimited, model.ReasonTimeout, model.ReasonMalformed, model.ReasonUnauthorized,
		model.ReasonNotFound, model.ReasonContextLength, model.ReasonInvalidRequest, model.ReasonRefused,
	} {
		t.Run(string(reason), func(t *testing.T) {
			_, err := newModel(t, Behaviour{Fail: reason}).Complete(t.Context(), Request())
			if got := wantError(t, err, reason); got.RetryAfter != 0 {
				t.Errorf("RetryAfter = %v without advice", got.RetryAfter)
			}
		})
	}
	for _, reason := range []model.Reason{model.ReasonUnavailable, model.ReasonRateLimited} {
		t.Run(string(reason)+" with advice", func(t *testing.T) {
			_, err := newModel(t, Behaviour{Fail: reason, RetryAfter: 7 * time.Second}).Complete(t.Context(), Request())
			if got := wantError(t, err, reason); got.RetryAfter != 7*time.Second {
				t.Errorf("RetryAfter = %v, want 7s", got.RetryAfter)
			}
		})
	}
}

// wantError insists on an *Error with reason and a message that can be shown on one line.
func wantError(t *testing.T, err error, reason model.Reason) *model.Error {
	t.Helper()
	got, ok := err.(*model.Error) //nolint:errorlint // the port promises an *Error, not something that wraps one
	if !ok || got == nil {
		t.Fatalf("error = %v (%T), want an *Error", err, err)
	}
	if got.Reason != reason {
		t.Errorf("error = %v, want reason %s", err, reason)
	}
	if m := got.Message; m == "" || len(m) > maxMessage || strings.ContainsAny(m, "\n\r") {
		t.Errorf("message = %q, want one line", m)
	}
	return got
}
