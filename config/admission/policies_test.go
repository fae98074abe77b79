// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// selectors are by the name of the namespaces that they must select: those of these are labelled as labelled has it.
var labelled = map[string]map[string]string{
	"red":   {"team": "red", "example.com/tier": "gold"},
	"blue":  {"team": "blue"},
	"plain": nil,
}

func one(key string, operator v1alpha1.SelectorOperator, values ...v1alpha1.LabelValue) v1alpha1.NamespaceSelector {
	return v1alpha1.NamespaceSelector{MatchExpressions: []v1alpha1.SelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

var selectors = map[string]struct {
	selector v1alpha1.NamespaceSelector
	want     string
}{
	"all":             {v1alpha1.NamespaceSelector{}, "blue plain red"},
	"a label":         {v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"team": "red"}}, "red"},
	"two labels":      {v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"team": "red", "example.com/tier": "gold"}}, "red"},
	"a label without": {v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"team": "red", "example.com/tier": "tin"}}, ""},
	"the name":        {v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"kubernetes.io/metadata.name": "plain"}}, "plain"},
	"In":              {one("team", v1alpha1.SelectorIn, "red", "green"), "red"},
	"In many":         {one("team", v1alpha1.SelectorIn, "red", "blue"), "blue red"},
	"NotIn":           {one("team", v1alpha1.SelectorNotIn, "red"), "blue plain"},
	"Exists":          {one("team", v1alpha1.SelectorExists), "blue red"},
	"Exists, with /":  {one("example.com/tier", v1alpha1.SelectorExists), "red"},
	"DoesNotExist":    {one("team", v1alpha1.SelectorDoesNotExist), "plain"},
	"both parts": {v1alpha1.NamespaceSelector{
		MatchLabels: map[string]v1alpha1.LabelValue{"team": "red"}, MatchExpressions: one("example.com/tier", v1alpha1.SelectorDoesNotExist).MatchExpressions,
	}, ""},
}

// limited is a run of a namespace, which a change makes another.
func limited(in string, change ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	r := aRun(change...)
	r.Namespace = in
	return r
}

func refusal(err error) string {
	_, words, ok := strings.Cut(fmt.Sprint(err), "binding 'interlock-run-policies' denied request: ")
	if !ok || !apierrors.IsForbidden(err) {
		return fmt.Sprint(err)
	}
	return words
}

// expect waits for what the API server says of a run: it learns of a policy a while after it has taken it.
func expect(t *testing.T, r *v1alpha1.AgentRun, want string) {
	t.Helper()
	err := until(t.Context(), func(ctx context.Context) error {
		if got := refusal(api.Create(ctx, r.DeepCopy(), client.DryRunAll)); got != want {
			return fmt.Errorf("of the run in %s it says\n\t%s\nand should say\n\t%s", r.Namespace, got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// withPolicy stores a RunPolicy for the length of a test.
func withPolicy(t *testing.T, spec v1alpha1.RunPolicySpec) {
	t.Helper()
	p := &v1alpha1.RunPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Spec: spec}
	if err := api.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gone := func(ctx context.Context) error { return api.Create(ctx, limited("blue", steps(500)), client.DryRunAll) }
		if err := errors.Join(api.Delete(context.Background(), p), until(context.Background(), gone)); err != nil {
			t.Error(err)
		}
	})
}

func steps(n int32) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxSteps = n }
}

