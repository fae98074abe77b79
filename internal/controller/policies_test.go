// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func policyFor(name string, s v1alpha1.NamespaceSelector) v1alpha1.RunPolicy {
	return v1alpha1.RunPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RunPolicySpec{NamespaceSelector: &s}}
}

func expressing(key string, operator v1alpha1.SelectorOperator, values ...v1alpha1.LabelValue) v1alpha1.NamespaceSelector {
	return v1alpha1.NamespaceSelector{MatchExpressions: []v1alpha1.SelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func TestSelecting_asSelectorsDoEverywhere(t *testing.T) {
	policies := []v1alpha1.RunPolicy{
		policyFor("in", expressing("team", v1alpha1.SelectorIn, "red", "green")),
		policyFor("not-in", expressing("team", v1alpha1.SelectorNotIn, "red")),
		policyFor("exists", expressing("team", v1alpha1.SelectorExists)),
		policyFor("absent", expressing("team", v1alpha1.SelectorDoesNotExist)),
		policyFor("tier", expressing("example.com/tier", v1alpha1.SelectorExists)),
		policyFor("label", v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"team": "red"}}),
		policyFor("all", v1alpha1.NamespaceSelector{}),
	}
	for name, c := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"a namespace with the label":           {map[string]string{"team": "red"}, "all exists in label"},
		"a namespace with another value":       {map[string]string{"team": "blue"}, "all exists not-in"},
		"a namespace without labels":           {nil, "absent all not-in"},
		"a namespace with another label":       {map[string]string{"tier": "red"}, "absent all not-in"},
		"a namespace with a label of a domain": {map[string]string{"example.com/tier": ""}, "absent all not-in tier"},
		"a namespace with one of the values":   {map[string]string{"team": "green"}, "all exists in not-in"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range selecting(policies, c.labels) {
				got = append(got, p.Name)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("the policies that hold differ (-want +got):\n%s", diff)
			}
		})
	}
}

// The API server takes no such selector; if one is there all the same, it must not be read as one that selects nothing.
func TestSelecting_whatCannotBeReadHoldsEverywhere(t *testing.T) {
	unreadable := policyFor("p", expressing("team", "Maybe"))
	missing := policyFor("p", v1alpha1.NamespaceSelector{})
	missing.Spec.NamespaceSelector = nil
	for _, p := range []v1alpha1.RunPolicy{unreadable, missing} {
		if got := selecting([]v1alpha1.RunPolicy{p}, nil); len(got) != 1 {
			t.Errorf("a policy with the selector %v holds in %d of 1 namespaces", p.Spec.NamespaceSelector, len(got))
		}
	}
}

func aSpec(change ...func(*v1alpha1.RunLimits)) v1alpha1.AgentRunSpec {
	s := v1alpha1.AgentRunSpec{Model: v1alpha1.ModelSelection{Name: "large"}, Limits: v1alpha1.RunLimits{
		MaxSteps: 25, DeadlineSeconds: 3600, MaxToolCalls: new(int32(100)), MaxInputTokens: 2_000_000, MaxOutputTokens: 200_000,
		MaxCost: "2.50", MaxRepeats: 5, Parallelism: 4, MaxInvalid: new(int32(10)),
		MaxChildren: new(int32(16)), MaxDepth: new(int32(1)),
	}}
	for _, c := range change {
		c(&s.Limits)
	}
	return s
}

