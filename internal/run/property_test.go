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

// drawReply makes any answer that a model could give, right or wrong.
func drawReply(t *rapid.T, step int) run.ModelReplied {
	e := run.ModelReplied{Finish: rapid.SampledFrom([]run.Finish{
		run.FinishStop, run.FinishStop, run.FinishStop, run.FinishStop, run.FinishStop, run.FinishLength, run.FinishRefused,
	}).Draw(t, "finish")}
	refusals := []string{
		"", "", "", policy.CodeUnknownTool, policy.CodeToolUnavailable, policy.CodeMalformedArguments, policy.CodeInvalidArguments,
	}
	for i := range rapid.IntRange(0, maxCalls).Draw(t, "calls") {
		e.Calls = append(e.Calls, proposed(step, i, "tool:"+rapid.SampledFrom(refusals).Draw(t, "refusal")))
	}
	e.Empty = rapid.Bool().Draw(t, "empty")
	e.Answer = run.Answer{Text: fmt.Sprintf("answer %d", step)}
	return e
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

func drawLimits(t *rapid.T) run.Limits {
	return run.Limits{
		MaxSteps:        rapid.IntRange(1, 6).Draw(t, "maxSteps"),
		MaxToolCalls:    rapid.IntRange(0, 12).Draw(t, "maxToolCalls"),
		MaxInvalid:      rapid.IntRange(0, 6).Draw(t, "maxInvalid"),
		Deadline:        time.Duration(rapid.IntRange(1, 120).Draw(t, "deadline")) * time.Second,
		ToolFailureEnds: rapid.Bool().Draw(t, "terminate"),
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
		w := newWorld(drawLimits(t), model, func(string) *run.Failure { return drawFailure(t) })
		for range rapid.IntRange(0, 40).Draw(t, "moves") {
			switch rapid.IntRange(0, 6).Draw(t, "move") {
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
			}
		}
		w.drain(10_000)
	})
}

// noise is an event that fits the state only by chance.
func noise(t *rapid.T, w *world) run.Event {
	attempt := rapid.IntRange(1, 4).Draw(t, "noise attempt")
	id := fmt.Sprintf("s%dc%d", rapid.IntRange(1, 6).Draw(t, "noise step"), rapid.IntRange(1, maxCalls).Draw(t, "noise call"))
	switch rapid.IntRange(0, 5).Draw(t, "noise") {
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
	return run.CancelRequested{At: w.now, Reason: "enough"}
}

// drain lets everything come to its end, as a fair scheduler would.
func (w *world) drain(most int) {
	for range most {
		if w.state.Finished() {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(w.inFlight)) {
			w.finish(id)
		}
		w.pass(w.observe(), never)
		if len(w.inFlight) == 0 && !w.state.Finished() {
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
		for step := 1; step <= 6; step++ {
			replies[step] = drawReply(t, step)
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
		limits := drawLimits(t)
		// Attempts and time are what a crash costs, so neither may be the limit here.
		limits.MaxToolCalls, limits.Deadline = 10_000, 1000*time.Hour
		// Calls that come back in another order may end the run at another one of them, where a failure ends it.
		anyOrder := !limits.ToolFailureEnds
		model := func(step int) run.ModelReplied { return replies[step] }
		tool := func(id string) *run.Failure {
			if failures[id] == nil {
				return nil
			}
			return new(*failures[id])
		}

		calm := newWorld(limits, model, tool)
		calm.drain(1000)
		rough := newWorld(limits, model, tool)
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