func createNamespaces(t *testing.T) {
	t.Helper()
	for name, labels := range labelled {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if err := api.Create(t.Context(), ns); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}

func TestRunPolicies_holdWhereTheySelect(t *testing.T) {
	createNamespaces(t)
	for name, s := range selectors {
		t.Run(name, func(t *testing.T) {
			// A second part of the policy shows when it is known to the API server, even where it selects nothing.
			withPolicy(t, v1alpha1.RunPolicySpec{NamespaceSelector: &s.selector, MaxLimits: &v1alpha1.LimitCeilings{MaxSteps: 10}})
			for _, first := range []bool{true, false} {
				for ns := range labelled {
					switch selected := strings.Contains(s.want, ns); {
					case selected:
						expect(t, limited(ns, steps(11)), "spec.limits.maxSteps is 11, and RunPolicy policy allows at most 10")
					case !first:
						expect(t, limited(ns, steps(11)), "<nil>")
					}
				}
			}
		})
	}
}

func TestRunPolicies_sayWhatIsTooMuch(t *testing.T) {
	createNamespaces(t)
	withPolicy(t, v1alpha1.RunPolicySpec{
		NamespaceSelector: new(one("team", v1alpha1.SelectorIn, "red")), Models: []string{"model", "small"},
		MaxLimits: &v1alpha1.LimitCeilings{
			MaxSteps: 25, DeadlineSeconds: 3600, MaxToolCalls: new(int32(100)), MaxInputTokens: 2_000_000, MaxOutputTokens: 200_000,
			MaxCost: "2.5", MaxRepeats: 5, Parallelism: 4, MaxInvalid: new(int32(10)),
			MaxChildren: new(int32(16)), MaxDepth: new(int32(1)),
		},
	})
	limits := func(change func(*v1alpha1.RunLimits)) func(*v1alpha1.AgentRun) {
		return func(r *v1alpha1.AgentRun) {
			r.Spec.Limits.MaxCost = "2.50"
			change(&r.Spec.Limits)
		}
	}
	for want, change := range map[string]func(*v1alpha1.AgentRun){
		"<nil>": limits(func(*v1alpha1.RunLimits) {}),
		"spec.limits.maxSteps is 26, and RunPolicy policy allows at most 25":                 limits(func(l *v1alpha1.RunLimits) { l.MaxSteps = 26 }),
		"spec.limits.deadlineSeconds is 3601, and RunPolicy policy allows at most 3600":      limits(func(l *v1alpha1.RunLimits) { l.DeadlineSeconds = 3601 }),
		"spec.limits.maxToolCalls is 101, and RunPolicy policy allows at most 100":           limits(func(l *v1alpha1.RunLimits) { l.MaxToolCalls = new(int32(101)) }),
		"spec.limits.maxInputTokens is 2000001, and RunPolicy policy allows at most 2000000": limits(func(l *v1alpha1.RunLimits) { l.MaxInputTokens = 2_000_001 }),
		"spec.limits.maxOutputTokens is 200001, and RunPolicy policy allows at most 200000":  limits(func(l *v1alpha1.RunLimits) { l.MaxOutputTokens = 200_001 }),
		"spec.limits.maxRepeats is 6, and RunPolicy policy allows at most 5":                 limits(func(l *v1alpha1.RunLimits) { l.MaxRepeats = 6 }),
		"spec.limits.parallelism is 5, and RunPolicy policy allows at most 4":                limits(func(l *v1alpha1.RunLimits) { l.Parallelism = 5 }),
		"spec.limits.maxInvalid is 11, and RunPolicy policy allows at most 10":               limits(func(l *v1alpha1.RunLimits) { l.MaxInvalid = new(int32(11)) }),
		"spec.limits.maxChildren is 17, and RunPolicy policy allows at most 16":              limits(func(l *v1alpha1.RunLimits) { l.MaxChildren = new(int32(17)) }),
		"spec.limits.maxDepth is 2, and RunPolicy policy allows at most 1":                   limits(func(l *v1alpha1.RunLimits) { l.MaxDepth = new(int32(2)) }),
		// As words, 10 would be below 2.5.
		"spec.limits.maxCost is 10, and RunPolicy policy allows at most 2.5":              limits(func(l *v1alpha1.RunLimits) { l.MaxCost = "10" }),
		"spec.limits.maxCost is not set, and RunPolicy policy allows at most 2.5: set it": limits(func(l *v1alpha1.RunLimits) { l.MaxCost = "" }),
		"spec.model names large, and RunPolicy policy allows only: model, small": func(r *v1alpha1.AgentRun) {
			r.Spec.Model.Name, r.Spec.Limits.MaxCost = "large", "1"
		},
		"spec.model names huge, and RunPolicy policy allows only: model, small": func(r *v1alpha1.AgentRun) {
			costsRouted("model", "huge", "small")(r)
		},
		"spec.model names judge, and RunPolicy policy allows only: model, small": func(r *v1alpha1.AgentRun) {
			costsRouted("model", "small")(r)
			r.Spec.Model.Router.Chooser = "judge"
		},
	} {
		t.Run(want, func(t *testing.T) { expect(t, limited("red", change), want) })
	}
}
