// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/interlock-dev/interlock/internal/policy"
	"github.com/interlock-dev/interlock/internal/run"
)

const maxCalls = 5

// kinds are the rules that calls are drawn with.
var kinds = []string{
	"", "", "+write", "+write+lookup", "+write+ask", "+write+ask+lookup", "+write+preview+lookup", "+write+preview+ask+lookup",
	"+write+preview+ask2+lookup", "+ask", "+preview+ask",
}

// drawReply makes any answer that a model could give, right or wrong.
func drawReply(t *rapid.T, step int) run.ModelReplied {
	e := run.ModelReplied{Finish: rapid.SampledFrom([]run.Finish{
		run.FinishStop, run.FinishStop, run.FinishStop, run.FinishStop, run.FinishStop, run.FinishLength, run.FinishRefused,
	}).Draw(t, "finish")}
	refusals := []string{
		"", "", "", "", policy.CodeUnknownTool, policy.CodeToolUnavailable, policy.CodeMalformedArguments, policy.CodeInvalidArguments,
		policy.CodeNotPermitted,
	}
	for i := range rapid.IntRange(0, maxCalls).Draw(t, "calls") {
		p := proposed(step, i, "tool"+rapid.SampledFrom(kinds).Draw(t, "kind")+":"+rapid.SampledFrom(refusals).Draw(t, "refusal"))
		if p.Rules.Approvals > 0 && !p.Rules.Preview {
			p.Ask = &run.Ask{Digest: fmt.Sprintf("s%dc%d", step, i+1), Expires: start.Add(askTime)}
		}
		e.Calls = append(e.Calls, p)
	}
	e.Empty = rapid.Bool().Draw(t, "empty")
	e.Answer = run.Answer{Text: fmt.Sprintf("answer %d", step)}
	e.Tokens = rapid.Int64Range(0, 300).Draw(t, "tokens")
	return e
}

// drawWriteFailure makes a failure of a tool that may write, which can be a doubt.
func drawWriteFailure(t *rapid.T) *run.Failure {
	f := drawFailure(t)
	if f != nil {
		f.InDoubt, f.Changed = rapid.Bool().Draw(t, "doubt"), rapid.Bool().Draw(t, "changed")
	}
	return f
}

func drawFailure(t *rapid.T) *run.Failure {
	if rapid.Bool().Draw(t, "works") {
		return nil
	}
	return &run.Failure{
		Code: "Broken", Message: "it broke", Retryable: rapid.Bool().Draw(t, "retryable"),
		MaxAttempts: 3, Backoff: time.Second, RetryAfter: time.Duration(rapid.IntRange(0, 20).Draw(t, "after")) * time.Second,
	}
}

// drawModelFailure makes a failure of a request. What cost nothing says so.
func drawModelFailure(t *rapid.T) *run.Failure {
	if rapid.IntRange(0, 3).Draw(t, "model works") > 0 {
		return nil
	}
	return &run.Failure{
		Code: "Unavailable", Message: "it is down", Retryable: true, MaxAttempts: 3, Backoff: time.Second, Overload: rapid.Bool().Draw(t, "overload"),
	}
}

// drawUsage is what a request uses: anything within what it may.
func drawUsage(t *rapid.T, e run.CallModel) run.TokenUsage {
	part := func(what string, of int64) int64 {
		return rapid.SampledFrom([]int64{0, of, of, rapid.Int64Range(0, of).Draw(t, what)}).Draw(t, what)
	}
	u := run.TokenUsage{Input: part("input", e.Input), Output: part("output", e.MaxOutput)}
	u.CachedInput, u.Reasoning = part("cached", u.Input), part("reasoning", u.Output)
	return u
}

func drawLimits(t *rapid.T) run.Limits {
	// A tight budget holds a few requests.
	room := rapid.SampledFrom([]int64{1, 20}).Draw(t, "room")
	return run.Limits{
		MaxSteps:        rapid.IntRange(1, 6).Draw(t, "maxSteps"),
		MaxToolCalls:    rapid.IntRange(0, 12).Draw(t, "maxToolCalls"),
		MaxRepeats:      rapid.SampledFrom([]int{2, 1000}).Draw(t, "maxRepeats"),
		MaxInvalid:      rapid.IntRange(0, 6).Draw(t, "maxInvalid"),
		Deadline:        time.Duration(rapid.IntRange(1, 120).Draw(t, "deadline")) * time.Second,
		ToolFailureEnds: rapid.Bool().Draw(t, "terminate"),
		DenialEnds:      rapid.Bool().Draw(t, "denial ends"),
		InputTokens:     rapid.Int64Range(0, 3000*room).Draw(t, "inputTokens"),
		OutputTokens:    rapid.Int64Range(0, 300*room).Draw(t, "outputTokens"),
		Cost:            run.Money(rapid.Int64Range(0, 8_000_000*room).Draw(t, "cost")),
	}
}