// These are the words of config/admission/policies_test.go.
func TestRefusedBy_saysWhatIsTooMuch(t *testing.T) {
	p := policyFor("policy", v1alpha1.NamespaceSelector{})
	p.Spec.MaxLimits = &v1alpha1.LimitCeilings{
		MaxSteps: 25, DeadlineSeconds: 3600, MaxToolCalls: new(int32(100)), MaxInputTokens: 2_000_000, MaxOutputTokens: 200_000,
		MaxCost: "2.5", MaxRepeats: 5, Parallelism: 4, MaxInvalid: new(int32(10)),
		MaxChildren: new(int32(16)), MaxDepth: new(int32(1)),
	}
	none := p
	none.Spec.MaxLimits = &v1alpha1.LimitCeilings{MaxToolCalls: new(int32(0)), MaxInvalid: new(int32(0))}
	for want, c := range map[string]struct {
		policy v1alpha1.RunPolicy
		change func(*v1alpha1.RunLimits)
	}{
		"": {p, func(*v1alpha1.RunLimits) {}},
		"spec.limits.maxSteps is 26, and RunPolicy policy allows at most 25":                 {p, func(l *v1alpha1.RunLimits) { l.MaxSteps = 26 }},
		"spec.limits.deadlineSeconds is 3601, and RunPolicy policy allows at most 3600":      {p, func(l *v1alpha1.RunLimits) { l.DeadlineSeconds = 3601 }},
		"spec.limits.maxToolCalls is 101, and RunPolicy policy allows at most 100":           {p, func(l *v1alpha1.RunLimits) { l.MaxToolCalls = new(int32(101)) }},
		"spec.limits.maxInputTokens is 2000001, and RunPolicy policy allows at most 2000000": {p, func(l *v1alpha1.RunLimits) { l.MaxInputTokens = 2_000_001 }},
		"spec.limits.maxOutputTokens is 200001, and RunPolicy policy allows at most 200000":  {p, func(l *v1alpha1.RunLimits) { l.MaxOutputTokens = 200_001 }},
		"spec.limits.maxRepeats is 6, and RunPolicy policy allows at most 5":                 {p, func(l *v1alpha1.RunLimits) { l.MaxRepeats = 6 }},
		"spec.limits.parallelism is 5, and RunPolicy policy allows at most 4":                {p, func(l *v1alpha1.RunLimits) { l.Parallelism = 5 }},
		"spec.limits.maxInvalid is 11, and RunPolicy policy allows at most 10":               {p, func(l *v1alpha1.RunLimits) { l.MaxInvalid = new(int32(11)) }},
		"spec.limits.maxChildren is 17, and RunPolicy policy allows at most 16":              {p, func(l *v1alpha1.RunLimits) { l.MaxChildren = new(int32(17)) }},
		"spec.limits.maxDepth is 2, and RunPolicy policy allows at most 1":                   {p, func(l *v1alpha1.RunLimits) { l.MaxDepth = new(int32(2)) }},
		"spec.limits.maxCost is 10, and RunPolicy policy allows at most 2.5":                 {p, func(l *v1alpha1.RunLimits) { l.MaxCost = "10" }},
		"spec.limits.maxCost is not set, and RunPolicy policy allows at most 2.5: set it":    {p, func(l *v1alpha1.RunLimits) { l.MaxCost = "" }},
		"spec.limits.maxToolCalls is 1, and RunPolicy policy allows at most 0":               {none, func(l *v1alpha1.RunLimits) { l.MaxToolCalls = new(int32(1)) }},
		"spec.limits.maxInvalid is 1, and RunPolicy policy allows at most 0": {none, func(l *v1alpha1.RunLimits) {
			l.MaxToolCalls, l.MaxInvalid = new(int32(0)), new(int32(1))
		}},
	} {
		t.Run(want, func(t *testing.T) {
			got := ""
			if r := refusedBy([]v1alpha1.RunPolicy{policyFor("another", v1alpha1.NamespaceSelector{}), c.policy}, aSpec(c.change)); r != nil {
				got = r.message
				if r.detail != detailAbovePolicy || r.policy != "policy" {
					t.Errorf("it is refused by %s with %s", r.policy, r.detail)
				}
			}
			if got != want {
				t.Errorf("it says\n\t%s\nand should say\n\t%s", got, want)
			}
		})
	}
}

func TestRefusedBy_namesTheModelsThatAreAllowed(t *testing.T) {
	p := policyFor("policy", v1alpha1.NamespaceSelector{})
	p.Spec.Models = []string{"model", "small"}
	want := &policyRefusal{"policy", detailModelNotAllowed, "spec.model names large, and RunPolicy policy allows only: model, small"}
	if diff := cmp.Diff(want, refusedBy([]v1alpha1.RunPolicy{p}, aSpec()), cmp.AllowUnexported(policyRefusal{})); diff != "" {
		t.Errorf("the refusal differs (-want +got):\n%s", diff)
	}
	p.Spec.Models = append(p.Spec.Models, "large")
	if r := refusedBy([]v1alpha1.RunPolicy{p}, aSpec()); r != nil {
		t.Errorf("a model that is allowed is refused: %s", r.message)
	}
}
