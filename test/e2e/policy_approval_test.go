// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// holdingOnce has the bank hold the first request of one kind until leave is closed. Arrived is closed when it is there.
func (b *bank) holdingOnce(verb string) (arrived, leave chan struct{}) {
	arrived, leave = make(chan struct{}), make(chan struct{})
	first := make(chan struct{}, 1)
	first <- struct{}{}
	b.misbehave(func(_ http.ResponseWriter, _ *http.Request, is string) bool {
		if is == verb {
			select {
			case <-first:
				close(arrived)
				<-leave
			default:
			}
		}
		return false
	}, nil)
	return arrived, leave
}

var _ = Describe("a RunPolicy that requires approval", func() {
	var namespace string
	var ann client.Client
	BeforeEach(func(ctx SpecContext) {
		namespace = aNamespace(ctx)
		ann = aPerson(ctx, namespace, "ann", "interlock-approver")
	})
	from := func(r v1alpha1.Risk) func(*v1alpha1.RunPolicySpec) {
		return func(s *v1alpha1.RunPolicySpec) { s.RequireApproval = &v1alpha1.ApprovalRequirement{FromRisk: r} }
	}
	again := asks(call("pay", `{"q":"2"}`))

	It("has people asked before writes that nobody would be asked about, from a risk on", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, directly, freely)
		aTool(ctx, namespace, "tip", func(t *v1alpha1.ToolBinding) {
			t.Spec.Effect, t.Spec.Idempotency, t.Spec.Backend.HTTP.URL = v1alpha1.EffectWrite, v1alpha1.IdempotencyKey, bank.URL
			t.Spec.Risk = v1alpha1.RiskMedium
			freely(t)
		})
		p := aPolicy(ctx, namespace, from(v1alpha1.RiskHigh))
		aModel(ctx, namespace, asks(call("tip", `{"q":"1"}`), call("pay", `{"q":"2"}`)), says("Paid.", `"paid"`))
		r := aRun(ctx, namespace, []string{"pay", "tip"})

		asked := awaiting(ctx, r, 1)[0]
		Expect(asked).To(And(HaveField("Tool", "pay"), HaveField("RequiredBy", p.Name)))
		Eventually(ctx, bank.paid, patience).Should(Equal([]string{`{"q":"1"}`}), "what is of a lower risk is made")
		approve(ctx, ann, asked)
		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(ConsistOf(`{"q":"1"}`, `{"q":"2"}`))
		Expect(result(ctx, r, "s1c2").ApprovedBy).To(ConsistOf(HaveField("Approver", "ann")))
	})

	It("that comes while a write is under way has it settled, and what waits behind it asked for anew", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, directly, freely)
		arrived, leave := bank.holdingOnce("invoke")
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`), call("pay", `{"q":"2"}`)), again, says("Paid.", `"paid"`))
		r := aRun(ctx, namespace, []string{"pay"})
		Eventually(ctx, arrived, patience).Should(BeClosed())
		p := aPolicy(ctx, namespace, from(v1alpha1.RiskCritical))

		waiting := eventually(ctx, r, func(g Gomega, now *v1alpha1.AgentRun) {
			g.Expect(now.Status.Calls).To(ContainElement(And(HaveField("ID", "s1c2"), HaveField("Code", "PolicyStricter"))))
		})
		Expect(waiting.Status.Calls[0]).To(HaveField("State", v1alpha1.CallExecuting))
		expectEvent(ctx, r, string(v1alpha1.PhaseActing), "s1c2 pay: refused, PolicyStricter")
		close(leave)

		asked := awaiting(ctx, r, 1)[0]
		Expect(asked).To(And(HaveField("CallID", "s2c1"), HaveField("RequiredBy", p.Name)))
		Expect(bank.paid()).To(Equal([]string{`{"q":"1"}`}))
		refused := result(ctx, r, "s1c2")
		Expect(refused).To(And(HaveField("State", v1alpha1.CallRejected), HaveField("Message", ContainSubstring("RunPolicy "+p.Name+" has people asked"))))
		Expect(refusals(ctx, p.Name, "PolicyStricter")).To(BeEquivalentTo(1))

		By("being asked still, when the policy is taken back")
		Expect(admin.Delete(ctx, p)).To(Succeed())
		interlock.restart()
		approve(ctx, ann, asked)
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(ConsistOf(`{"q":"1"}`, `{"q":"2"}`))
	})

	It("that comes while a write is previewed keeps it from being committed", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, freely)
		arrived, leave := bank.holdingOnce("preview")
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("Another time.", "PolicyStricter"))
		r := aRun(ctx, namespace, []string{"pay"})
		Eventually(ctx, arrived, patience).Should(BeClosed())
		p := aPolicy(ctx, namespace, from(v1alpha1.RiskLow))
		close(leave)

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(result(ctx, r, "s1c1").Code).To(Equal("PolicyStricter"))
		Expect(bank.requests("commit")).To(BeZero())
		Expect(refusals(ctx, p.Name, "PolicyStricter")).To(BeEquivalentTo(1))
	})

	It("that comes after somebody has approved a call does not ask again", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, directly)
		arrived, leave := bank.holdingOnce("invoke")
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`), call("pay", `{"q":"2"}`)), says("Paid.", `"paid"`))
		r := aRun(ctx, namespace, []string{"pay"})
		for _, asked := range awaiting(ctx, r, 2) {
			Expect(asked.RequiredBy).To(BeEmpty())
			approve(ctx, ann, asked)
		}
		Eventually(ctx, arrived, patience).Should(BeClosed())
		eventually(ctx, r, func(g Gomega, now *v1alpha1.AgentRun) {
			g.Expect(now.Status.Calls).To(ContainElement(And(HaveField("ID", "s1c2"), HaveField("State", v1alpha1.CallApproved))))
		})
		aPolicy(ctx, namespace, from(v1alpha1.RiskLow))
		close(leave)
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(ConsistOf(`{"q":"1"}`, `{"q":"2"}`))
	})
})
