// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A seer is shown one state of an object after the other, and says when it has seen enough.
type seer func(client.Object) (bool, error)

// follow shows the object that key names to see, as it is and then with each change. list is an empty list of its kind. It
// survives lost connections; only when the API server remembers the changes no more is the present state read again.
func follow(ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, see seer) error {
	for {
		err := followOnce(ctx, c, list, key, see)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
	}
}

func followOnce(ctx context.Context, c client.WithWatch, list client.ObjectList, key client.ObjectKey, see seer) error {
	one := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name}}
	if err := c.List(ctx, list, one...); err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	if meta.LenList(list) == 0 {
		return fmt.Errorf("%s is not there", key)
	}
	isDone := false
	err := meta.EachListItem(list, func(o runtime.Object) (err error) {
		isDone, err = showTo(o, key, see)
		return err
	})
	if err != nil || isDone {
		return err
	}
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return c.Watch(ctx, list, append(one, &client.ListOptions{Raw: &options})...)
	}}
	_, err = watchtools.Until(ctx, list.GetResourceVersion(), source, func(e watch.Event) (bool, error) {
		switch e.Type {
		case watch.Error:
			return false, apierrors.FromObject(e.Object)
		case watch.Deleted:
			return false, fmt.Errorf("%s was deleted", key)
		case watch.Added, watch.Modified:
			return showTo(e.Object, key, see)
		case watch.Bookmark:
		}
		return false, nil
	})
	return err
}

func showTo(o runtime.Object, key client.ObjectKey, see seer) (bool, error) {
	object, ok := o.(client.Object)
	if !ok || client.ObjectKeyFromObject(object) != key {
		return false, nil
	}
	return see(object)
}
