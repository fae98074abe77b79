// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
)

// +kubebuilder:rbac:groups=interlock.dev,resources=approvals,verbs=get;list;watch
// +kubebuilder:rbac:groups=interlock.dev,resources=approvals/status,verbs=update

// ApprovalReconciler says what came of Approvals. It decides nothing: what a run has taken into account is in the run's own
// status and journal.
type ApprovalReconciler struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	Journal  *journal.Journal
	// Admission says since when it can be known who wrote an Approval.
	Admission Admission
}

var _ reconcile.ObjectReconciler[*v1alpha1.Approval] = (*ApprovalReconciler)(nil)

// Reconcile records what came of an Approval, if that is news. What has had its effect, or will have none, is left alone.
func (r *ApprovalReconciler) Reconcile(ctx context.Context, a *v1alpha1.Approval) (ctrl.Result, error) {
	if settled(a) || !a.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	v, err := r.judge(ctx, a)
	if err != nil {
		return ctrl.Result{}, err
	}
	updated := a.DeepCopy()
	updated.Status.Conditions = v.conditions(a.Status.Conditions, a.Generation)
	updated.Status.ObservedGeneration = a.Generation
	if equality.Semantic.DeepEqual(updated.Status, a.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, v.record(ctx, r.Client, r.Recorder, updated)
}

// judge holds an Approval against what its run has recorded.
func (r *ApprovalReconciler) judge(ctx context.Context, a *v1alpha1.Approval) (verdict, error) {
	var agentRun v1alpha1.AgentRun
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Spec.Run.Name}, &agentRun)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return verdict{}, fmt.Errorf("reading the run: %w", err)
	case apierrors.IsNotFound(err) || string(agentRun.UID) != a.Spec.Run.UID:
		return stale("The run that it speaks of is no more."), nil
	}
	own, err := selfApproval(ctx, r.Client, &agentRun, a)
	if err != nil {
		return verdict{}, err
	}
	if own != "" {
		return verdict{reason: v1alpha1.ReasonSelfApproval, message: own}, nil
	}
	if r.Admission.Missing(ctx) == "" && a.CreationTimestamp.Time.Before(r.Admission.Since()) && !wasEffective(a) {
		return stale("It was made while Interlock's admission policies were not in place, so nobody can know who made it. Create another."), nil
	}
	s := stateOf(&agentRun)
	c, ok := s.Call(a.Spec.CallID)
	switch step := stepOf(run.Call{ID: a.Spec.CallID}); {
	case ok && !c.Done():
		return r.open(a, c), nil
	case !ok && !s.Finished() && (step > s.Step || (step == s.Step && s.Phase == run.Thinking)):
		return verdict{reason: v1alpha1.ReasonWaiting, message: "The run has not asked for this yet.", passing: true}, nil
	case step > s.Step:
		return stale("The run has ended without asking for this."), nil
	default:
		return r.done(ctx, a, &agentRun, step)
	}
}

// open is the verdict while the call is on its way.
func (r *ApprovalReconciler) open(a *v1alpha1.Approval, c run.Call) verdict {
	if c.Ask == nil {
		if wasEffective(a) {
			return stale("What it approved is not so any more; the call is previewed anew.")
		}
		return verdict{reason: v1alpha1.ReasonWaiting, message: "The run has not asked for this yet.", passing: true}
	}
	counts := slices.ContainsFunc(c.Ask.Consents, func(o run.Consent) bool { return o.Approval == string(a.UID) })
	same := slices.ContainsFunc(c.Ask.Consents, func(o run.Consent) bool { return o.By == a.Spec.Approver })
	switch {
	case counts:
		return effective()
	case a.Spec.Tool != c.Tool || a.Spec.Digest != c.Ask.Digest:
		if wasEffective(a) {
			return stale("What it approved is not so any more; the call was previewed anew.")
		}
		return verdict{reason: v1alpha1.ReasonDigestMismatch, message: "It is not of the call as it is being asked about."}
	case same && a.Spec.Decision == v1alpha1.DecisionApprove:
		return verdict{reason: v1alpha1.ReasonDuplicate, message: "The same person has approved the call already."}
	case c.State != run.CallAwaitingApproval:
		return stale("The call has gone on without it.")
	case !r.Clock.Now().Before(c.Ask.Expires):
		return verdict{reason: v1alpha1.ReasonExpired, message: "It came after the call's time was over."}
	}
	return verdict{reason: v1alpha1.ReasonWaiting, message: "The run has not taken it into account yet.", passing: true}
}

// done is the verdict once the call has its result, which the journal has.
func (r *ApprovalReconciler) done(ctx context.Context, a *v1alpha1.Approval, agentRun *v1alpha1.AgentRun, step int) (verdict, error) {
	ref := journal.RunRef{Namespace: agentRun.Namespace, Name: agentRun.Name, UID: string(agentRun.UID)}
	turn, err := r.Journal.Read(ctx, ref, step)
	if errors.Is(err, journal.ErrMissing) {
		return stale("The call is no more."), nil
	}
	if err != nil {
		return verdict{}, err
	}
	result, _ := turn.Result(a.Spec.CallID)
	counted := slices.ContainsFunc(result.ApprovedBy, func(c run.Consent) bool { return c.Approval == string(a.UID) })
	denied := a.Spec.Decision == v1alpha1.DecisionDeny && result.Code == run.CodeApprovalDenied
	switch {
	case (counted || denied) && result.ApprovalDigest == a.Spec.Digest:
		return effective(), nil
	case result.ApprovalDigest == a.Spec.Digest && result.Code == run.CodeApprovalExpired:
		return verdict{reason: v1alpha1.ReasonExpired, message: "It came after the call's time was over."}, nil
	case result.ApprovalDigest != "" && result.ApprovalDigest != a.Spec.Digest && !wasEffective(a):
		return verdict{reason: v1alpha1.ReasonDigestMismatch, message: "It is not of the call as it was asked about."}, nil
	}
	return stale("The call has gone on without it."), nil
}

func effective() verdict {
	return verdict{reason: v1alpha1.ReasonEffective, message: "The run has taken it into account.", ready: true}
}

func stale(why string) verdict { return verdict{reason: v1alpha1.ReasonStale, message: why} }

// settled reports whether nothing more can come of an Approval. One that was taken into account is looked at again: its call
// may be previewed anew.
func settled(a *v1alpha1.Approval) bool {
	switch readyOf(a).Reason {
	case "", v1alpha1.ReasonWaiting, v1alpha1.ReasonEffective:
		return false
	}
	return true
}

func wasEffective(a *v1alpha1.Approval) bool { return readyOf(a).Reason == v1alpha1.ReasonEffective }

func readyOf(a *v1alpha1.Approval) metav1.Condition {
	if c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// SetupWithManager registers the reconciler.
func (r *ApprovalReconciler) SetupWithManager(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).
		For(&v1alpha1.Approval{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.AgentRun{}, handler.EnqueueRequestsFromMapFunc(r.approvalsOf)).
		Complete(reconcile.AsReconciler(m.GetClient(), r))
}

// approvalsOf wakes the Approvals of a run that has changed, but for those of which nothing more can come.
func (r *ApprovalReconciler) approvalsOf(ctx context.Context, o client.Object) []reconcile.Request {
	var list v1alpha1.ApprovalList
	err := r.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingFields{approvalsByRunName: o.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the approvals of a run", "run", o.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if !settled(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
