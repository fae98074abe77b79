// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission_test puts the admission policies to a real API server: whom they refuse what, with which words, and that
// they keep nobody from what is theirs to do.
package admission_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/config/admission"
)

// namespace is where people have their rights, and where all objects are.
const namespace = "admission"

const (
	operator         = "system:serviceaccount:interlock-system:interlock-operator"
	garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// A person is somebody who calls the API server.
type person struct {
	// roles are ClusterRoles of config/rbac, bound in the namespace; rules are what they may do there beyond those.
	roles []string
	rules []rbacv1.PolicyRule
}

// people are by user name. The garbage collector has its rights from the API server.
var people = map[string]person{
	"approver": {roles: []string{"interlock-approver"}},
	"editor":   {roles: []string{"interlock-viewer", "interlock-editor"}},
	"binder":   {roles: []string{"interlock-admin"}},
	// These may create, and have no right to what they name; or to one of it only.
	"stranger": {rules: []rbacv1.PolicyRule{may("create", "approvals", "agentruns")}},
	"clerk": {rules: []rbacv1.PolicyRule{
		may("create", "approvals", "agentruns"), named(may("approve", "toolbindings"), "refund"),
		named(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"use"}}, "agent"),
	}},
	"keeper": {roles: []string{"interlock-admin"}, rules: []rbacv1.PolicyRule{
		named(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}, "model-key"),
	}},
	// Server-side apply needs the verb patch, whatever is applied.
	"syncer": {roles: []string{"interlock-approver", "interlock-editor", "interlock-viewer"}, rules: []rbacv1.PolicyRule{may("patch", "approvals")}},
	"owner":  {rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}},
	operator: {roles: []string{"interlock-operator"}},
}

func may(verb string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: resources, Verbs: []string{verb}}
}

func named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

// api is a client that may do anything, but for what the policies refuse even to it.
var api client.Client

var (
	config *rest.Config
	scheme = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	os.Exit(withControlPlane(m))
}

func withControlPlane(m *testing.M) int {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "These tests need an API server, and KUBEBUILDER_ASSETS says of none: run `make test-api`.")
		return 1
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	var err error
	config, err = env.Start()
	defer func() { _ = env.Stop() }()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server, or giving it the CRDs:", err)
		return 1
	}
	if err := prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "preparing the API server:", err)
		return 1
	}
	return m.Run()
}

// prepare stores what all tests share: people's rights, then some objects, then the policies.
func prepare(ctx context.Context) error {
	config.QPS = -1
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if api, err = clientOf(config); err != nil {
		return err
	}
	for _, name := range []string{namespace, "interlock-system"} {
		if err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for name, p := range people {
		if err := grant(ctx, name, p); err != nil {
			return fmt.Errorf("granting rights to %s: %w", name, err)
		}
	}
	for _, o := range stored() {
		if err := api.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %s: %w", o.GetName(), err)
		}
	}
	policies, err := admission.Objects()
	if err != nil {
		return err
	}
	for _, o := range policies {
		if err := api.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return inForce(ctx)
}

// clientOf refuses unknown and repeated fields, as kubectl does.
func clientOf(c *rest.Config) (client.Client, error) {
	return client.New(c, client.Options{Scheme: scheme, FieldValidation: metav1.FieldValidationStrict})
}

// as gives a client of somebody.
func as(name string) (client.Client, error) {
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{UserName: name}
	return clientOf(c)
}

// grant binds somebody's roles, and waits until the API server knows: it learns of roles a moment after it has taken them.
func grant(ctx context.Context, name string, p person) error {
	own := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test:" + name}, Rules: p.rules}
	roles := []*rbacv1.ClusterRole{own}
	for _, r := range p.roles {
		role, err := shippedRole(r)
		if err != nil {
			return err
		}
		roles = append(roles, role)
	}
	for _, role := range roles {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + ":" + role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		}
		if err := errors.Join(client.IgnoreAlreadyExists(api.Create(ctx, role)), api.Create(ctx, binding)); err != nil {
			return err
		}
		for _, rule := range role.Rules {
			if err := until(ctx, func(ctx context.Context) error { return allowed(ctx, name, rule) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// shippedRole reads a ClusterRole of config/rbac.
func shippedRole(name string) (*rbacv1.ClusterRole, error) {
	file := "role.yaml"
	if name != "interlock-operator" {
		file = strings.ReplaceAll(strings.TrimPrefix(name, "interlock-"), "-", "_") + "_role.yaml"
	}
	text, err := os.ReadFile(filepath.Join("..", "rbac", file))
	if err != nil {
		return nil, err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(text, role); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	if role.Name != name {
		return nil, fmt.Errorf("%s has the ClusterRole %s, not %s", file, role.Name, name)
	}
	return role, nil
}

// allowed is an error unless somebody may do the first thing that a rule allows.
func allowed(ctx context.Context, name string, rule rbacv1.PolicyRule) error {
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: name,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
			Name: strings.Join(rule.ResourceNames, ""),
		},
	}}
	if err := api.Create(ctx, review); err != nil {
		return err
	}
	if !review.Status.Allowed {
		return fmt.Errorf("%s may not %s %s", name, rule.Verbs[0], rule.Resources[0])
	}
	return nil
}

// inForce waits until each policy does what it is there for, which is a while after the API server has taken it.
func inForce(ctx context.Context) error {
	for _, name := range probes {
		if err := until(ctx, rows[name].check); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for who, text := range manifests {
		c, err := as(who)
		if err != nil {
			return err
		}
		err = until(ctx, func(ctx context.Context) error {
			o := parse(text)
			if err := c.Create(ctx, o, client.DryRunAll); err != nil {
				return err
			}
			if stamp(o) == "" {
				return fmt.Errorf("a %s is not stamped", o.GetKind())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// until tries until there is no error, for half a minute; then it gives the last one.
func until(ctx context.Context, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// sorted gives the items of a list in order.
func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
