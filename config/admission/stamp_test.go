// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ways are how a manifest gets to the API server.
var ways = map[string]func(context.Context, client.Client, *unstructured.Unstructured, bool) error{
	"create": func(ctx context.Context, c client.Client, o *unstructured.Unstructured, dry bool) error {
		if dry {
			return c.Create(ctx, o, client.DryRunAll)
		}
		return c.Create(ctx, o)
	},
	"server-side apply": func(ctx context.Context, c client.Client, o *unstructured.Unstructured, dry bool) error {
		options := []client.ApplyOption{client.FieldOwner("syncer")}
		if dry {
			options = append(options, client.DryRunAll)
		}
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), options...)
	},
}

// forEachWay runs a test for each Kind that is stamped, and each way to create it.
func forEachWay(t *testing.T, test func(t *testing.T, o *unstructured.Unstructured, send func(dry bool) error)) {
	t.Helper()
	c, err := as("syncer")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range manifests {
		for how, send := range ways {
			o := parse(text)
			t.Run(o.GetKind()+" by "+how, func(t *testing.T) {
				test(t, o, func(dry bool) error { return send(t.Context(), c, o, dry) })
			})
		}
	}
}

// remove takes away what a test has stored.
func remove(t *testing.T, o client.Object) {
	t.Helper()
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), o); err != nil {
			t.Errorf("deleting %s: %v", o.GetName(), err)
		}
	})
}

func TestStamp_saysWhoCreatedIt(t *testing.T) {
	forEachWay(t, func(t *testing.T, o *unstructured.Unstructured, send func(bool) error) {
		t.Helper()
		if err := send(false); err != nil {
			t.Fatal(err)
		}
		remove(t, o.DeepCopy())
		if got := stamp(o); got != "syncer" {
			t.Errorf("it says that %q has created it; want syncer", got)
		}
	})
}

func TestStamp_takesTheRightName(t *testing.T) {
	forEachWay(t, func(t *testing.T, o *unstructured.Unstructured, send func(bool) error) {
		t.Helper()
		o.Object["spec"].(map[string]any)[stampedField(o)] = "syncer"
		if err := send(true); err != nil {
			t.Fatal(err)
		}
		if got := stamp(o); got != "syncer" {
			t.Errorf("it says that %q has created it; want syncer", got)
		}
	})
}

// A template may well leave a null. (In what is applied server-side, no Kind takes one.)
func TestStamp_takesNullForLeftOut(t *testing.T) {
	c, err := as("syncer")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range manifests {
		o := parse(text)
		t.Run(o.GetKind(), func(t *testing.T) {
			o.Object["spec"].(map[string]any)[stampedField(o)] = nil
			if err := c.Create(t.Context(), o, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if got := stamp(o); got != "syncer" {
				t.Errorf("it says that %q has created it; want syncer", got)
			}
		})
	}
}

func TestStamp_dryRunSaysTheSameAndStoresNothing(t *testing.T) {
	forEachWay(t, func(t *testing.T, o *unstructured.Unstructured, send func(bool) error) {
		t.Helper()
		if err := send(true); err != nil {
			t.Fatal(err)
		}
		if got := stamp(o); got != "syncer" {
			t.Errorf("it says that %q would create it; want syncer", got)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			t.Errorf("it is there after a dry run: %v", err)
		}
	})
}

// Who syncs a repository applies it again and again.
func TestStamp_appliedAgainChangesNothing(t *testing.T) {
	for who, text := range manifests {
		o := parse(text)
		t.Run(o.GetKind(), func(t *testing.T) {
			first := apply(t, "syncer", text)
			remove(t, first)
			second := apply(t, "syncer", text)
			if diff := cmp.Diff(first.Object, second.Object); diff != "" {
				t.Errorf("applied again, it is another (+):\n%s", diff)
			}
			// Another one who applies it has not created it.
			third := apply(t, "owner", text)
			if got := stamp(third); got != "syncer" || third.GetGeneration() != first.GetGeneration() {
				t.Errorf("applied by another than %s, it says that %q has created it, in generation %d", who, got, third.GetGeneration())
			}
		})
	}
}

func apply(t *testing.T, who, text string) *unstructured.Unstructured {
	t.Helper()
	c, err := as(who)
	if err != nil {
		t.Fatal(err)
	}
	o := parse(text)
	if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("sync")); err != nil {
		t.Fatal(err)
	}
	return o
}
