// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// runsUnderPolicy wakes the runs that have not ended in the namespaces that a RunPolicy selects, or did before it was changed: what
// holds for them may be another thing now. Those for whom it is not write nothing.
func (r *AgentRunReconciler) runsUnderPolicy() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		p, ok := o.(*v1alpha1.RunPolicy)
		if !ok {
			return nil
		}
		var namespaces metav1.PartialObjectMetadataList
		namespaces.SetGroupVersionKind(aNamespace().GroupVersionKind())
		if err := r.Client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "listing the namespaces of a policy", "runPolicy", p.Name)
			return nil
		}
		s, err := selectorOf(p)
		var requests []reconcile.Request
		for i := range namespaces.Items {
			if err != nil || s.Matches(labels.Set(namespaces.Items[i].Labels)) {
				requests = append(requests, r.waiting(ctx, namespaces.Items[i].Name, unfinished)...)
			}
		}
		return requests
	})
}

// runsOfNamespace wakes the runs of a namespace that have not ended, when its labels have changed.
func (r *AgentRunReconciler) runsOfNamespace() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.waiting(ctx, o.GetName(), unfinished)
	})
}
