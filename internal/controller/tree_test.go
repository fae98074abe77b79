// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
)

// asChild makes the bench's run a child of a run that is gone.
func (b *bench) asChild() {
	b.t.Helper()
	r := b.run()
	r.Finalizers = []string{childFinalizer}
	r.Spec.Parent = &v1alpha1.ParentReference{Name: "gone", UID: "gone", CallID: "s1c1", Deadline: metav1.NewTime(time.Now().Add(time.Hour))}
	if err := b.client.Update(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
}

// The operator was down while a tree was deleted: the parent is gone, and the child is about to be. It is looked at once.
func TestReconcile_aChildThatIsDeletedAfterItsParentIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		defer b.reconciler.Effects.Close()
		b.asChild()
		if err := b.client.Delete(t.Context(), b.run()); err != nil {
			t.Fatal(err)
		}
		before := b.run()
		result, err := b.pass()
		if err != nil {
			t.Fatal(err)
		}
		var after v1alpha1.AgentRun
		if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, &after); apierrors.IsNotFound(err) {
			return
		}
		wakes := b.reconciler.changes().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: &after})
		if result.RequeueAfter == 0 && !wakes {
			t.Errorf("the child has ended (%v), has finalizers %v, and nothing looks at it again", after.Status.Termination, after.Finalizers)
		}
	})
}

// A quota on Turns is used up, or their namespace is about to go: the run waits for that to change, within its deadline.
func TestReconcile_aRunThatMayNotStoreTurnsEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return apierrors.NewForbidden(statuses, o.GetName(), context.Canceled)
		}})
		defer b.reconciler.Effects.Close()
		var last error
		for range 200 {
			_, last = b.pass()
			time.Sleep(time.Hour)
			if b.run().Status.Termination != nil {
				return
			}
		}
		t.Errorf("no end after 200 h, deadline was %s, now %s: %v", b.run().Status.Deadline, time.Now(), last)
	})
}

// A child is held to no more than its parent has, in every limit; and what its parent's policy allows, it gets.
func TestChildOf_hasNoLimitAboveItsParents(t *testing.T) {
	parent := aRun()
	parent.Spec.Limits.Parallelism, parent.Spec.Limits.MaxInvalid, parent.Spec.Limits.MaxRepeats, parent.Spec.Limits.DeadlineSeconds = 1, new(int32(0)), 2, 60
	parent.Spec.Limits.MaxDepth, parent.Spec.Limits.MaxChildren = new(int32(1)), new(int32(1))
	parent.Spec.OnDenied, parent.Spec.OnToolFailure = v1alpha1.DenialTerminate, v1alpha1.ToolFailureTerminate
	parent.Status.Deadline = new(metav1.Now())
	b := &v1alpha1.ToolBinding{}
	// What the API server fills in.
	b.Spec.Backend.Agent = &v1alpha1.AgentBackend{Limits: v1alpha1.RunLimits{
		MaxSteps: 25, DeadlineSeconds: 3600, MaxToolCalls: new(int32(100)), MaxInputTokens: 2000000, MaxOutputTokens: 200000, MaxRepeats: 5,
		MaxChildren: new(int32(16)), MaxDepth: new(int32(1)), Parallelism: 4, MaxInvalid: new(int32(10)),
	}}
	child := childOf(request{run: parent, call: run.Call{ID: "s1c1", Grant: &run.Grant{Steps: 1, ToolCalls: 1, InputTokens: 100, OutputTokens: 100, Cost: 1_000_000_000}}}, b, "{}")
	p := v1alpha1.RunPolicy{}
	p.Name = "p"
	p.Spec.MaxLimits = &v1alpha1.LimitCeilings{DeadlineSeconds: 60, Parallelism: 1, MaxInvalid: new(int32(0)), MaxRepeats: 2}
	if r := refusedBy([]v1alpha1.RunPolicy{p}, parent.Spec); r != nil {
		t.Fatal(r)
	}
	if r := refusedBy([]v1alpha1.RunPolicy{p}, child.Spec); r != nil {
		t.Errorf("the policy allows the parent, and refuses its child: %s", r.message)
	}
	l, of := child.Spec.Limits, parent.Spec.Limits
	if l.Parallelism > of.Parallelism || *l.MaxInvalid > *of.MaxInvalid || l.MaxRepeats > of.MaxRepeats || l.DeadlineSeconds > of.DeadlineSeconds {
		t.Errorf("limits above the parent's: %+v", l)
	}
	if child.Spec.OnDenied != parent.Spec.OnDenied || child.Spec.OnToolFailure != parent.Spec.OnToolFailure {
		t.Errorf("onDenied %q, onToolFailure %q: the API server makes Observe of it", child.Spec.OnDenied, child.Spec.OnToolFailure)
	}
}

