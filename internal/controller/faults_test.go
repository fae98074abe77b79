// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

// These tests are about an API server that says no. The fake client is here for that only; what a real one does is tested
// end to end.

// A bench is a reconciler with one run "r" of a model and one tool, and an API server whose refusals a test chooses. It
// lives in a bubble of testing/synctest.
type bench struct {
	t          *testing.T
	client     client.Client
	reconciler *AgentRunReconciler
	// asked and called record what left the process.
	asked, called []string
	// reply is what the model answers at a step.
	reply func(step int) run.Reply
}

func (b *bench) Complete(_ context.Context, r run.ModelRequest) (run.Reply, error) {
	b.asked = append(b.asked, fmt.Sprintf("s%d#%d", r.Step, r.Attempt))
	return b.reply(r.Step), nil
}

func (b *bench) Execute(_ context.Context, c run.ToolCall) (run.ToolResult, error) {
	b.called = append(b.called, c.CallID)
	return run.ToolResult{Data: []byte(`"x"`), Size: 3}, nil
}

func (b *bench) Close() {}

func newBench(t *testing.T, refuse interceptor.Funcs) *bench {
	t.Helper()
	b := &bench{t: t, reply: func(step int) run.Reply {
		if step == 1 {
			return run.Reply{Finish: run.FinishStop, Calls: []run.Proposal{{Tool: "search", Arguments: `{"q":"x"}`}}}
		}
		return run.Reply{Finish: run.FinishStop, Text: "done"}
	}}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ready := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Available", ObservedGeneration: 1}}
	agentRun := aRun()
	agentRun.Generation = 1
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(refuse).
		WithStatusSubresource(&v1alpha1.AgentRun{}).
		WithObjects(agentRun,
			&v1alpha1.ModelBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", UID: "m", Generation: 1},
				Spec: v1alpha1.ModelBindingSpec{
					OpenAI: &v1alpha1.OpenAIModel{Model: "x"}, TimeoutSeconds: 10, MaxOutputTokens: 10, Price: &v1alpha1.ModelPrice{Input: "1", Output: "1"},
					Retry: v1alpha1.RetryPolicy{MaxAttempts: 2, BackoffMilliseconds: 10}, Concurrency: v1alpha1.ConcurrencyLimit{Max: 1},
				},
				Status: v1alpha1.ModelBindingStatus{Conditions: ready},
			},
			&v1alpha1.ToolBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "search", UID: "search", Generation: 1},
				Spec: v1alpha1.ToolBindingSpec{
					InputSchema: &runtime.RawExtension{Raw: []byte(`{"type":"object","properties":{"q":{}}}`)},
					Backend:     v1alpha1.ToolBackend{HTTP: &v1alpha1.HTTPBackend{URL: "http://localhost", Tool: "search"}},
					Effect:      v1alpha1.EffectReadOnly, TimeoutSeconds: 10, Result: v1alpha1.ResultPolicy{MaxBytes: 1000},
					Retry: v1alpha1.RetryPolicy{MaxAttempts: 2, BackoffMilliseconds: 10}, Concurrency: v1alpha1.ConcurrencyLimit{Max: 1},
				},
				Status: v1alpha1.ToolBindingStatus{Conditions: ready},
			}).Build()
	server := func(tool.Config) (tool.Server, error) { return b, nil }
	opened := func(model.Config) (model.Model, error) { return b, nil }
	wake := new(Waker[RunKey])
	b.reconciler = &AgentRunReconciler{
		Client: b.client, Live: b.client, Clock: clock.RealClock{}, Recorder: events.NewFakeRecorder(1000),
		Journal: journal.New(NewTurnStore(b.client, b.client), 1<<20), Tools: NewTools(server, server),
		Principals: NewPrincipals(permissive(t)), Admission: inPlace{},
		Models: NewModels(opened, opened, b.client), Effects: NewEffects(10, wake), Wake: wake, Workers: 1,
	}
	return b
}

// inPlace is an Admission that lacks nothing.
type inPlace struct{}

