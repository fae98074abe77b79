// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/effect"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
)

// +kubebuilder:rbac:groups=interlock.dev,resources=agentruns,verbs=get;list;watch;create;delete;patch
// +kubebuilder:rbac:groups=interlock.dev,resources=agentruns/status,verbs=update
// +kubebuilder:rbac:groups=interlock.dev,resources=toolbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=interlock.dev,resources=modelbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=interlock.dev,resources=turns,verbs=get;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// AgentRunReconciler advances runs, one step a pass.
type AgentRunReconciler struct {
	// Client reads from the cache and sees its own writes.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	Journal  *journal.Journal
	Tools    *Tools
	Models   *Models
	// Principals are asked whether a run may call a tool; Admission, whether it can be known who wrote an Approval.
	Principals *Principals
	Admission  Admission
	// Effects is where models and tools are called; Wake is what it wakes runs with.
	Effects *Effects
	Wake    *Waker[RunKey]
	// Refusals counts the runs that RunPolicies have refused; nil if nobody counts.
	Refusals *RefusalCounter
	// Workers is how many runs are looked at side by side.
	Workers int

	// Queue says when a run may begin.
	Queue Queue

	bulkheads effect.Bulkheads
	// unstorable holds the UIDs of child runs whose answers the journal does not take.
	unstorable sync.Map
}

// A RunKey names one run for the time of its life: another run of the same name has another UID.
type RunKey struct {
	types.NamespacedName
	UID types.UID
}

// Effects performs the effects of runs.
type Effects = effect.Executor[RunKey, *outcome]

// NewEffects makes an Executor for runs, with at most limit effects under way at once.
func NewEffects(limit int, wake *Waker[RunKey]) *Effects {
	return effect.New[RunKey, *outcome](limit, wake.Wake)
}

var _ reconcile.ObjectReconciler[*v1alpha1.AgentRun] = (*AgentRunReconciler)(nil)

// A pass is one look at one run.
type pass struct {
	// Set at the start.
	run *v1alpha1.AgentRun
	key RunKey
	ref journal.RunRef
	now time.Time

	// Set by observe: the state as it is recorded, what is new, and what effects came to.
	before   run.State
	events   []run.Event
	outcomes map[string]*outcome
	// orphan: the run is a child, and its parent has ended, is about to, or has no use for its answer any more.
	orphan bool
	// policies are the RunPolicies of the namespace, and refusal is why one of them ends the run; nil if none does.
	policies []v1alpha1.RunPolicy
	refusal  *policyRefusal
	// queued: the run has asked for its turn to begin. Limit is what held then, and place is where it waits, from 1; 0 if it does not.
	queued bool
	limit  concurrency
	place  int

	// Set by decide.
	after   run.State
	effects []run.Effect

	// wake is when to look again; zero: not by time.
	wake time.Time
}

// errDone ends a pass early: there is nothing more to do in it.
var errDone = errors.New("done")

// Reconcile takes one run one step further.
func (r *AgentRunReconciler) Reconcile(ctx context.Context, agentRun *v1alpha1.AgentRun) (ctrl.Result, error) {
	key := keyOf(agentRun)
	p := &pass{
		run: agentRun, key: key, now: r.Clock.Now(),
		ref: journal.RunRef{Namespace: key.Namespace, Name: key.Name, UID: string(key.UID)},
	}
	defer r.leave(p)
	for _, step := range []func(context.Context, *pass) error{r.observe, r.decide, r.record, r.perform} {
		if err := step(ctx, p); err != nil {
			return r.sort(ctx, p, err)
		}
	}
	return r.again(p), nil
}

// sort says what an error of a pass means: nothing, look again soon, or back off.
func (r *AgentRunReconciler) sort(ctx context.Context, p *pass, err error) (ctrl.Result, error) {
	switch {
	case errors.Is(err, errDone):
		return r.again(p), nil
	case errors.Is(err, journal.ErrOtherReply), errors.Is(err, journal.ErrConflict), apierrors.IsConflict(err):
		// Somebody else was faster, or the run was changed meanwhile. Nothing has happened; see what is there now.
		ctrl.LoggerFrom(ctx).V(1).Info("the pass was overtaken", "why", err.Error())
		return ctrl.Result{RequeueAfter: overtakenPause}, nil
	}
	return ctrl.Result{}, err
}

// longestPause is after which time a pass that failed is made again at the latest.
const longestPause = 30 * time.Second

// overtakenPause is long enough for the cache to see what overtook us.
const overtakenPause = 100 * time.Millisecond

