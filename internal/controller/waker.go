// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// A Waker puts keys into the queue of a controller from outside of it, such as when an effect has finished. The zero Waker
// is ready to use, and safe for concurrent use.
type Waker[K any] struct {
	add atomic.Pointer[func(K)]
}

// Wake puts k into the queue. Before the controller has started it does nothing: all objects are in the queue then.
func (w *Waker[K]) Wake(k K) {
	if add := w.add.Load(); add != nil {
		(*add)(k)
	}
}

func (w *Waker[K]) source(request func(K) reconcile.Request) source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		w.add.Store(new(func(k K) { q.Add(request(k)) }))
		return nil
	})
}
