// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// +kubebuilder:rbac:groups=interlock.dev,resources=modelbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=interlock.dev,resources=modelbindings/status,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get

// ModelBindingReconciler says whether runs may use a ModelBinding.
type ModelBindingReconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Models   *Models
	// Breakers shows how the breakers of bindings stand.
	Breakers BreakerGauge
}

var _ reconcile.ObjectReconciler[*v1alpha1.ModelBinding] = (*ModelBindingReconciler)(nil)

// missingPause is how long a binding waits before it looks again for a Secret or ConfigMap that is missing. The operator may
// not list or watch those, so nothing else would tell it.
const missingPause = 15 * time.Second

// Reconcile opens the binding, which shows whether it can work, and records the verdict if it is news.
func (r *ModelBindingReconciler) Reconcile(ctx context.Context, b *v1alpha1.ModelBinding) (ctrl.Result, error) {
	_, err := r.Models.Open(ctx, b)
	v := verdict{reason: v1alpha1.ReasonAvailable, message: "Runs may use this model.", ready: true}
	again := ctrl.Result{}
	switch {
	case err == nil:
	case errors.Is(err, errSecretMissing):
		v, again.RequeueAfter = verdict{reason: v1alpha1.ReasonSecretMissing, message: err.Error()}, missingPause
	case errors.Is(err, errScriptMissing):
		v, again.RequeueAfter = verdict{reason: v1alpha1.ReasonScriptMissing, message: err.Error()}, missingPause
	case errors.Is(err, errScript):
		v = verdict{reason: v1alpha1.ReasonInvalidScript, message: err.Error()}
		if b.Spec.Scripted.ConfigMap != nil {
			again.RequeueAfter = missingPause
		}
	case errors.Is(err, errModel):
		v = verdict{reason: v1alpha1.ReasonInvalidModel, message: err.Error()}
	default:
		return ctrl.Result{}, fmt.Errorf("opening the model: %w", err)
	}
	breaker, halfOpen := breakerStatus(r.Models.breaker(b), b.Status.Breaker, r.Clock.Now())
	r.Breakers.set("ModelBinding", b, breaker)
	again = sooner(again, halfOpen)
	status := v1alpha1.ModelBindingStatus{
		Conditions:         v.conditions(b.Status.Conditions, b.Generation),
		ObservedGeneration: b.Generation, Breaker: breaker,
	}
	if equality.Semantic.DeepEqual(b.Status, status) {
		return again, nil
	}
	updated := b.DeepCopy()
	updated.Status = status
	known := b.DeepCopy()
	known.Status.Breaker = breaker
	if equality.Semantic.DeepEqual(known.Status, status) {
		return again, recordBreaker(ctx, r.Client, r.Recorder, updated, b.Status.Breaker, breaker)
	}
	if err := v.record(ctx, r.Client, r.Recorder, updated); err != nil {
		return again, err
	}
	tellBreaker(r.Recorder, updated, b.Status.Breaker, breaker)
	return again, nil
}

// SetupWithManager registers the reconciler.
func (r *ModelBindingReconciler) SetupWithManager(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).
		For(&v1alpha1.ModelBinding{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}, dropped(func(o client.Object) {
			r.Models.Drop(o.GetUID())
			r.Breakers.set("ModelBinding", o, nil)
		}))).
		WatchesRawSource(r.Models.wake.source(func(k client.ObjectKey) reconcile.Request { return reconcile.Request{NamespacedName: k} })).
		Complete(reconcile.AsReconciler(m.GetClient(), r))
}
