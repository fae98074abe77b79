// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/interlock-dev/interlock/config/admission"
)

// The operator holds what is in the cluster against what it was shipped with: what the API server filled in would be a
// difference.
func TestObjects_comeBackAsTheyWereShipped(t *testing.T) {
	shipped, err := admission.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range shipped {
		t.Run(want.GetKind()+" "+want.GetName(), func(t *testing.T) {
			got := &unstructured.Unstructured{}
			got.SetGroupVersionKind(want.GroupVersionKind())
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"spec", "data"} {
				if diff := cmp.Diff(want.Object[part], got.Object[part]); diff != "" {
					t.Errorf("the %s in the cluster (+) is not what was shipped (-):\n%s", part, diff)
				}
			}
		})
	}
}

// A policy that is applied and not in the binary would never be missed, and the other way round never be there.
func TestObjects_areWhatKustomizeApplies(t *testing.T) {
	text, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct{ Resources []string }
	if err := yaml.UnmarshalStrict(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sorted(files), sorted(append(kustomization.Resources, "kustomization.yaml"))); diff != "" {
		t.Errorf("kustomization.yaml (+) does not have the files of the folder (-):\n%s", diff)
	}
	shipped, err := admission.Objects()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range shipped {
		got = append(got, o.GetKind()+" "+o.GetName())
	}
	want := []string{"ConfigMap interlock-admission"}
	for _, name := range []string{"interlock-stamp-approvals", "interlock-stamp-runs"} {
		want = append(want, "MutatingAdmissionPolicy "+name, "MutatingAdmissionPolicyBinding "+name)
	}
	for _, name := range []string{"interlock-approvals", "interlock-finalizers", "interlock-prices", "interlock-run-policies", "interlock-runs", "interlock-secrets", "interlock-tokens", "interlock-written-by-operator"} {
		want = append(want, "ValidatingAdmissionPolicy "+name, "ValidatingAdmissionPolicyBinding "+name)
	}
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("the binary (+) does not have what is documented (-):\n%s", diff)
	}
}
