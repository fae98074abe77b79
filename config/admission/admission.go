// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission holds the admission policies that Interlock is shipped with, so that the operator can tell whether they are
// in the cluster as they are here. It holds data and nothing else.
package admission

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed approvals.yaml operator.yaml policies.yaml prices.yaml runs.yaml secrets.yaml stamp.yaml
var files embed.FS

// Objects gives the policies, their bindings and their parameters.
func Objects() ([]*unstructured.Unstructured, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("listing the policies: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
		for {
			o := &unstructured.Unstructured{}
			if err := decoder.Decode(o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("parsing %s: %w", entry.Name(), err)
			}
			// A comment at the top is a document of its own.
			if len(o.Object) > 0 {
				all = append(all, o)
			}
		}
	}
	return all, nil
}