func (inPlace) Missing(context.Context) string { return "" }
func (inPlace) Since() time.Time               { return time.Time{} }
func (inPlace) Watched() []client.Object       { return nil }

// permissive is an API server that permits everything.
func permissive(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := authorizationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if review, ok := o.(*authorizationv1.SubjectAccessReview); ok {
				review.Status.Allowed = true
			}
			return nil
		},
	}).Build()
}

// pass lets the reconciler look once, and waits until what it has started has come to its end.
func (b *bench) pass() (ctrl.Result, error) {
	b.t.Helper()
	result, err := b.reconciler.Reconcile(b.t.Context(), b.run())
	synctest.Wait()
	return result, err
}

func (b *bench) run() *v1alpha1.AgentRun {
	b.t.Helper()
	var r v1alpha1.AgentRun
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, &r); err != nil {
		b.t.Fatal(err)
	}
	return &r
}

// toItsEnd looks again whenever a controller would, until the run has ended.
func (b *bench) toItsEnd() *v1alpha1.AgentRun {
	b.t.Helper()
	for range 50 {
		result, err := b.pass()
		if r := b.run(); r.Status.Termination != nil {
			return r
		}
		if err == nil {
			time.Sleep(min(result.RequeueAfter, time.Second))
		}
	}
	b.t.Fatalf("the run does not end: %+v", b.run().Status)
	return nil
}

var statuses = schema.GroupResource{Group: "interlock.dev", Resource: "agentruns"}

func TestReconcile_whenAStatusWriteIsOvertakenNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		overtaken := 1
		b := newBench(t, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if overtaken--; overtaken >= 0 {
				return apierrors.NewConflict(statuses, "r", nil)
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		}})
		defer b.reconciler.Effects.Close()
		if result, err := b.pass(); err != nil || result.RequeueAfter != overtakenPause || b.asked != nil {
			t.Errorf("overtaken before the first request: %v, %v, asked %v", result, err, b.asked)
		}
		if _, err := b.pass(); err != nil || !slices.Equal(b.asked, []string{"s1#1"}) {
			t.Errorf("asked %v, %v", b.asked, err)
		}
		overtaken = 1
		if _, err := b.pass(); err != nil || b.called != nil {
			t.Errorf("overtaken before the first call: called %v, %v", b.called, err)
		}
		if r := b.toItsEnd(); r.Status.Termination.Reason != v1alpha1.TerminationFinal {
			t.Errorf("ended with %+v", r.Status.Termination)
		}
		if !slices.Equal(b.asked, []string{"s1#1", "s2#1"}) || !slices.Equal(b.called, []string{"s1c1"}) {
			t.Errorf("asked %v, called %v: something was done twice", b.asked, b.called)
		}
	})
}

func TestReconcile_anEffectThatFailsToBeRecordedIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := 0
		b := newBench(t, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if down--; down >= 0 {
					return apierrors.NewServiceUnavailable("etcd is down")
				}
				return c.Create(ctx, o, opts...)
			},
		})
		defer b.reconciler.Effects.Close()
		_, _ = b.pass()
		down = 3
		for range 3 {
			if _, err := b.pass(); err == nil {
				t.Error("an error of the API server is kept quiet: there is no back-off")
			}
		}
		if r := b.toItsEnd(); r.Status.Termination.Reason != v1alpha1.TerminationFinal || !slices.Equal(b.asked, []string{"s1#1", "s2#1"}) {
			t.Errorf("ended with %+v, asked %v", r.Status.Termination, b.asked)
		}
	})
}

