// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/run"
)

func requiring(name string, from v1alpha1.Risk) v1alpha1.RunPolicy {
	p := policyFor(name, v1alpha1.NamespaceSelector{})
	p.Spec.RequireApproval = &v1alpha1.ApprovalRequirement{FromRisk: from}
	return p
}

func aWriter(risk v1alpha1.Risk, a *v1alpha1.ApprovalPolicy) *v1alpha1.ToolBinding {
	b := &v1alpha1.ToolBinding{}
	b.Name, b.Spec.Effect, b.Spec.Risk, b.Spec.Approval, b.Spec.TimeoutSeconds = "pay", v1alpha1.EffectWrite, risk, a, 30
	return b
}

func TestRulesFor_policiesCanOnlyAddApproval(t *testing.T) {
	never := &v1alpha1.ApprovalPolicy{Policy: v1alpha1.ApprovalNever, Quorum: 1}
	careful := []v1alpha1.RunPolicy{policyFor("another", v1alpha1.NamespaceSelector{}), requiring("critical", v1alpha1.RiskCritical), requiring("high", v1alpha1.RiskHigh)}
	reader := aWriter(v1alpha1.RiskCritical, nil)
	reader.Spec.Effect = v1alpha1.EffectReadOnly
	for name, c := range map[string]struct {
		policies  []v1alpha1.RunPolicy
		binding   *v1alpha1.ToolBinding
		approvals int
		by        string
	}{
		"no policy asks":                           {careful[:1], aWriter(v1alpha1.RiskCritical, never), 0, ""},
		"a risk below each level":                  {careful, aWriter(v1alpha1.RiskMedium, never), 0, ""},
		"a risk at the lowest level":               {careful, aWriter(v1alpha1.RiskHigh, never), 1, "high"},
		"a risk above it":                          {careful, aWriter(v1alpha1.RiskCritical, never), 1, "high"},
		"a risk that nobody has rated":             {careful[:2], aWriter("", never), 1, "critical"},
		"a risk that we can't read":                {careful[:2], aWriter("Mild", never), 1, "critical"},
		"a level that we can't read":               {[]v1alpha1.RunPolicy{requiring("odd", "Severe")}, aWriter(v1alpha1.RiskLow, never), 1, "odd"},
		"a tool that reads":                        {careful, reader, 0, ""},
		"a tool that asks by default":              {careful, aWriter(v1alpha1.RiskHigh, nil), 1, ""},
		"a tool that asks more":                    {careful, aWriter(v1alpha1.RiskHigh, &v1alpha1.ApprovalPolicy{Policy: v1alpha1.ApprovalAlways, Quorum: 3}), 3, ""},
		"a tool that would ask two, and asks none": {careful, aWriter(v1alpha1.RiskHigh, &v1alpha1.ApprovalPolicy{Policy: v1alpha1.ApprovalNever, Quorum: 2}), 2, "high"},
	} {
		t.Run(name, func(t *testing.T) {
			got := rulesFor(c.policies, c.binding)
			if got.Approvals != c.approvals {
				t.Errorf("%d have to approve, want %d", got.Approvals, c.approvals)
			}
			if by := requiredBy(c.policies, c.binding); by != c.by {
				t.Errorf("it is required by %q, want %q", by, c.by)
			}
			// Whatever else there is to a call is the binding's.
			got.Approvals = rulesOf(c.binding).Approvals
			if diff := cmp.Diff(rulesOf(c.binding), got); diff != "" {
				t.Errorf("the other rules differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStricter_isOnlyForCallsThatNobodyWasAskedAbout(t *testing.T) {
	policies := []v1alpha1.RunPolicy{requiring("careful", v1alpha1.RiskHigh)}
	b := aWriter(v1alpha1.RiskCritical, &v1alpha1.ApprovalPolicy{Policy: v1alpha1.ApprovalNever, Quorum: 2})
	want := "RunPolicy careful has people asked before calls that write from the risk High on (spec.requireApproval), and that of the tool is Critical. Make the call again: then they are asked."
	if got := stricter(policies, b, run.Call{Rules: rulesOf(b)}); got != want {
		t.Errorf("it says\n\t%s\nand should say\n\t%s", got, want)
	}
	for name, got := range map[string]string{
		"without a policy":         stricter(nil, b, run.Call{Rules: rulesOf(b)}),
		"with somebody's approval": stricter(policies, b, run.Call{Rules: run.Rules{Write: true, Approvals: 1}}),
	} {
		if got != "" {
			t.Errorf("a call %s is refused: %s", name, got)
		}
	}
}
