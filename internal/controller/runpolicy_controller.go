// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// +kubebuilder:rbac:groups=interlock.dev,resources=runpolicies/status,verbs=update

// RunPolicyReconciler says whether a RunPolicy is in force. What it asks for is looked up where runs are advanced.
type RunPolicyReconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
}

var _ reconcile.ObjectReconciler[*v1alpha1.RunPolicy] = (*RunPolicyReconciler)(nil)

// Reconcile records that the policy has been read, if that is news.
func (r *RunPolicyReconciler) Reconcile(ctx context.Context, p *v1alpha1.RunPolicy) (ctrl.Result, error) {
	v := verdict{reason: v1alpha1.ReasonInForce, message: "Runs are held to this policy.", ready: true}
	if _, err := selectorOf(p); err != nil {
		v = verdict{reason: v1alpha1.ReasonInvalidSelector, message: "The policy holds in every namespace until its selector can be read: " + err.Error()}
	}
	updated := p.DeepCopy()
	updated.Status.Conditions, updated.Status.ObservedGeneration = v.conditions(p.Status.Conditions, p.Generation), p.Generation
	if equality.Semantic.DeepEqual(p.Status, updated.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, v.record(ctx, r.Client, r.Recorder, updated)
}

// SetupWithManager registers the reconciler.
func (r *RunPolicyReconciler) SetupWithManager(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).
		For(&v1alpha1.RunPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(reconcile.AsReconciler(m.GetClient(), r))
}
