// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=get;list;watch

// An Admission says whether the API server keeps the rules that approvals rest on: that nobody can write in somebody else's
// name, nor what only the operator writes.
type Admission interface {
	// Missing says what is not as it was shipped; empty if all is.
	Missing(ctx context.Context) string
	// Watched are the Kinds to watch for that.
	Watched() []client.Object
}

// policies are the admission policies of config/admission, as they are in the cluster.
type policies struct {
	cached  client.Reader
	direct  client.Reader
	self    string
	shipped []*unstructured.Unstructured
}

// NewAdmission makes an Admission that holds what was shipped against the cluster. Cached reads policies, direct reads their
// parameters; self is the operator's user name. What the API server does not serve is left out: without mutating policies,
// people write their own names, which are checked all the same.
func NewAdmission(cached, direct client.Reader, mapper meta.RESTMapper, self string, shipped []*unstructured.Unstructured) (Admission, error) {
	p := &policies{cached: cached, direct: direct, self: self}
	for _, o := range shipped {
		kind := o.GroupVersionKind()
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		switch {
		case meta.IsNoMatchError(err):
		case err != nil:
			return nil, fmt.Errorf("asking whether %s is served: %w", kind.Kind, err)
		default:
			p.shipped = append(p.shipped, o)
		}
	}
	return p, nil
}

// Missing implements Admission.
func (p *policies) Missing(ctx context.Context) string {
	for _, want := range p.shipped {
		if problem := p.compare(ctx, want); problem != "" {
			return fmt.Sprintf("%s %s %s", want.GetKind(), want.GetName(), problem)
		}
	}
	return ""
}

func (p *policies) compare(ctx context.Context, want *unstructured.Unstructured) string {
	if want.GetKind() == "ConfigMap" {
		return p.compareParameters(ctx, want)
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(want.GroupVersionKind())
	err := p.cached.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "can't be read"
	case err != nil:
		return "is not there"
	case !have.GetDeletionTimestamp().IsZero() || !equality.Semantic.DeepEqual(have.Object["spec"], want.Object["spec"]):
		return "is not as it was shipped"
	}
	return ""
}

func (p *policies) compareParameters(ctx context.Context, want *unstructured.Unstructured) string {
	var have corev1.ConfigMap
	if err := p.direct.Get(ctx, client.ObjectKeyFromObject(want), &have); err != nil {
		return "can't be read"
	}
	if have.Data["operator"] != p.self {
		return fmt.Sprintf("names %q as the operator, and this one is %q", have.Data["operator"], p.self)
	}
	return ""
}

// Watched implements Admission.
func (p *policies) Watched() []client.Object {
	seen := map[schema.GroupVersionKind]bool{}
	var kinds []client.Object
	for _, o := range p.shipped {
		kind := o.GroupVersionKind()
		if seen[kind] || kind.Kind == "ConfigMap" {
			continue
		}
		seen[kind] = true
		watched := &unstructured.Unstructured{}
		watched.SetGroupVersionKind(kind)
		kinds = append(kinds, watched)
	}
	return kinds
}