func TestChildName_isOneThatTheAPIServerTakes(t *testing.T) {
	parent := aRun()
	for cut := 40; cut < 55; cut++ {
		parent.Name = (strings.Repeat("a", cut) + "." + strings.Repeat("b", 63))[:63]
		name := childName(parent, "s1c1")
		if wrong := validation.IsDNS1123Subdomain(name); wrong != nil {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

// A switch is taken back between the moment a pass reads it and the moment it records that the run is held. The event of the
// switch finds no run that waits, in the index; the run is parked after.
func TestReconcile_aSwitchThatIsTakenBackWhileARunIsParkedWakesIt(t *testing.T) {
	for _, kind := range []string{"model", "tool"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b *bench
				armed := false
				flip := func(on bool) {
					ctx := context.Background()
					if kind == "model" {
						var m v1alpha1.ModelBinding
						_ = b.client.Get(ctx, client.ObjectKey{Namespace: "n", Name: "m"}, &m)
						m.Spec.Suspend = on
						_ = b.client.Update(ctx, &m)
						return
					}
					var m v1alpha1.ToolBinding
					_ = b.client.Get(ctx, client.ObjectKey{Namespace: "n", Name: "search"}, &m)
					m.Spec.Suspend = on
					_ = b.client.Update(ctx, &m)
				}
				b = newBench(t, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
					if armed {
						armed = false
						flip(false)
					}
					return c.SubResource(sub).Update(ctx, o, opts...)
				}})
				defer b.reconciler.Effects.Close()
				_, _ = b.pass() // asks the model
				if kind == "model" {
					_, _ = b.pass() // calls the tool
				}
				flip(true)
				armed = true
				result, err := b.pass()
				r := b.run()
				if err != nil {
					t.Fatal(err)
				}
				if result.RequeueAfter > time.Second {
					t.Errorf("nothing holds the run, and it is looked at again in %s only, at its deadline: %v, %v, %v", result.RequeueAfter, r.Status.Phase, r.Status.ModelCall, r.Status.Calls)
				}
			})
		})
	}
}

// A child that was there is gone, and nobody knows what it used: it is not started again.
func TestReconcile_aChildThatIsGoneIsChargedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		defer b.reconciler.Effects.Close()
		r := b.run()
		turn := journal.Turn{Step: 1, At: time.Now(), Reply: journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{{ID: "s1c1", Tool: "delegate", Arguments: `{}`}}}}
		if _, err := NewTurnStore(b.client, b.client).Create(t.Context(), journal.RunRef{Namespace: "n", Name: "r", UID: "u"}, turn); err != nil {
			t.Fatal(err)
		}
		grant := run.Grant{Steps: 2, ToolCalls: 1, InputTokens: 300, OutputTokens: 40, Cost: 5}
		r.Status = v1alpha1.AgentRunStatus{
			StateVersion: run.StateVersion, Phase: v1alpha1.PhaseActing, Step: 1, StartTime: new(metav1.Now()), Deadline: new(metav1.NewTime(time.Now().Add(time.Minute))),
			Calls: []v1alpha1.CallStatus{{ID: "s1c1", Tool: "delegate", State: v1alpha1.CallExecuting, Attempt: 1, OperationID: "o", ChildUID: "gone", Grant: grantStatus(grant)}},
		}
		if err := b.client.Status().Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if _, err := b.pass(); err != nil {
			t.Fatal(err)
		}
		r = b.run()
		u := usageOf(r.Status.Usage)
		want := run.Usage{ToolCalls: 1, Children: 1, ChildSteps: 2, Cost: 5, Tokens: run.TokenUsage{Input: 300, Output: 40}}
		if diff := cmp.Diff(want, u); diff != "" {
			t.Errorf("charged (-want +got)\n%s", diff)
		}
		if c := r.Status.Calls[0]; c.State != v1alpha1.CallFailed || c.Code != run.CodeChildFailed {
			t.Errorf("the call is %s %s", c.State, c.Code)
		}
	})
}

// The journal never takes the answer of a child: the run comes to its end all the same, as it does for a tool's.
func TestReconcile_aChildsAnswerThatCantBeStoredIsDealtWithOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		invalid := apierrors.NewInvalid(schema.GroupKind{Group: "interlock.dev", Kind: "Turn"}, "t", field.ErrorList{field.TooLong(field.NewPath("spec"), "", 1)})
		b := newBench(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*v1alpha1.Turn); ok {
				return invalid
			}
			return c.Patch(ctx, o, p, opts...)
		}})
		defer b.reconciler.Effects.Close()
		r := b.run()
		turn := journal.Turn{Step: 1, At: time.Now(), Reply: journal.Reply{Finish: run.FinishStop, Calls: []journal.Call{{ID: "s1c1", Tool: "delegate", Arguments: `{}`}}}}
		if _, err := NewTurnStore(b.client, b.client).Create(t.Context(), journal.RunRef{Namespace: "n", Name: "r", UID: "u"}, turn); err != nil {
			t.Fatal(err)
		}
		now := metav1.Now()
		r.Status = v1alpha1.AgentRunStatus{
			StateVersion: run.StateVersion, Phase: v1alpha1.PhaseActing, Step: 1, StartTime: &now, Deadline: new(metav1.NewTime(now.Add(time.Minute))),
			Calls: []v1alpha1.CallStatus{{ID: "s1c1", Tool: "delegate", State: v1alpha1.CallExecuting, Attempt: 1, OperationID: "o", Grant: grantStatus(run.Grant{Steps: 1})}},
		}
		if err := b.client.Status().Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		child := aRun()
		child.Name, child.UID = childName(r, "s1c1"), "c"
		child.Spec.Parent = &v1alpha1.ParentReference{Name: "r", UID: "u", CallID: "s1c1", Deadline: *r.Status.Deadline}
		if err := b.client.Create(t.Context(), child); err != nil {
			t.Fatal(err)
		}
		child.Status = v1alpha1.AgentRunStatus{Phase: v1alpha1.PhaseSucceeded, Step: 1, Termination: &v1alpha1.Termination{Reason: v1alpha1.TerminationFinal, Message: "m"}, Result: &v1alpha1.RunResult{Text: "42"}}
		if err := b.client.Status().Update(t.Context(), child); err != nil {
			t.Fatal(err)
		}
		var last error
		for range 200 {
			_, last = b.pass()
			time.Sleep(time.Hour)
			if b.run().Status.Termination != nil {
				return
			}
		}
		t.Errorf("no end after 200 h, deadline was %s: %v; %+v", b.run().Status.Deadline, last, b.run().Status.Calls)
	})
}
