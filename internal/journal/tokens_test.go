// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
)

// TestMessages_haveNoMoreTokensThanWereCounted: what a run adds up, one reply and one result at a time, is never less than what
// the next request really can have. Otherwise each step would cost a further status write.
func TestMessages_haveNoMoreTokensThanWereCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		brief := journal.Brief{Goal: rapid.String().Draw(t, "goal")}
		counted := run.ModelRequest{System: brief.System(), Messages: journal.Messages(brief, nil)}.MaxTokens()
		var turns []journal.Turn
		for step := range rapid.IntRange(0, 4).Draw(t, "steps") {
			turn := drawTurn(t, step+1)
			counted += turn.Reply.MaxTokens()
			for _, r := range turn.Results {
				counted += run.ResultTokens(r.Message) + r.Answer.MaxTokens()
			}
			turns = append(turns, turn)
		}
		if got := (run.ModelRequest{System: brief.System(), Messages: journal.Messages(brief, turns)}).MaxTokens(); got > counted {
			t.Errorf("the request can have %d tokens, and %d were counted", got, counted)
		}
	})
}

// drawTurn makes a Turn with texts that are awkward to quote.
func drawTurn(t *rapid.T, step int) journal.Turn {
	words := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `""""""""`, "\\\\\\\\", "\u2028\u2028", "<&>", "日本語"}))
	turn := journal.Turn{Step: step, Reply: journal.Reply{Text: words.Draw(t, "text"), Finish: run.FinishStop}}
	for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
		id := fmt.Sprintf("s%dc%d", step, i+1)
		turn.Reply.Calls = append(turn.Reply.Calls, journal.Call{ID: id, Tool: "search", Arguments: `{"q":"x"}`})
		r := journal.Result{CallResult: run.CallResult{CallID: id, State: run.CallSucceeded}}
		if rapid.Bool().Draw(t, "fails") {
			r.State, r.Code, r.Message = run.CallFailed, "Broken", journal.FitMessage(words.Draw(t, "message"))
		} else {
			data, err := json.Marshal(words.Draw(t, "data"))
			if err != nil {
				t.Fatal(err)
			}
			r.Answer = run.ToolResult{Data: data, Size: int64(len(data)), ObservedAt: time.Unix(1, 0), SourceVersion: words.Draw(t, "version")}
			for range rapid.IntRange(0, 3).Draw(t, "sources") {
				r.Answer.Sources = append(r.Answer.Sources, run.Source{ID: words.Draw(t, "id"), Title: words.Draw(t, "title"), URL: words.Draw(t, "url")})
			}
		}
		turn.Results = append(turn.Results, r)
	}
	return turn
}
