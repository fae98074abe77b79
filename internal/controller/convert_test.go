// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
)

func aRun() *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "u", Generation: 3},
		Spec: v1alpha1.AgentRunSpec{
			Goal: "g", Model: v1alpha1.ModelSelection{Name: "m"}, Tools: []v1alpha1.ToolSelection{{Name: "search"}},
			Limits: v1alpha1.RunLimits{
				MaxSteps: 5, DeadlineSeconds: 60, MaxToolCalls: new(int32(7)), MaxInvalid: new(int32(0)), MaxRepeats: 5, Parallelism: 2,
				MaxInputTokens: 100_000, MaxOutputTokens: 1000, MaxCost: "2.5",
			},
			OnToolFailure: v1alpha1.ToolFailureTerminate,
		},
	}
}

// drawState makes any state that the core can be in, with times as coarse as the API keeps them.
func drawState(t *rapid.T) run.State {
	second := func(label string) time.Time {
		return time.Unix(int64(rapid.IntRange(1, 2_000_000_000).Draw(t, label)), 0)
	}
	number := func(label string) int { return rapid.IntRange(0, 1000).Draw(t, label) }
	text := rapid.SampledFrom([]string{"", "Code", "Other"})
	s := run.State{
		UID: "u", Limits: limitsOf(aRun().Spec), Step: number("step"), Started: second("started"), Deadline: second("deadline"),
		Phase: rapid.SampledFrom([]run.Phase{run.Pending, run.Thinking, run.Acting, run.Suspended, run.Succeeded, run.Failed, run.Cancelled}).Draw(t, "phase"),
		Usage: run.Usage{
			Cost:       run.Money(number("cost")),
			ModelCalls: number("model calls"), ToolCalls: number("tool calls"), Invalid: number("invalid"), Unreported: number("unreported"),
			Tokens: run.TokenUsage{Input: int64(number("in")), CachedInput: int64(number("cached")), Output: int64(number("out")), Reasoning: int64(number("reasoning"))},
		},
	}
	s.Context = int64(number("context"))
	if rapid.Bool().Draw(t, "routed") {
		s.Route = &run.Route{
			Model: text.Draw(t, "route"), Reason: rapid.SampledFrom([]run.RouteReason{"", run.RouteChosen, run.RouteFallback}).Draw(t, "route reason"),
			Message: text.Draw(t, "why"), Words: text.Draw(t, "words"), Step: number("since"), Question: int64(number("question")),
		}
		if rapid.Bool().Draw(t, "excluded") {
			s.Route.Excluded = []run.Exclusion{{Model: "m", Why: "it is suspended"}}
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "repeats") {
		s.Repeats = append(s.Repeats, run.Repeat{Key: text.Draw(t, "key"), Count: number("count")})
	}
	if rapid.Bool().Draw(t, "model") {
		s.Model = &run.ModelCall{Attempt: 1 + number("attempt"), Code: text.Draw(t, "code")}
		if rapid.Bool().Draw(t, "fell back") {
			s.Model.Tried = []string{"m", "n"}
		}
		if rapid.Bool().Draw(t, "backoff") {
			s.Model.NotBefore = second("not before").Add(123456 * time.Microsecond)
		} else if s.Model.Held = rapid.Bool().Draw(t, "held"); !s.Model.Held {
			money := func(label string) run.Money {
				return run.Money(rapid.Int64Range(0, 999_999_999_999_999).Draw(t, label))
			}
			s.Model.Reserved = run.Reservation{
				Input: int64(number("reserved in")), Output: int64(number("reserved out")), Cost: money("reserved"),
				Price: run.Price{Input: money("price in"), CachedInput: money("price cached"), Output: money("price out"), Reasoning: money("price reasoning")},
			}
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
		c := run.Call{
			ID: string(rune('a' + i)), Tool: text.Draw(t, "tool"), Attempt: number("call attempt"), Code: text.Draw(t, "call code"),
			State: rapid.SampledFrom([]run.CallState{
				run.CallRejected, run.CallExecuting, run.CallBackoff, run.CallSucceeded, run.CallFailed,
			}).Draw(t, "state"),
			OperationID: text.Draw(t, "op"), ArgumentsDigest: text.Draw(t, "digest"),
			Binding: run.Binding{UID: text.Draw(t, "binding"), Generation: int64(number("generation"))},
		}
		if c.State == run.CallBackoff {
			c.NotBefore = second("call not before").Add(time.Microsecond)
		}
		s.Calls = append(s.Calls, c)
	}
	if rapid.Bool().Draw(t, "ended") {
		s.Completed = second("completed")
		s.Termination = &run.Termination{
			Reason: rapid.SampledFrom([]run.Reason{run.ReasonFinal, run.ReasonBudget}).Draw(t, "reason"),
			Detail: text.Draw(t, "detail"), Message: text.Draw(t, "message"), Step: s.Step, CallID: text.Draw(t, "call"),
		}
		if s.Termination.Reason == run.ReasonFinal {
			s.Answer = run.Answer{Text: "answer", Citations: []run.Citation{
				{Source: run.Source{ID: "s", Title: "t", URL: "u"}, CallID: "s1c1", ObservedAt: second("observed"), SourceVersion: "v"},
			}}
		}
	}
	return s
}

// TestConvert_theStatusHoldsTheWholeState: what the core knows is what the next pass reads, or a restart would forget.
func TestConvert_theStatusHoldsTheWholeState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, r := drawState(t), aRun()
		text, err := json.Marshal(statusOf(s, r))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &r.Status); err != nil {
			t.Fatal(err)
		}
		sameInstant := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
		if diff := cmp.Diff(s, stateOf(r), sameInstant, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

func TestConvert_aDeadlineNeverComesEarly(t *testing.T) {
	s := run.State{Phase: run.Pending, Started: time.Unix(100, 0), Deadline: time.Unix(160, 1)}
	if got := statusOf(s, aRun()).Deadline; !got.Equal(new(metav1.NewTime(time.Unix(161, 0)))) {
		t.Errorf("got %s", got)
	}
}

func TestConvert_aTurnComesBackAsItWasStored(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	want := journal.Turn{
		Step: 2, Route: true, At: at, Version: "17",
		Reply: journal.Reply{
			Text: "t", Finish: run.FinishLength, Model: "m", RequestID: "r",
			Usage: run.TokenUsage{Input: 1, CachedInput: 2, Output: 3, Reasoning: 4, Reported: true},
			Calls: []journal.Call{{ID: "s2c1", ModelCallID: "x", Tool: "search", Arguments: "{}"}},
		},
		Results: []journal.Result{
			{CallResult: run.CallResult{CallID: "s2c1", State: run.CallSucceeded, Attempts: 2}, At: at, Answer: run.ToolResult{
				Data: json.RawMessage(`"x"`), Truncated: true, Size: 9, ObservedAt: at.Truncate(time.Second), SourceVersion: "v",
				Sources: []run.Source{{ID: "a", Title: "b", URL: "c"}},
			}},
			{CallResult: run.CallResult{CallID: "s2c2", State: run.CallRejected, Code: "C", Message: "m"}, At: at},
		},
	}
	text, err := json.Marshal(turnObject(journal.RunRef{Namespace: "n", Name: "r", UID: "u"}, want))
	if err != nil {
		t.Fatal(err)
	}
	var object v1alpha1.Turn
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	object.ResourceVersion = want.Version
	if diff := cmp.Diff(want, turnOf(&object)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := object.OwnerReferences; len(got) != 1 || got[0].UID != "u" {
		t.Errorf("the run does not own the Turn: %v", got)
	}
}
