// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reads and changes Kubernetes objects as somebody: every request carries the principal of the run, so that
// plain RBAC bounds what an agent can do. It keeps nothing, and knows nothing of operations. The main type is Cluster.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// A Cluster makes clients that act as somebody else. It is safe for concurrent use.
type Cluster struct {
	config     *rest.Config
	mapper     meta.RESTMapper
	namespaces []string
}

// All stands for all namespaces.
const All = "*"

// New makes a Cluster whose own identity is that of config, which must be allowed to impersonate. Only objects in the given
// namespaces are served.
func New(config *rest.Config, mapper meta.RESTMapper, namespaces []string) *Cluster {
	return &Cluster{config, mapper, namespaces}
}

// A Target is one object.
type Target struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid,omitempty"`
}

// String names the object for people.
func (t Target) String() string { return t.Kind + " " + t.Namespace + "/" + t.Name }

// An As is a Cluster seen by one principal.
type As struct {
	cluster   *Cluster
	principal string
	dynamic   dynamic.Interface
	client    kubernetes.Interface
}

// serviceAccount is how the API server calls a ServiceAccount.
const serviceAccount = "system:serviceaccount:"

// As gives the cluster as a principal sees it. Only ServiceAccounts are impersonated: a token never says otherwise.
func (c *Cluster) As(principal string) (*As, error) {
	account, ok := strings.CutPrefix(principal, serviceAccount)
	if !ok || strings.Count(account, ":") != 1 {
		return nil, tool.Errorf(tool.Unauthenticated, "the caller is no ServiceAccount")
	}
	config := rest.CopyConfig(c.config)
	// The groups of a ServiceAccount follow from its name, and the API server adds them.
	config.Impersonate = rest.ImpersonationConfig{UserName: principal}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &As{c, principal, d, k}, nil
}

// resource finds how a Kind is called in paths. What is not in a namespace is not served.
func (a *As) resource(apiVersion, kind, namespace string) (dynamic.ResourceInterface, error) {
	if !slices.Contains(a.cluster.namespaces, All) && !slices.Contains(a.cluster.namespaces, namespace) {
		return nil, tool.Errorf(tool.Forbidden, "the namespace %s is not served here", namespace)
	}
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, tool.Errorf(tool.InvalidArguments, "at /apiVersion: it is to be like v1 or apps/v1")
	}
	mapping, err := a.cluster.mapper.RESTMapping(schema.GroupKind{Group: version.Group, Kind: kind}, version.Version)
	switch {
	case meta.IsNoMatchError(err):
		return nil, tool.Errorf(tool.NotFound, "the cluster has no %s %s", apiVersion, kind)
	case err != nil:
		return nil, fmt.Errorf("asking for the Kind: %w", err)
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return nil, tool.Errorf(tool.Forbidden, "a %s is in no namespace, and those are not served here", kind)
	}
	return a.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// Get reads an object.
func (a *As) Get(ctx context.Context, t Target) (*unstructured.Unstructured, error) {
	r, err := a.resource(t.APIVersion, t.Kind, t.Namespace)
	if err != nil {
		return nil, err
	}
	o, err := r.Get(ctx, t.Name, metav1.GetOptions{})
	return o, refusalOf(err)
}

// Patch changes an object, or only tries to. The patch carries the resource version that it was made for.
func (a *As) Patch(ctx context.Context, t Target, kind types.PatchType, patch []byte, try bool) (*unstructured.Unstructured, error) {
	r, err := a.resource(t.APIVersion, t.Kind, t.Namespace)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: "interlock-kube", FieldValidation: metav1.FieldValidationStrict}
	if try {
		options.DryRun = []string{metav1.DryRunAll}
	}
	o, err := r.Patch(ctx, t.Name, kind, patch, options)
	return o, refusalOf(err)
}

// Delete deletes an object if it is still the one of that UID and version, or only tries to.
func (a *As) Delete(ctx context.Context, t Target, resourceVersion string, try bool) error {
	r, err := a.resource(t.APIVersion, t.Kind, t.Namespace)
	if err != nil {
		return err
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &t.UID, ResourceVersion: &resourceVersion}}
	if try {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return refusalOf(r.Delete(ctx, t.Name, options))
}

// refusalOf sorts what the API server says no with. What it says is about the caller's own request, and safe to be shown.
func refusalOf(err error) error {
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) {
		return err
	}
	message := status.Status().Message
	switch {
	case apierrors.IsForbidden(err):
		return tool.Errorf(tool.Forbidden, "%s", message)
	case apierrors.IsNotFound(err):
		return tool.Errorf(tool.NotFound, "%s", message)
	case apierrors.IsConflict(err):
		return tool.Errorf(tool.ResourceChanged, "%s", message)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return tool.Errorf(tool.InvalidArguments, "%s", message)
	case apierrors.IsTooManyRequests(err):
		return tool.Errorf(tool.Overloaded, "the API server asks to come back later")
	}
	return err
}