// TestDecide_invariantsHoldWhateverHappens: any answers, any order of results, crashes at every write, events that come
// twice, late or for nothing. The world checks I1, I2, I6, I7, I10 and the limits at each step; the run always ends.
func TestDecide_invariantsHoldWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replies := map[int]run.ModelReplied{}
		model := func(step int) run.ModelReplied {
			// A model that is asked again need not say the same.
			replies[step] = drawReply(t, step)
			return replies[step]
		}
		w := newWorld(drawLimits(t), model, func(string) *run.Failure { return drawWriteFailure(t) })
		w.arrives = func() bool { return rapid.Bool().Draw(t, "arrives") }
		w.answers = func() bool { return rapid.Bool().Draw(t, "answers") }
		w.reports = func() bool { return rapid.Bool().Draw(t, "reports") }
		w.modelFails = func() *run.Failure { return drawModelFailure(t) }
		w.usage = func(e run.CallModel) run.TokenUsage { return drawUsage(t, e) }
		w.chooses = func() run.Choice { return drawChoice(t) }
		routed := rapid.Bool().Draw(t, "routed")
		if routed {
			w.state.Router = drawRouter(t)
		}
		for range rapid.IntRange(0, 40).Draw(t, "moves") {
			switch rapid.IntRange(0, 9).Draw(t, "move") {
			case 0, 1, 2:
				if ids := slices.Sorted(maps.Keys(w.inFlight)); len(ids) > 0 {
					w.finish(rapid.SampledFrom(ids).Draw(t, "finishes"))
				}
			case 3, 4:
				w.pass(w.observe(), crash(rapid.IntRange(-1, 6).Draw(t, "dies")))
			case 5:
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
			case 6:
				w.pass(append(w.observe(), noise(t, w)), never)
			case 9:
				w.state.Holds = drawHolds(t)
				if routed {
					w.state.Router = drawRouter(t)
				}
			case 7, 8:
				words := w.say(rapid.SampledFrom([]string{"ann", "ben", "cat"}).Draw(t, "who"), rapid.IntRange(0, 3).Draw(t, "says") > 0)
				w.pass(append(w.observe(), words...), crash(rapid.IntRange(-1, 6).Draw(t, "dies")))
			}
		}
		w.drain(10_000)
		w.theJournalIsTrue()
	})
}

// drawHolds has somebody throw switches, or lift them.
func drawHolds(t *rapid.T) run.Holds {
	why := func(label string) string { return rapid.SampledFrom([]string{"", "it is suspended"}).Draw(t, label) }
	return run.Holds{Run: why("run"), Model: why("model"), Tools: map[string]string{"tool": why("tool")}}
}

// noise is an event that fits the state only by chance.
func noise(t *rapid.T, w *world) run.Event {
	attempt := rapid.IntRange(1, 4).Draw(t, "noise attempt")
	id := fmt.Sprintf("s%dc%d", rapid.IntRange(1, 6).Draw(t, "noise step"), rapid.IntRange(1, maxCalls).Draw(t, "noise call"))
	switch rapid.IntRange(0, 10).Draw(t, "noise") {
	case 0:
		return run.Created{UID: "other", At: w.now}
	case 1:
		return run.ToolSucceeded{CallID: id, Attempt: attempt + 10, At: w.now}
	case 2:
		return run.ToolFailed{CallID: id, Attempt: attempt + 10, Failure: run.Failure{At: w.now, Code: "Late"}}
	case 3:
		return run.ModelFailed{Step: attempt, Attempt: attempt + 10, Failure: run.Failure{At: w.now, Code: "Late"}}
	case 4:
		return run.EffectLost{CallID: id, Attempt: attempt + 10, At: w.now}
	}
	switch rapid.IntRange(0, 7).Draw(t, "more noise") {
	case 6:
		return run.NotSent{CallID: id, Attempt: attempt + 10, At: w.now}
	case 7:
		return run.Resumed{At: w.now}
	case 0:
		return run.Previewed{CallID: id, Attempt: attempt + 10, At: w.now}
	case 1:
		return run.NothingDone{CallID: id, Attempt: attempt + 10, At: w.now}
	case 2:
		return run.Approved{CallID: id, Digest: "of something else", At: w.now, Consent: run.Consent{By: "eve"}}
	case 3:
		return run.Denied{CallID: id, Digest: "of something else", At: w.now}
	case 4:
		return run.Voided{CallID: id, At: w.now, Verdict: policy.Verdict{Code: "ToolChanged"}}
	case 5:
		return run.Refused{At: w.now, Detail: "AbovePolicy"}
	}
	return run.CancelRequested{At: w.now, Reason: "enough"}
}

