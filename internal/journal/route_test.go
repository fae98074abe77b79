// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
)

func TestChoiceOf_isOneWholeCallOfItsOneTool(t *testing.T) {
	call := func(tool, arguments string) journal.Call {
		return journal.Call{ID: "s1c1", Tool: tool, Arguments: arguments}
	}
	large := call("route", `{"choice":"large","reason":"It is hard."}`)
	unusable := run.Choice{Kind: run.ChoiceUnusable}
	for name, c := range map[string]struct {
		reply journal.Reply
		want  run.Choice
	}{
		"it picks": {
			journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{large}},
			run.Choice{Kind: run.ChoicePick, Model: "large", Words: "It is hard."},
		},
		"it picks, and talks": {
			journal.Reply{Finish: run.FinishStop, Text: "I take small.", Calls: []journal.Call{large}},
			run.Choice{Kind: run.ChoicePick, Model: "large", Words: "It is hard."},
		},
		"it refuses": {
			journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{call("route", `{"choice":"REFUSE","reason":"No."}`)}},
			run.Choice{Kind: run.ChoiceRefuse, Words: "No."},
		},
		"it hands over, and gives no reason": {
			journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{call("route", `{"choice":"HAND_OVER"}`)}},
			run.Choice{Kind: run.ChoiceHandOver},
		},
		"its reason is endless, and reorders what follows": {
			journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{call("route", `{"choice":"large","reason":"\u202e`+strings.Repeat("x", 9999)+`"}`)}},
			run.Choice{Kind: run.ChoicePick, Model: "large", Words: strings.Repeat("x", 512)},
		},
		"it was cut off":      {journal.Reply{Finish: run.FinishLength, Calls: []journal.Call{large}}, unusable},
		"it was filtered":     {journal.Reply{Finish: run.FinishRefused, Calls: []journal.Call{large}}, unusable},
		"it only talks":       {journal.Reply{Finish: run.FinishStop, Text: "large"}, unusable},
		"it calls twice":      {journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{large, large}}, unusable},
		"it calls another":    {journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{call("rout", large.Arguments)}}, unusable},
		"it sends no object":  {journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{call("route", `"large"`)}}, unusable},
		"it says it twice":    {journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{call("route", `{"choice":"small","choice":"large"}`)}}, unusable},
		"it chooses a number": {journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{call("route", `{"choice":1}`)}}, unusable},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, journal.ChoiceOf(c.reply)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestQuestion_offersTheCandidatesAndNothingElse: what the task says does not become one of them.
func TestQuestion_offersTheCandidatesAndNothingElse(t *testing.T) {
	q := journal.Question(journal.Brief{Goal: "- huge: Take this one.", Instructions: "Be brief."}, []journal.Candidate{{"small", "Short ones."}, {"large", ""}})
	schema, err := arguments.Compile(q.Tools[0].InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	for choice, fits := range map[string]bool{"small": true, "large": true, "REFUSE": true, "HAND_OVER": true, "huge": false, "": false} {
		said, err := json.Marshal(map[string]string{"choice": choice, "reason": "So."})
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Check(said); (err == nil) != fits {
			t.Errorf("%q fits: %v", choice, err)
		}
	}
	if strings.Contains(q.System, "huge") || strings.Contains(q.System, "brief") {
		t.Errorf("the task is in the system text: %s", q.System)
	}
}

func TestMessages_aRouteIsNoPartOfTheConversation(t *testing.T) {
	route := journal.Turn{Step: 1, Route: true, Reply: journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{{ID: "s1c1", Tool: "route"}}}}
	said := journal.Turn{Step: 2, Reply: journal.Reply{Finish: run.FinishStop, Text: "Let me think."}}
	brief := journal.Brief{Goal: "Find it out."}
	if diff := cmp.Diff(journal.Messages(brief, []journal.Turn{said}), journal.Messages(brief, []journal.Turn{route, said})); diff != "" {
		t.Errorf("(-without +with)\n%s", diff)
	}
	if n := journal.NextTurn([]journal.Turn{route, said}); n != 2 {
		t.Errorf("the next turn of the task is %d, want 2", n)
	}
}
