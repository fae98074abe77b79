// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func aPolicy() *v1alpha1.RunPolicy {
	return &v1alpha1.RunPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Spec:       v1alpha1.RunPolicySpec{NamespaceSelector: &v1alpha1.NamespaceSelector{}},
	}
}

const (
	wantPolicyName = ": the name of a RunPolicy has at most 63 of a-z, 0-9 and '-', without dots"
	wantLabelValue = ": each value must be that of a label: at most 63 of letters, digits, '-', '_' and '.', with a letter or digit at both ends"
	wantValues     = "spec.namespaceSelector.matchExpressions[0]: values are required for the operators In and NotIn, and only there"
)

func labelled(key, value string) func(*v1alpha1.RunPolicy) {
	return func(p *v1alpha1.RunPolicy) {
		p.Spec.NamespaceSelector.MatchLabels = map[string]v1alpha1.LabelValue{key: v1alpha1.LabelValue(value)}
	}
}

func expressed(key string, operator v1alpha1.SelectorOperator, values ...v1alpha1.LabelValue) func(*v1alpha1.RunPolicy) {
	return func(p *v1alpha1.RunPolicy) {
		p.Spec.NamespaceSelector.MatchExpressions = []v1alpha1.SelectorRequirement{{Key: key, Operator: operator, Values: values}}
	}
}

var runPolicyCreates = table[*v1alpha1.RunPolicy]{
	"it selects all":       {mutate: func(*v1alpha1.RunPolicy) {}},
	"it selects nothing":   {mutate: func(p *v1alpha1.RunPolicy) { p.Spec.NamespaceSelector = nil }, wantErrors: []string{"spec: Required value"}},
	"its name has a dot":   {mutate: func(p *v1alpha1.RunPolicy) { p.Name = "policy.1" }, wantErrors: []string{wantPolicyName}},
	"its name is too long": {mutate: func(p *v1alpha1.RunPolicy) { p.Name = strings.Repeat("x", 64) }, wantErrors: []string{wantPolicyName}},

	"it selects by a label of ours":          {mutate: labelled("team", "support")},
	"it selects by a label of Kubernetes":    {mutate: labelled("kubernetes.io/metadata.name", "n")},
	"it selects by a label without a value":  {mutate: labelled("team", "")},
	"it selects by what is no label":         {mutate: labelled("a b", "x"), wantErrors: []string{"spec.namespaceSelector.matchLabels: each key must be the name of a label, such as team or example.com/team"}},
	"it selects by what no label can be":     {mutate: labelled("team", "-"), wantErrors: []string{"spec.namespaceSelector.matchLabels" + wantLabelValue}},
	"a label is one of some":                 {mutate: expressed("team", v1alpha1.SelectorIn, "a", "b")},
	"a label is none of some":                {mutate: expressed("team", v1alpha1.SelectorNotIn, "a", "")},
	"a label is there":                       {mutate: expressed("team", v1alpha1.SelectorExists)},
	"a label is not there":                   {mutate: expressed("team", v1alpha1.SelectorDoesNotExist)},
	"a label is one of none":                 {mutate: expressed("team", v1alpha1.SelectorIn), wantErrors: []string{wantValues}},
	"a label is none of none":                {mutate: expressed("team", v1alpha1.SelectorNotIn), wantErrors: []string{wantValues}},
	"a label is there, with values":          {mutate: expressed("team", v1alpha1.SelectorExists, "a"), wantErrors: []string{wantValues}},
	"a label is not there, with values":      {mutate: expressed("team", v1alpha1.SelectorDoesNotExist, "a"), wantErrors: []string{wantValues}},
	"an expression is of what is no label":   {mutate: expressed("a b", v1alpha1.SelectorExists), wantErrors: []string{"spec.namespaceSelector.matchExpressions[0].key: key must be the name of a label, such as team or example.com/team"}},
	"an expression has what no label can be": {mutate: expressed("team", v1alpha1.SelectorIn, "a b"), wantErrors: []string{"spec.namespaceSelector.matchExpressions[0].values" + wantLabelValue}},
	"there are too many labels": {
		mutate: func(p *v1alpha1.RunPolicy) {
			p.Spec.NamespaceSelector.MatchLabels = map[string]v1alpha1.LabelValue{}
			for i := range 17 {
				p.Spec.NamespaceSelector.MatchLabels[fmt.Sprintf("l%d", i)] = "x"
			}
		},
		wantErrors: []string{"spec.namespaceSelector.matchLabels: Too many: 17: must have at most 16 items"},
	},
	"the value of a label is too long": {
		mutate:     labelled("team", strings.Repeat("x", 64)),
		wantErrors: []string{"spec.namespaceSelector.matchLabels.team: Too long"},
	},
	"no cost is allowed": {
		mutate:     func(p *v1alpha1.RunPolicy) { p.Spec.MaxLimits = &v1alpha1.LimitCeilings{MaxCost: "0.00"} },
		wantErrors: []string{"spec.maxLimits.maxCost: maxCost must be above 0: to let no run begin, set suspend"},
	},
	"a model is named twice": {
		mutate:     func(p *v1alpha1.RunPolicy) { p.Spec.Models = []string{"large", "large"} },
		wantErrors: []string{`spec.models[1]: Duplicate value: "large"`},
	},
}

func TestRunPolicy_create(t *testing.T) { checkCreate(t, aPolicy, runPolicyCreates) }

func TestRunPolicy_canBeChanged(t *testing.T) {
	checkUpdate(t, aPolicy, table[*v1alpha1.RunPolicy]{
		"whom it selects": {mutate: labelled("team", "support")},
		"the switch":      {mutate: func(p *v1alpha1.RunPolicy) { p.Spec.Suspend = true }},
	})
}

// What is misspelt would be no limit.
func TestRunPolicy_unknownFieldsAreRefused(t *testing.T) {
	for path, where := range map[string]string{"spec": "spec.maxCosts", "spec.maxLimits": "spec.maxLimits.maxCosts", "spec.namespaceSelector": "spec.namespaceSelector.maxCosts"} {
		o := changed(t, []*unstructured.Unstructured{read(t, "runpolicy.yaml")}, path, withField("maxCosts", "x"))
		check(t, api.Create(t.Context(), o, client.DryRunAll), []string{`unknown field "` + where + `"`})
	}
}