// drain lets everything come to its end, as a fair scheduler would.
func (w *world) drain(most int) {
	w.state.Holds = run.Holds{}
	if r := w.state.Router; r != nil {
		r.Chooser.Unfit = ""
		for i := range r.Candidates {
			r.Candidates[i].Unfit = ""
		}
	}
	for range most {
		if w.state.Finished() {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(w.inFlight)) {
			w.finish(id)
		}
		w.pass(w.observe(), never)
		if len(w.inFlight) == 0 && !w.state.Finished() && (!w.agreeable || w.state.Phase != run.AwaitingApproval) {
			w.now = w.state.NextWake()
		}
	}
	w.fail("the run does not end")
}

// TestDecide_aCrashChangesNothing: with a model and tools that answer the same to the same question, a run that is killed
// at any writes ends as the one that is not, with the same journal.
func TestDecide_aCrashChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replies := map[int]run.ModelReplied{}
		limits := drawLimits(t)
		// Attempts and time are what a crash costs, so neither may be the limit here.
		limits.MaxToolCalls, limits.Deadline = 10_000, 1000*time.Hour
		limits.MaxRepeats = 1000
		limits.InputTokens, limits.OutputTokens, limits.Cost = 1<<40, 1<<40, 0
		// Calls that come back in another order may end the run at another one of them, where a failure ends it.
		anyOrder := !limits.ToolFailureEnds
		for step := 1; step <= 6; step++ {
			replies[step] = drawReply(t, step)
			for i, c := range replies[step].Calls {
				// What can't be looked up can be lost for good, which is another story.
				replies[step].Calls[i].Rules.LookUp = c.Rules.Write
				if !anyOrder {
					replies[step].Calls[i].Rules, replies[step].Calls[i].Ask = run.Rules{}, nil
				}
			}
		}
		failures := map[string]*run.Failure{}
		for step := 1; step <= 6; step++ {
			for i := 1; i <= maxCalls; i++ {
				f := drawFailure(t)
				if f != nil {
					f.Retryable = false
				}
				failures[fmt.Sprintf("s%dc%d", step, i)] = f
			}
		}
		model := func(step int) run.ModelReplied { return replies[step] }
		tool := func(id string) *run.Failure {
			if failures[id] == nil {
				return nil
			}
			return new(*failures[id])
		}

		calm := newWorld(limits, model, tool)
		calm.agreeable = true
		calm.drain(1000)
		rough := newWorld(limits, model, tool)
		rough.agreeable = true
		rough.arrives = func() bool { return rapid.Bool().Draw(t, "arrives") }
		for range rapid.IntRange(1, 30).Draw(t, "passes") {
			for _, id := range slices.Sorted(maps.Keys(rough.inFlight)) {
				if !anyOrder || rapid.Bool().Draw(t, "finishes") {
					rough.finish(id)
				}
			}
			rough.pass(rough.observe(), crash(rapid.IntRange(-1, 6).Draw(t, "dies")))
		}
		rough.drain(1000)

		// The message counts attempts, and a crash costs some.
		calm.state.Termination.Message, rough.state.Termination.Message = "", ""
		if diff := cmp.Diff(calm.state.Termination, rough.state.Termination); diff != "" {
			t.Fatalf("another end (-calm +rough):\n%s\n%v", diff, rough.story)
		}
		if diff := cmp.Diff(calm.state.Answer, rough.state.Answer); diff != "" {
			t.Fatalf("another answer (-calm +rough):\n%s", diff)
		}
		if diff := cmp.Diff(withoutAttempts(calm.results), withoutAttempts(rough.results)); diff != "" {
			t.Fatalf("another journal (-calm +rough):\n%s\n%v", diff, rough.story)
		}
	})
}

func withoutAttempts(results map[string]run.CallResult) map[string]run.CallResult {
	out := map[string]run.CallResult{}
	for id, r := range results {
		r.Attempts = 0
		out[id] = r
	}
	return out
}

// TestDecide_neverChangesItsArgument: the shell still compares what was with what is.
func TestDecide_neverChangesItsArgument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawLimits(t), func(step int) run.ModelReplied { return drawReply(t, step) }, func(string) *run.Failure { return drawFailure(t) })
		for range 10 {
			for _, id := range slices.Sorted(maps.Keys(w.inFlight)) {
				w.finish(id)
			}
			before := w.state.String()
			held := w.state
			w.pass(w.observe(), never)
			if held.String() != before {
				t.Fatalf("was %s, is %s", before, held)
			}
		}
	})
}