func (r *AgentRunReconciler) again(p *pass) ctrl.Result {
	if p.wake.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(p.wake.Sub(p.now), time.Millisecond)}
}

// decide folds what is new into the state.
func (r *AgentRunReconciler) decide(_ context.Context, p *pass) error {
	p.after, p.effects = run.Fold(p.before, p.events)
	p.wake = wakeAt(p.after, p.run.Spec)
	return nil
}

// wakeAt is when time alone calls for another look: at the earliest timer or, once the run has ended, when its time to live
// is over. Zero: never.
func wakeAt(s run.State, spec v1alpha1.AgentRunSpec) time.Time {
	switch {
	case !s.Finished():
		return s.NextWake()
	case spec.TTLSecondsAfterFinished != nil:
		return s.Completed.Add(time.Duration(*spec.TTLSecondsAfterFinished) * time.Second)
	}
	return time.Time{}
}

// forget drops what is in memory of a run that is gone.
func (r *AgentRunReconciler) forget(key RunKey) {
	r.Effects.Stop(key)
	r.Journal.Forget(string(key.UID))
	r.bulkheads.Drop(string(key.UID))
	r.unstorable.Delete(string(key.UID))
}

func keyOf(o client.Object) RunKey { return RunKey{client.ObjectKeyFromObject(o), o.GetUID()} }

// SetupWithManager registers the reconciler. The indexes are those of addIndexes.
func (r *AgentRunReconciler) SetupWithManager(m ctrl.Manager) error {
	if err := m.Add(closeAtEnd(r.Effects.Close)); err != nil {
		return fmt.Errorf("adding the end of effects: %w", err)
	}
	b := ctrl.NewControllerManagedBy(m).
		For(&v1alpha1.AgentRun{}, builder.WithPredicates(r.changes())).
		Watches(&v1alpha1.AgentRun{}, family()).
		Watches(&v1alpha1.ToolBinding{}, r.runsWaitingFor("tool/")).
		Watches(&v1alpha1.ModelBinding{}, r.runsWaitingFor("model/")).
		Watches(&v1alpha1.RunPolicy{}, r.runsUnderPolicy(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(aNamespace(), r.runsOfNamespace(), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&v1alpha1.Approval{}, handler.EnqueueRequestsFromMapFunc(runOfApproval), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(r.Wake.source(func(k RunKey) reconcile.Request { return reconcile.Request{NamespacedName: k.NamespacedName} })).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.Workers,
			// What failed for long is not left alone for long: its deadline may come.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, longestPause),
		})
	for _, o := range r.Admission.Watched() {
		b = b.Watches(o, r.runsWaitingFor("approval"))
	}
	return b.Complete(reconcile.AsReconciler(m.GetClient(), r))
}

// changes lets through what a person or GitOps did. Our own status writes do not wake a run; its effects do. The queue sees all.
func (r *AgentRunReconciler) changes() predicate.Predicate {
	see := func(o client.Object, isNew bool) {
		if agentRun, ok := o.(*v1alpha1.AgentRun); ok {
			r.wakeAll(r.Queue.see(agentRun, isNew))
		}
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			see(e.Object, true)
			return true
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			see(e.ObjectNew, false)
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			r.forget(keyOf(e.Object))
			if agentRun, ok := e.Object.(*v1alpha1.AgentRun); ok {
				r.wakeAll(r.Queue.gone(agentRun))
			}
			return false
		},
	}
}

// runsWaitingFor wakes the runs that wait for what has changed: a binding, after its prefix, or the policies that approvals
// rest on.
func (r *AgentRunReconciler) runsWaitingFor(what string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		key := what
		if o.GetNamespace() != "" {
			key += o.GetName()
		}
		return r.waiting(ctx, o.GetNamespace(), key)
	})
}

// waiting gives the runs of a namespace, or of all if it is empty, that the index of waits has under key.
func (r *AgentRunReconciler) waiting(ctx context.Context, namespace, key string) []reconcile.Request {
	var runs v1alpha1.AgentRunList
	// What is listed is only read.
	err := r.Client.List(ctx, &runs, client.InNamespace(namespace), client.MatchingFields{runsByWait: key}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the runs that wait", "namespace", namespace, "for", key)
		return nil
	}
	requests := make([]reconcile.Request, len(runs.Items))
	for i := range runs.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&runs.Items[i])
	}
	return requests
}

func runOfApproval(_ context.Context, o client.Object) []reconcile.Request {
	a, ok := o.(*v1alpha1.Approval)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: a.Spec.Run.Name}}}
}

// closeAtEnd runs end once the manager stops, in the process that leads.
func closeAtEnd(end func()) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		end()
		return nil
	})
}
