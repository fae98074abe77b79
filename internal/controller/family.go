// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// family wakes a parent when a child run has ended or is gone, and the children that are out when their parent is suspended or
// resumed, is about to end, or has charged one of them.
func family() handler.EventHandler {
	wake := func(queue workqueue.TypedRateLimitingInterface[reconcile.Request], namespace, name string) {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			before, okBefore := e.ObjectOld.(*v1alpha1.AgentRun)
			now, ok := e.ObjectNew.(*v1alpha1.AgentRun)
			if !ok || !okBefore {
				return
			}
			if isChild(now) && before.Status.Termination == nil && now.Status.Termination != nil {
				wake(queue, now.Namespace, now.Spec.Parent.Name)
			}
			all := ending(before) != ending(now) || suspended(before) != suspended(now)
			for _, c := range before.Status.Calls {
				if c.Child != "" && (all || !isOut(now, c.Child)) {
					wake(queue, now.Namespace, c.Child)
				}
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			gone, ok := e.Object.(*v1alpha1.AgentRun)
			if !ok {
				return
			}
			if isChild(gone) {
				wake(queue, gone.Namespace, gone.Spec.Parent.Name)
			}
			for _, c := range gone.Status.Calls {
				if c.Child != "" {
					wake(queue, gone.Namespace, c.Child)
				}
			}
		},
	}
}

// isOut reports whether a run waits for the given child.
func isOut(agentRun *v1alpha1.AgentRun, child string) bool {
	for _, c := range agentRun.Status.Calls {
		if c.Child == child {
			return true
		}
	}
	return false
}