func TestReconcile_whatTheAPIServerWillNeverTakeIsDealtWithOnce(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "interlock.dev", Kind: "Turn"}, "t", field.ErrorList{field.TooLong(field.NewPath("spec"), "", 1)})
	for name, test := range map[string]struct {
		refuse interceptor.Funcs
		want   v1alpha1.Termination
	}{
		"every Turn": {interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return invalid },
		}, v1alpha1.Termination{Reason: v1alpha1.TerminationModelFailed, Detail: codeUnstorable}},
		// The run's onToolFailure is Terminate.
		"every result": {interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return invalid
			},
		}, v1alpha1.Termination{Reason: v1alpha1.TerminationToolFailed, Detail: codeUnstorable}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, test.refuse)
				defer b.reconciler.Effects.Close()
				if got := b.toItsEnd().Status.Termination; got.Reason != test.want.Reason || got.Detail != test.want.Detail {
					t.Errorf("ended with %+v, want %+v", got, test.want)
				}
				if len(b.asked) != 1 || len(b.called) > 1 {
					t.Errorf("asked %v, called %v", b.asked, b.called)
				}
			})
		})
	}
}

func TestReconcile_anotherLeadersReplyStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		defer b.reconciler.Effects.Close()
		// Our model was asked; so was another leader's, which was faster and was told something else.
		_, _ = b.pass()
		theirs := journal.Turn{Step: 1, At: time.Now(), Reply: journal.Reply{Finish: run.FinishStop, Text: "theirs"}}
		store := NewTurnStore(b.client, b.client)
		if _, err := store.Create(t.Context(), journal.RunRef{Namespace: "n", Name: "r", UID: "u"}, theirs); err != nil {
			t.Fatal(err)
		}
		r := b.toItsEnd()
		if r.Status.Result == nil || r.Status.Result.Text != "theirs" || b.called != nil {
			t.Errorf("the result is %+v, called %v", r.Status.Result, b.called)
		}
	})
}

func TestReconcile_aNewerStateIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		defer b.reconciler.Effects.Close()
		r := b.run()
		r.Status.StateVersion, r.Status.Phase = run.StateVersion+1, v1alpha1.PhaseThinking
		if err := b.client.Status().Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if _, err := b.pass(); err != nil {
			t.Error(err)
		}
		if after := b.run(); after.ResourceVersion != r.ResourceVersion || b.asked != nil {
			t.Errorf("it was changed: %+v, asked %v", after.Status, b.asked)
		}
	})
}

func TestReconcile_aBindingChangedAfterTheCheckIsNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		defer b.reconciler.Effects.Close()
		_, _ = b.pass()
		// The reply is there, and checked in the next pass; between its check and its send the binding changes.
		b.reconciler.Client = interceptor.NewClient(b.client.(client.WithWatch), interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				var binding v1alpha1.ToolBinding
				if err := c.Get(ctx, client.ObjectKey{Namespace: "n", Name: "search"}, &binding); err != nil {
					return err
				}
				binding.Generation++
				binding.Status.Conditions[0].ObservedGeneration = binding.Generation
				if err := c.Update(ctx, &binding); err != nil {
					return err
				}
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		})
		_, _ = b.pass()
		b.reconciler.Client = b.client
		r := b.toItsEnd()
		turn, _, err := b.reconciler.Journal.Find(t.Context(), journal.RunRef{Namespace: "n", Name: "r", UID: "u"}, 1)
		if err != nil || b.called != nil {
			t.Fatalf("called %v, %v", b.called, err)
		}
		if got, _ := turn.Result("s1c1"); got.Code != codeToolChanged || r.Status.Termination.Reason != v1alpha1.TerminationToolFailed {
			t.Errorf("the result is %+v, the end %+v", got, r.Status.Termination)
		}
	})
}

func TestReconcile_aCallThatTheJournalHoldsAsRefusedIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		overtaken := 0
		b := newBench(t, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if overtaken--; overtaken >= 0 {
				return apierrors.NewConflict(statuses, "r", nil)
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		}})
		defer b.reconciler.Effects.Close()
		_, _ = b.pass()
		// The reply is refused while the tool is down, and kept so; the status write is overtaken; then the tool is up again.
		b.setReady(false)
		overtaken = 1
		_, _ = b.pass()
		b.setReady(true)
		if r := b.toItsEnd(); r.Status.Termination.Reason != v1alpha1.TerminationFinal || b.called != nil || len(b.asked) != 2 {
			t.Errorf("ended with %+v, asked %v, called %v", r.Status.Termination, b.asked, b.called)
		}
	})
}

