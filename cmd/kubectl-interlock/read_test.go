// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func TestPending_listsWhatTheUserMayApprove(t *testing.T) {
	other := func(run *v1alpha1.AgentRun) {
		run.Namespace, run.Name, run.UID, run.Spec.RequestedBy = "hr", "hires", "2", ""
		asked(run).Tool, asked(run).Expires = "mail", metav1.NewTime(theTime)
		asked(run).FromTool.Summary = "Write to \u202eeve, and say at length how glad everybody is that she will come to work."
	}
	for name, test := range map[string]struct {
		args            []string
		may             []string
		golden, wantErr string
	}{
		"in this namespace":       {[]string{"pending"}, []string{"refund"}, "pending.txt", ""},
		"in all, of their own":    {[]string{"pending", "-A"}, []string{"refund"}, "pending.txt", "1 more wait for others"},
		"in all, of others too":   {[]string{"pending", "-A", "--all"}, nil, "pending_all.txt", ""},
		"nothing that they could": {[]string{"pending"}, nil, "", "Nothing waits for your approval."},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(aRun(), aRun(other))
			f.may = test.may
			out, errOut, err := f.run(t, test.args...)
			checkError(t, err, "")
			if !strings.Contains(errOut, test.wantErr) {
				t.Errorf("said %q, want %q in it", errOut, test.wantErr)
			}
			if test.golden == "" {
				if out != "" {
					t.Errorf("listed %q, want nothing", out)
				}
				return
			}
			checkGolden(t, test.golden, out)
		})
	}
}

func TestShow_saysWhereARunStands(t *testing.T) {
	for golden, change := range map[string]func(*v1alpha1.AgentRun){
		"show_waiting.txt": func(run *v1alpha1.AgentRun) {
			run.Status.Usage = &v1alpha1.RunUsage{ModelCalls: new(int32(3)), ToolCalls: new(int32(2)), TotalTokens: new(int64(900)), InputTokens: new(int64(800)), OutputTokens: new(int64(100))}
			asked(run).FromTool.Preview = strings.Replace(thePreview, "Refund", "Refune", 1)
		},
		"show_ended.txt": func(run *v1alpha1.AgentRun) {
			run.Status = v1alpha1.AgentRunStatus{
				Phase: v1alpha1.PhaseSucceeded, Step: 4, CompletionTime: &theExpiry,
				Termination: &v1alpha1.Termination{Reason: v1alpha1.TerminationFinal, Message: "The model gave its answer."},
				Result: &v1alpha1.RunResult{Text: "Done\u202e [p1].", Citations: []v1alpha1.Citation{
					{ID: "p1", Title: "Payment", URL: "https://pay.example/1", CallID: "s1c1"},
				}},
			}
		},
	} {
		t.Run(golden, func(t *testing.T) {
			out, _, err := newFixture(aRun(change)).run(t, "show", "refunds")
			checkError(t, err, "")
			checkGolden(t, golden, out)
		})
	}
}

func TestShow_countsThePlaceInTheQueue(t *testing.T) {
	queuedAt := func(name string, second int, change ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
		return aRun(append([]func(*v1alpha1.AgentRun){func(run *v1alpha1.AgentRun) {
			run.Name, run.UID, run.CreationTimestamp = name, types.UID(name), metav1.NewTime(theTime.Add(time.Duration(second)*time.Second))
			run.Status = v1alpha1.AgentRunStatus{Phase: v1alpha1.PhasePending, Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionQueued, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMaxConcurrentRuns},
			}}
		}}, change...)...)
	}
	f := newFixture(
		queuedAt("second", 1), queuedAt("first", 1), queuedAt("oldest", 0), queuedAt("last", 2),
		queuedAt("elsewhere", 0, func(run *v1alpha1.AgentRun) { run.Namespace = "hr" }),
		queuedAt("begun", 0, func(run *v1alpha1.AgentRun) { run.Status.Conditions = nil }),
	)
	for name, want := range map[string]string{"oldest": "number 1 of 4", "first": "number 2 of 4", "second": "number 3 of 4", "last": "number 4 of 4", "begun": ""} {
		out, _, err := f.run(t, "show", name)
		checkError(t, err, "")
		if strings.Contains(out, "number") != (want != "") || !strings.Contains(out, want) {
			t.Errorf("of the run %s it says\n%s\nand should say %q", name, out, want)
		}
	}
}

func TestCancel_setsTheReason(t *testing.T) {
	f := newFixture(aRun())
	_, _, err := f.run(t, "cancel", "refunds", "--reason", "Not today.")
	checkError(t, err, "")
	run := &v1alpha1.AgentRun{}
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "refunds"}, run); err != nil {
		t.Fatal(err)
	}
	if run.Spec.Cancel == nil || run.Spec.Cancel.Reason != "Not today." {
		t.Errorf("spec.cancel is %v", run.Spec.Cancel)
	}
	if run.Spec.Goal == "" {
		t.Error("the rest of the spec is gone")
	}
}

func TestCancel_refusesARunThatHasEnded(t *testing.T) {
	f := newFixture(aRun(func(run *v1alpha1.AgentRun) {
		run.Status.Termination = &v1alpha1.Termination{Reason: v1alpha1.TerminationFinal}
	}))
	_, _, err := f.run(t, "cancel", "refunds", "--reason", "Not today.")
	checkError(t, err, "has ended already: Final")
}

func TestWatch_followsARunToItsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		reason          v1alpha1.TerminationReason
		phase           v1alpha1.RunPhase
		golden, wantErr string
	}{
		"with its answer":    {v1alpha1.TerminationFinal, v1alpha1.PhaseSucceeded, "watch_final.txt", ""},
		"without its answer": {v1alpha1.TerminationDeadline, v1alpha1.PhaseFailed, "watch_deadline.txt", "without its answer: Deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(aRun())
			f.watched = func() {
				for _, change := range []func(*v1alpha1.AgentRunStatus){
					func(s *v1alpha1.AgentRunStatus) {
						s.Phase, s.PendingApprovals, s.Conditions = v1alpha1.PhaseActing, nil, nil
						s.Calls[0].State, s.Calls[0].Attempt = v1alpha1.CallExecuting, 2
					},
					func(s *v1alpha1.AgentRunStatus) { s.Usage = &v1alpha1.RunUsage{ToolCalls: new(int32(2))} },
					func(s *v1alpha1.AgentRunStatus) {
						s.Phase, s.Calls[0].State = test.phase, v1alpha1.CallSucceeded
						s.Termination = &v1alpha1.Termination{Reason: test.reason, Message: "It is\u202e over."}
					},
				} {
					f.change(t, change)
				}
			}
			out, _, err := f.run(t, "watch", "refunds")
			checkError(t, err, test.wantErr)
			checkGolden(t, test.golden, out)
		})
	}
}

// change changes the run's status.
func (f *fixture) change(t *testing.T, change func(*v1alpha1.AgentRunStatus)) {
	t.Helper()
	run := &v1alpha1.AgentRun{}
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "refunds"}, run); err != nil {
		t.Fatal(err)
	}
	change(&run.Status)
	if err := f.client.Status().Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}

func TestWatch_endsWithTheRunsDeletion(t *testing.T) {
	f := newFixture(aRun())
	f.watched = func() {
		if err := f.client.Delete(t.Context(), aRun()); err != nil {
			t.Error(err)
		}
	}
	_, _, err := f.run(t, "watch", "refunds")
	checkError(t, err, "shop/refunds was deleted")
}
