// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/interlock-dev/interlock/internal/run"
)

// models are the candidates of a router and, at last, its chooser.
var models = []string{"small", "large", "other", "chooser"}

// drawRouter makes a router of the moment: which models can be asked changes while a run goes on, and so do prices.
func drawRouter(t *rapid.T) *run.Router {
	offers := make([]run.Offer, len(models))
	for i, name := range models {
		price := func(label string) run.Money { return run.Money(rapid.Int64Range(1, 20_000_000_000).Draw(t, label)) }
		in, out := price("price in"), price("price out")
		offers[i] = run.Offer{Model: name, Terms: run.Terms{MaxOutput: rapid.Int64Range(1, 200).Draw(t, "max output"), Price: &run.Price{
			Input: in, CachedInput: in / 10, Output: out, Reasoning: out,
		}}}
		if rapid.IntRange(0, 2).Draw(t, "unfit") == 0 {
			offers[i].Unfit = name + " is suspended"
		}
	}
	return &run.Router{Candidates: offers[:3:3], Chooser: &offers[3]}
}

func drawChoice(t *rapid.T) run.Choice {
	return run.Choice{
		Kind:  rapid.SampledFrom([]run.ChoiceKind{run.ChoicePick, run.ChoicePick, run.ChoicePick, run.ChoiceUnusable, run.ChoiceRefuse, run.ChoiceHandOver}).Draw(t, "choice"),
		Model: rapid.SampledFrom([]string{"small", "large", "other", "chooser", "https://elsewhere.example"}).Draw(t, "chosen"),
	}
}

// TestDecide_aRouteKeepsTheBudget: the chooser's request, and those to each model that a run comes to, are reserved at the price of
// whom they go to and charged to the run. Nobody is asked who can't be, and nobody who is no candidate.
func TestDecide_aRouteKeepsTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawLimits(t), func(step int) run.ModelReplied { return drawReply(t, step) }, func(string) *run.Failure { return nil })
		w.usage = func(e run.CallModel) run.TokenUsage { return drawUsage(t, e) }
		w.reports = func() bool { return rapid.Bool().Draw(t, "reports") }
		w.modelFails = func() *run.Failure { return drawModelFailure(t) }
		w.chooses = func() run.Choice { return drawChoice(t) }
		w.state.Router = drawRouter(t)
		for range 20 {
			for _, id := range slices.Sorted(maps.Keys(w.inFlight)) {
				w.finish(id)
			}
			w.pass(w.observe(), crash(rapid.IntRange(-1, 12).Draw(t, "dies")))
			if rapid.IntRange(0, 3).Draw(t, "changes") == 0 {
				w.state.Router = drawRouter(t)
			}
		}
		w.drain(1000)
	})
}
