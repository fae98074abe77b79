// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/text"
)

// dropped calls drop for an object that is gone; there is nothing else to do about it.
func dropped(drop func(client.Object)) predicate.Predicate {
	return predicate.Funcs{DeleteFunc: func(e event.DeleteEvent) bool {
		drop(e.Object)
		return false
	}}
}

// A verdict says whether a binding may be used.
type verdict struct {
	reason, message string
	ready           bool
	// passing: it is not ready yet, and may become so by itself.
	passing bool
}

// conditions gives the conditions of a binding: Ready, and Stalled or Reconciling while it is not.
func (v verdict) conditions(old []metav1.Condition, generation int64) []metav1.Condition {
	conditions := append([]metav1.Condition(nil), old...)
	set := func(kind string, isTrue bool) {
		c := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: v.reason, Message: text.Clip(v.message, maxCondition), ObservedGeneration: generation,
		}
		if isTrue {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&conditions, c)
	}
	set(v1alpha1.ConditionReady, v.ready)
	for kind, holds := range map[string]bool{v1alpha1.ConditionReconciling: !v.ready && v.passing, v1alpha1.ConditionStalled: !v.ready && !v.passing} {
		if holds {
			set(kind, true)
		} else {
			meta.RemoveStatusCondition(&conditions, kind)
		}
	}
	return conditions
}

// record writes the status of a binding, which holds the verdict, and tells of it once it is written.
func (v verdict) record(ctx context.Context, c client.Client, recorder events.EventRecorder, o client.Object) error {
	if err := c.Status().Update(ctx, o); err != nil {
		return fmt.Errorf("recording whether the binding is ready: %w", err)
	}
	kind := corev1.EventTypeNormal
	if !v.ready {
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(o, nil, kind, v.reason, "Reconcile", "%s", text.Clip(v.message, maxEvent))
	return nil
}
