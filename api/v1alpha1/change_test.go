// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A kind is what the tests of bounds need to know of a Kind.
type kind struct {
	// files are objects in testdata that have, taken together, every field.
	files  []string
	bounds map[string]bound
}

// A writer puts an object with a change to the value at path to the API server, and gives it as it comes back. Nothing is
// stored.
type writer func(t *testing.T, path string, change func(old any) any) (*unstructured.Unstructured, error)

func (k kind) writer(t *testing.T) writer {
	t.Helper()
	var bases []*unstructured.Unstructured
	for _, f := range k.files {
		bases = append(bases, read(t, f))
	}
	// A status is written to an object that is there.
	stored := bases[0].DeepCopy()
	stored.SetName("stored")
	store(t, stored)
	return func(t *testing.T, path string, change func(any) any) (*unstructured.Unstructured, error) {
		t.Helper()
		o := changed(t, bases, path, change)
		if !strings.HasPrefix(path, "status") {
			return o, api.Create(t.Context(), o, client.DryRunAll)
		}
		o.SetName(stored.GetName())
		o.SetResourceVersion(stored.GetResourceVersion())
		return o, api.Status().Update(t.Context(), o, client.DryRunAll)
	}
}

// changed gives the first object that has a value at path, with the change.
func changed(t *testing.T, bases []*unstructured.Unstructured, path string, change func(any) any) *unstructured.Unstructured {
	t.Helper()
	for _, b := range bases {
		if o, ok := replace(b.DeepCopy().Object, path, change); ok {
			return &unstructured.Unstructured{Object: o}
		}
	}
	t.Fatalf("no object in testdata has a value at %s", path)
	return nil
}

// replace makes a change to the value at path, such as spec.calls[].id, which is that of the first item that has one; false if
// there is no such value.
func replace(object map[string]any, path string, change func(any) any) (map[string]any, bool) {
	root := map[string]any{"": object}
	steps := strings.Split(strings.ReplaceAll("."+path, "[]", ".[]"), ".")
	if path == "" {
		steps = steps[:1]
	}
	ok := replaceBelow(root, steps, change)
	object, _ = root[""].(map[string]any)
	return object, ok
}

func replaceBelow(at any, steps []string, change func(any) any) bool {
	step, rest := steps[0], steps[1:]
	if step == "[]" {
		list, _ := at.([]any)
		for i := range list {
			if len(rest) == 0 {
				list[i] = change(list[i])
				return true
			}
			if replaceBelow(list[i], rest, change) {
				return true
			}
		}
		return false
	}
	object, _ := at.(map[string]any)
	old, ok := object[step]
	switch {
	case !ok:
		return false
	case len(rest) > 0:
		return replaceBelow(old, rest, change)
	}
	object[step] = change(old)
	if _, ok := object[step].(remove); ok {
		delete(object, step)
	}
	return true
}

// remove is the value that takes a field away.
type remove struct{}

// without is the change that takes a field of an object away.
func without(field string) func(any) any {
	return func(old any) any {
		o := maps.Clone(old.(map[string]any))
		delete(o, field)
		return o
	}
}

// withField is the change that sets a field of an object.
func withField(field string, v any) func(any) any {
	return func(old any) any {
		o := maps.Clone(old.(map[string]any))
		o[field] = v
		return o
	}
}

// items makes n different items after the first of old.
func items(old any, n int) []any {
	made := make([]any, n)
	for i := range made {
		first, ok := old.([]any)[0].(map[string]any)
		if !ok {
			made[i] = fmt.Sprintf("x%d", i)
			continue
		}
		item := runtime.DeepCopyJSON(first)
		for _, key := range []string{"name", "id", "callID", "type", "approver"} {
			if _, ok := item[key]; ok {
				item[key] = fmt.Sprintf("x%d", i)
			}
		}
		made[i] = item
	}
	return made
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
