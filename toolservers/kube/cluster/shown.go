// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// OperationsAnnotation holds the IDs of the newest operations that changed an object, the latest first: it is written by the
// very request that makes the change.
const OperationsAnnotation = "interlock.dev/operations"

// Shown gives an object as it is shown to models and people: without what only the API server cares about, and without what a
// Secret keeps.
func Shown(o *unstructured.Unstructured) map[string]any {
	out := o.DeepCopy()
	out.SetManagedFields(nil)
	annotations := out.GetAnnotations()
	delete(annotations, OperationsAnnotation)
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if len(annotations) == 0 {
		annotations = nil
	}
	out.SetAnnotations(annotations)
	if out.GetKind() == "Secret" && out.GroupVersionKind().Group == "" {
		for _, field := range []string{"data", "stringData"} {
			hide(out.Object, field)
		}
	}
	return out.Object
}

// hide replaces the values of a Secret's field by their sizes.
func hide(object map[string]any, field string) {
	values, ok := object[field].(map[string]any)
	if !ok {
		delete(object, field)
		return
	}
	for key, v := range values {
		values[key] = fmt.Sprintf("(%d characters, not shown)", len(fmt.Sprint(v)))
	}
}

// Comparable gives the YAML of an object as far as people decide by it.
func Comparable(o *unstructured.Unstructured) (string, error) {
	shown := Shown(o)
	delete(shown, "status")
	if m, ok := shown["metadata"].(map[string]any); ok {
		for _, field := range []string{"resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
			delete(m, field)
		}
	}
	text, err := yaml.Marshal(shown)
	if err != nil {
		return "", fmt.Errorf("writing the object: %w", err)
	}
	return string(text), nil
}

// maxShown bounds the JSON of what one call shows, in bytes.
const maxShown = 200_000

// Bounded gives v if its JSON is short enough, and otherwise the beginning of it as a text that says so.
func Bounded(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing the answer: %w", err)
	}
	if len(text) <= maxShown {
		return v, nil
	}
	return map[string]any{"truncated": true, "beginning": string(text[:maxShown])}, nil
}
