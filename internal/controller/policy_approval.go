// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"slices"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/run"
)

// codePolicyStricter is the code of a call that was let through without asking anybody, before a RunPolicy asked for approval.
const codePolicyStricter = "PolicyStricter"

// risks are in order.
var risks = []v1alpha1.Risk{v1alpha1.RiskLow, v1alpha1.RiskMedium, v1alpha1.RiskHigh, v1alpha1.RiskCritical}

// riskOf is the risk of a tool. What nobody has rated, and what we can't read, is the highest.
func riskOf(b *v1alpha1.ToolBinding) v1alpha1.Risk {
	if !slices.Contains(risks, b.Spec.Risk) {
		return v1alpha1.RiskCritical
	}
	return b.Spec.Risk
}

// strictest gives the policy that asks for approval from the lowest risk on, the first of them by name; nil if none asks. A level
// that we can't read is below all others.
func strictest(policies []v1alpha1.RunPolicy) (p *v1alpha1.RunPolicy, from int) {
	for i := range policies {
		if a := policies[i].Spec.RequireApproval; a != nil && (p == nil || slices.Index(risks, a.FromRisk) < from) {
			p, from = &policies[i], slices.Index(risks, a.FromRisk)
		}
	}
	return p, from
}

// approvalFor gives the policy that has people asked before a call of b; nil if none does, or if the binding does already.
func approvalFor(policies []v1alpha1.RunPolicy, b *v1alpha1.ToolBinding) *v1alpha1.RunPolicy {
	p, from := strictest(policies)
	if p == nil || b.Spec.Effect != v1alpha1.EffectWrite || rulesOf(b).Approvals > 0 || slices.Index(risks, riskOf(b)) < from {
		return nil
	}
	return p
}

// rulesFor gives what a binding, and the policies of the namespace, ask of a call.
func rulesFor(policies []v1alpha1.RunPolicy, b *v1alpha1.ToolBinding) run.Rules {
	rules := rulesOf(b)
	if approvalFor(policies, b) == nil {
		return rules
	}
	rules.Approvals = 1
	if a := b.Spec.Approval; a != nil {
		rules.Approvals = max(int(a.Quorum), 1)
	}
	return rules
}

// stricter says why a call that was let through without asking anybody may not be sent any more; empty if it may. Whoever has
// approved a call has approved it, whatever the policies have become.
func stricter(policies []v1alpha1.RunPolicy, b *v1alpha1.ToolBinding, c run.Call) string {
	p := approvalFor(policies, b)
	if p == nil || c.Rules.Approvals > 0 {
		return ""
	}
	return fmt.Sprintf("RunPolicy %s has people asked before calls that write from the risk %s on (spec.requireApproval), and that of the tool is %s. Make the call again: then they are asked.",
		p.Name, p.Spec.RequireApproval.FromRisk, riskOf(b))
}

// requiredBy names the policy that has people asked about a call; empty if its binding does.
func requiredBy(policies []v1alpha1.RunPolicy, b *v1alpha1.ToolBinding) string {
	if p := approvalFor(policies, b); p != nil {
		return p.Name
	}
	return ""
}

// refusedCalls gives, for each call that the pass has refused since a policy had become stricter, what is counted.
func (p *pass) refusedCalls() []*policyRefusal {
	var refused []*policyRefusal
	for _, c := range p.after.Calls {
		if before, _ := p.before.Call(c.ID); c.Code != codePolicyStricter || !c.Done() || before.Done() {
			continue
		}
		if by, _ := strictest(p.policies); by != nil {
			refused = append(refused, &policyRefusal{policy: by.Name, detail: codePolicyStricter})
		}
	}
	return refused
}
