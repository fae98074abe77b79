// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=get;list;watch

// An Admission says whether the API server keeps the rules that approvals rest on: that nobody can write in somebody else's
// name, nor what only the operator writes.
type Admission interface {
	// Missing says what is not as it was shipped; empty if all is.
	Missing(ctx context.Context) string
	// Since is from when on all has been as it was shipped, as far as can be known: what was written before, anybody may have
	// written. It is of use when Missing says nothing.
	Since() time.Time
	// Watched are the Kinds to watch for that.
	Watched() []client.Object
}

// policies are the admission policies of config/admission, as they are in the cluster.
type policies struct {
	cached  client.Reader
	direct  client.Reader
	self    string
	clock   clock.PassiveClock
	shipped []*unstructured.Unstructured

	mu sync.Mutex
	// seen names the versions of all that was looked at last; empty before the first look, and broken while something is missing.
	seen  string
	since time.Time
}

// broken stands for versions that were not all as shipped.
const broken = "broken"

// NewAdmission makes an Admission that holds what was shipped against the cluster. Cached reads policies, direct reads their
// parameters; self is the operator's user name. What the API server does not serve is left out: without mutating policies,
// people write their own names, which are checked all the same.
func NewAdmission(cached, direct client.Reader, mapper meta.RESTMapper, self string, now clock.PassiveClock, shipped []*unstructured.Unstructured) (Admission, error) {
	p := &policies{cached: cached, direct: direct, self: self, clock: now}
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
	var versions strings.Builder
	for _, want := range p.shipped {
		have, problem := p.compare(ctx, want)
		if problem != "" {
			p.note(broken, p.clock.Now())
			return fmt.Sprintf("%s %s %s", want.GetKind(), want.GetName(), problem)
		}
		fmt.Fprintf(&versions, "%s/%d ", have.GetUID(), have.GetGeneration())
	}
	if p.isNew(versions.String()) {
		changed, err := p.changed(ctx)
		if err != nil {
			return "the admission policies can't be read"
		}
		p.note(versions.String(), changed)
	}
	return ""
}

func (p *policies) isNew(versions string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return versions != p.seen
}

// note remembers what was seen, and when the last of it was changed: from the next second on, it has been as it is.
func (p *policies) note(versions string, changed time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.since = versions, changed.Truncate(time.Second).Add(time.Second)
}

// changed is when any of what was shipped was changed last, by whomever. The cache keeps no such times.
func (p *policies) changed(ctx context.Context) (time.Time, error) {
	var last time.Time
	for _, shipped := range p.shipped {
		have := &metav1.PartialObjectMetadata{}
		have.SetGroupVersionKind(shipped.GroupVersionKind())
		if err := p.direct.Get(ctx, client.ObjectKeyFromObject(shipped), have); err != nil {
			return time.Time{}, fmt.Errorf("reading %s %s: %w", shipped.GetKind(), shipped.GetName(), err)
		}
		times := []time.Time{have.CreationTimestamp.Time}
		for _, entry := range have.ManagedFields {
			if entry.Time != nil && entry.Subresource == "" {
				times = append(times, entry.Time.Time)
			}
		}
		for _, t := range times {
			if t.After(last) {
				last = t
			}
		}
	}
	return last, nil
}

// Since implements Admission.
func (p *policies) Since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

func (p *policies) compare(ctx context.Context, want *unstructured.Unstructured) (have client.Object, problem string) {
	if want.GetKind() == "ConfigMap" {
		return p.compareParameters(ctx, want)
	}
	return p.comparePolicy(ctx, want)
}

func (p *policies) comparePolicy(ctx context.Context, want *unstructured.Unstructured) (client.Object, string) {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(want.GroupVersionKind())
	err := p.cached.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, "can't be read"
	case err != nil:
		return nil, "is not there"
	case !have.GetDeletionTimestamp().IsZero() || !equality.Semantic.DeepEqual(have.Object["spec"], want.Object["spec"]):
		return nil, "is not as it was shipped"
	}
	return have, ""
}

func (p *policies) compareParameters(ctx context.Context, want *unstructured.Unstructured) (client.Object, string) {
	have := &corev1.ConfigMap{}
	if err := p.direct.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return nil, "can't be read"
	}
	if have.Data["operator"] != p.self {
		return nil, fmt.Sprintf("names %q as the operator, and this one is %q", have.Data["operator"], p.self)
	}
	return have, ""
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