// setReady takes the tool out of service and back.
func (b *bench) setReady(ready bool) {
	b.t.Helper()
	var binding v1alpha1.ToolBinding
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "n", Name: "search"}, &binding); err != nil {
		b.t.Fatal(err)
	}
	binding.Status.Conditions[0].Status = metav1.ConditionTrue
	if !ready {
		binding.Status.Conditions[0].Status = metav1.ConditionFalse
	}
	if err := b.client.Update(b.t.Context(), &binding); err != nil {
		b.t.Fatal(err)
	}
}

func TestReconcile_aRunWhoseTurnIsDeletedComesToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		defer b.reconciler.Effects.Close()
		_, _ = b.pass()
		_, _ = b.pass()
		turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "u-1"}}
		if err := b.client.Delete(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		b.toItsEnd()
	})
}

func TestReconcile_anEndThatWasNotRecordedIsDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := 0
		b := newBench(t, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if down--; down >= 0 {
				return apierrors.NewServiceUnavailable("down")
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		}})
		defer b.reconciler.Effects.Close()
		r := b.run()
		r.Spec.Limits.MaxToolCalls = new(int32(1))
		if err := b.client.Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		_, _ = b.pass()
		_, _ = b.pass()
		// The process dies with the call in flight; to make it again would pass the budget.
		b.reconciler.Effects.Stop(keyOf(b.run()))
		b.called, down = nil, 1
		if got := b.toItsEnd().Status.Termination; got.Reason != v1alpha1.TerminationBudget || b.called != nil {
			t.Errorf("ended with %+v, called %v", got, b.called)
		}
	})
}

func TestReconcile_aFinishedRunStaysUntilItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		defer b.reconciler.Effects.Close()
		r := b.run()
		r.Spec.TTLSecondsAfterFinished = new(int32(60))
		if err := b.client.Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		b.toItsEnd()
		result, err := b.pass()
		if err != nil || result.RequeueAfter < 58*time.Second || result.RequeueAfter > 60*time.Second {
			t.Errorf("looked at again after %s, %v", result.RequeueAfter, err)
		}
		time.Sleep(result.RequeueAfter)
		if _, err := b.pass(); err == nil {
			err = b.client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, &v1alpha1.AgentRun{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("after its time: %v", err)
			}
		}
	})
}

func TestReconcile_aRunBeingDeletedStopsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		defer b.reconciler.Effects.Close()
		_, _ = b.pass()
		r := b.run()
		r.DeletionTimestamp = new(metav1.Now())
		if _, err := b.reconciler.Reconcile(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if b.reconciler.Effects.Knows(keyOf(r), modelJobID(1, 1)) {
			t.Error("the model is still being asked")
		}
	})
}

func TestReconcile_onlyTheBytesThatWereCheckedAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		defer b.reconciler.Effects.Close()
		_, _ = b.pass()
		_, _ = b.pass()
		b.reconciler.Effects.Stop(keyOf(b.run()))
		b.called = nil
		// Somebody with the rights of an operator has made another Turn in the place of the one that was checked.
		b.reconciler.Journal.Forget("u")
		var turn v1alpha1.Turn
		if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "u-1"}, &turn); err != nil {
			t.Fatal(err)
		}
		turn.Spec.Reply.Calls[0].Arguments = `{"q":"other"}`
		if err := b.client.Update(t.Context(), &turn); err != nil {
			t.Fatal(err)
		}
		b.toItsEnd()
		if b.called != nil {
			t.Error("other bytes than those that were checked are sent")
		}
	})
}

func TestTurnStore_aTurnOfAnotherRunIsNone(t *testing.T) {
	b := newBench(t, interceptor.Funcs{})
	store := NewTurnStore(b.client, b.client)
	ref := journal.RunRef{Namespace: "n", Name: "r", UID: "u"}
	object := turnObject(ref, journal.Turn{Step: 1})
	object.Spec.RunUID = "somebody-else"
	if err := b.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := store.Read(t.Context(), ref, 1); ok || err != nil {
		t.Errorf("got %t, %v", ok, err)
	}
}
