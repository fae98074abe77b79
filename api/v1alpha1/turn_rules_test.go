// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// aTurn has two calls, and the result of the first.
func aTurn() *v1alpha1.Turn {
	return &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "6a2f0d4c-1"},
		Spec: v1alpha1.TurnSpec{
			RunName: "run", RunUID: "6a2f0d4c", Step: 1,
			Reply: v1alpha1.TurnReply{
				Time: aTime(), Text: "Let me look.", Finish: "Stop",
				Calls: []v1alpha1.TurnCall{{ID: "s1c1", Tool: "search", Arguments: `{"q":"x"}`}, {ID: "s1c2", Tool: "search", Arguments: `{"q":"y"}`}},
			},
			Results: []v1alpha1.TurnResult{aResult("s1c1")},
		},
	}
}

func aResult(callID string) v1alpha1.TurnResult {
	return v1alpha1.TurnResult{CallID: callID, State: v1alpha1.CallSucceeded, Time: aTime(), Attempts: new(int32(1)), Data: `{"found":1}`, Size: new(int64(11))}
}

func aTime() metav1.MicroTime {
	return metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
}

const (
	wantAppendOnly = "a Turn is append-only"
	wantNoChange   = "a Turn is append-only: a result can't be changed"
	wantNoRemoval  = "spec: a Turn is append-only: a result can't be taken away"
)

var turnCreates = table[*v1alpha1.Turn]{
	"it has a result":  {mutate: func(*v1alpha1.Turn) {}},
	"it has no result": {mutate: func(t *v1alpha1.Turn) { t.Spec.Results = nil }},
	"it has two results of one call": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results = append(t.Spec.Results, aResult("s1c1")) },
		wantErrors: []string{`spec.results[1]: Duplicate value: {"callID":"s1c1"}`},
	},
	"a result is of a call under way": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results[0].State = v1alpha1.CallExecuting },
		wantErrors: []string{"spec.results[0].state: a result is that of a call that is done: Rejected, Succeeded or Failed"},
	},
	"a result is of a call that pauses": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results[0].State = v1alpha1.CallBackoff },
		wantErrors: []string{"spec.results[0].state: a result is that of a call that is done: Rejected, Succeeded or Failed"},
	},
}

var turnUpdates = table[*v1alpha1.Turn]{
	"nothing is changed": {mutate: func(*v1alpha1.Turn) {}},
	"a label is put on":  {mutate: func(t *v1alpha1.Turn) { t.Labels = map[string]string{"kept": "yes"} }},
	"a result is added":  {mutate: func(t *v1alpha1.Turn) { t.Spec.Results = append(t.Spec.Results, aResult("s1c2")) }},
	"a result is added before": {mutate: func(t *v1alpha1.Turn) {
		t.Spec.Results = []v1alpha1.TurnResult{aResult("s1c2"), aResult("s1c1")}
	}},
	"it is of another run": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.RunName = "other" },
		wantErrors: []string{"spec.runName: " + wantAppendOnly},
	},
	"it is of another life of the run": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.RunUID = "other" },
		wantErrors: []string{"spec.runUID: " + wantAppendOnly},
	},
	"it is of another step": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Step = 2 },
		wantErrors: []string{"spec.step: " + wantAppendOnly},
	},
	"it becomes a chooser's": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Purpose = v1alpha1.TurnRoute },
		wantErrors: []string{"spec: " + wantAppendOnly},
	},
	"the model said something else": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Reply.Text = "Never mind." },
		wantErrors: []string{"spec.reply: " + wantAppendOnly},
	},
	"the model said nothing": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Reply.Text = "" },
		wantErrors: []string{"spec.reply: " + wantAppendOnly},
	},
	"the model asked for something else": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Reply.Calls[0].Arguments = `{}` },
		wantErrors: []string{"spec.reply: " + wantAppendOnly},
	},
	"the model asked for more": {
		mutate: func(t *v1alpha1.Turn) {
			t.Spec.Reply.Calls = append(t.Spec.Reply.Calls, v1alpha1.TurnCall{ID: "s1c3"})
		},
		wantErrors: []string{"spec.reply: " + wantAppendOnly},
	},
	"the answer cost something": {
		mutate: func(t *v1alpha1.Turn) {
			t.Spec.Reply.Usage = &v1alpha1.TurnUsage{
				InputTokens: new(int64(1)), CachedInputTokens: new(int64(0)), OutputTokens: new(int64(1)), ReasoningTokens: new(int64(0)),
			}
		},
		wantErrors: []string{"spec.reply: " + wantAppendOnly},
	},
	"a result has other data": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results[0].Data = `{"found":2}` },
		wantErrors: []string{"spec.results[0]: " + wantNoChange},
	},
	"a result has failed after all": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results[0].State = v1alpha1.CallFailed },
		wantErrors: []string{"spec.results[0]: " + wantNoChange},
	},
	"a result has a source more": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results[0].Sources = []v1alpha1.TurnSource{{ID: "docs:intro"}} },
		wantErrors: []string{"spec.results[0]: " + wantNoChange},
	},
	"a result has no data any more": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results[0].Data = "" },
		wantErrors: []string{"spec.results[0]: " + wantNoChange},
	},
	"a result has gone": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results = []v1alpha1.TurnResult{} },
		wantErrors: []string{wantNoRemoval},
	},
	"all results have gone": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results = nil },
		wantErrors: []string{wantNoRemoval},
	},
	"a result is of another call": {
		mutate:     func(t *v1alpha1.Turn) { t.Spec.Results[0].CallID = "s1c2" },
		wantErrors: []string{wantNoRemoval},
	},
}

func TestTurn_create(t *testing.T) { checkCreate(t, aTurn, turnCreates) }

func TestTurn_isAppendOnly(t *testing.T) { checkUpdate(t, aTurn, turnUpdates) }
