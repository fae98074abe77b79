// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// aBank makes a bank and the binding "pay" for it: with preview, look-up and one approval, unless the test says otherwise.
func aBank(ctx context.Context, namespace string, mutate ...func(*v1alpha1.ToolBinding)) *bank {
	GinkgoHelper()
	b := newBank()
	DeferCleanup(func() { b.CloseClientConnections(); b.Close() })
	aTool(ctx, namespace, "pay", append([]func(*v1alpha1.ToolBinding){func(t *v1alpha1.ToolBinding) {
		t.Spec.Effect, t.Spec.Protocol, t.Spec.Idempotency = v1alpha1.EffectWrite, v1alpha1.ProtocolPreviewCommit, v1alpha1.IdempotencyKey
		t.Spec.InputSchema = &runtime.RawExtension{Raw: []byte(anySchema)}
		t.Spec.Backend.HTTP.URL = b.URL
	}}, mutate...)...)
	return b
}

// freely lets writes through without asking anybody.
func freely(t *v1alpha1.ToolBinding) {
	t.Spec.Approval = &v1alpha1.ApprovalPolicy{Policy: v1alpha1.ApprovalNever}
}

// directly has no preview.
func directly(t *v1alpha1.ToolBinding) { t.Spec.Protocol = v1alpha1.ProtocolDirect }

var _ = Describe("a run that writes", func() {
	var namespace string
	var ann client.Client
	BeforeEach(func(ctx SpecContext) {
		namespace = aNamespace(ctx)
		ann = aPerson(ctx, namespace, "ann", "interlock-approver")
	})

	It("nothing executes before approval", func(ctx SpecContext) {
		bank := aBank(ctx, namespace)
		aModel(ctx, namespace, asks(call("pay", `{"q":"12.50"}`)), says("Paid.", `"paid"`))
		r := aRun(ctx, namespace, []string{"pay"})

		asked := awaiting(ctx, r, 1)[0]
		Expect(asked.FromModel.Arguments).To(Equal(`{"q":"12.50"}`))
		Expect(asked.FromTool).To(HaveValue(And(HaveField("Summary", "Pay."), HaveField("Changes", "-1\n+2"))))
		Expect(asked.Principal).To(Equal("system:serviceaccount:" + namespace + ":default"))
		interlock.restart()
		Consistently(ctx, bank.paid, time.Second).Should(BeEmpty())
		Expect(bank.requests("commit")).To(BeZero())

		a := approve(ctx, ann, asked)
		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(Equal([]string{`{"q":"12.50"}`}))
		Expect(bank.requests("commit")).To(Equal(1))
		expectSaid(ctx, a, v1alpha1.ReasonEffective)
		Expect(a.Spec.Approver).To(Equal("ann"))
		Expect(result(ctx, r, "s1c1").ApprovedBy).To(Equal([]v1alpha1.ApprovedBy{{Approver: "ann", UID: string(a.UID)}}))
		Expect(r.Finalizers).To(BeEmpty())
	})

	It("the same operation ID has one effect", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, directly, freely)
		// The first answer is lost after the effect, the first two look-ups as well; then the operator dies.
		bank.misbehave(cut("operations", 2), cut("invoke", 1))
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("Paid.", `"paid"`))
		r := aRun(ctx, namespace, []string{"pay"})
		Eventually(ctx, bank.requests, patience).WithArguments("operations").Should(BeNumerically(">=", 1))
		interlock.restart()

		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(HaveLen(1))
		Expect(bank.requests("invoke")).To(Equal(1))
	})

	It("an unknown outcome is looked up, not sent again", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, freely)
		bank.misbehave(nil, cut("commit", 1))
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("Paid.", `"paid"`))
		r := ended(ctx, aRun(ctx, namespace, []string{"pay"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(bank.requests("commit")).To(Equal(1))
		Expect(bank.requests("operations")).To(Equal(1))
		Expect(result(ctx, r, "s1c1")).To(And(HaveField("State", v1alpha1.CallSucceeded), HaveField("Data", `"paid"`)))
	})

	It("an operation that the server has never heard of is sent again, under the same ID", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, freely)
		bank.misbehave(cut("commit", 1), nil)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("Paid.", `"paid"`))
		expectEnd(ended(ctx, aRun(ctx, namespace, []string{"pay"})), v1alpha1.TerminationFinal, "")
		Expect(bank.requests("commit")).To(Equal(2))
		Expect(bank.paid()).To(HaveLen(1))
	})

	It("an outcome that nobody can look up ends the run and asks for a person", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, directly, freely, func(t *v1alpha1.ToolBinding) { t.Spec.Idempotency = v1alpha1.IdempotencyNone })
		bank.misbehave(nil, cut("invoke", 1))
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("never"))
		r := ended(ctx, aRun(ctx, namespace, []string{"pay"}))

		expectEnd(r, v1alpha1.TerminationToolFailed, "OutcomeUnknown")
		Expect(r.Status.Termination.Message).To(ContainSubstring(r.Status.Calls[0].OperationID))
		Expect(bank.requests("invoke")).To(Equal(1))
	})

	It("the model cannot change arguments after approval", func(ctx SpecContext) {
		bank := aBank(ctx, namespace)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), asks(call("pay", `{"q":"1000"}`)), says("Done."))
		r := aRun(ctx, namespace, []string{"pay"})
		first := awaiting(ctx, r, 1)[0]
		approve(ctx, ann, first)
		second := eventually(ctx, r, func(g Gomega, r *v1alpha1.AgentRun) {
			g.Expect(r.Status.PendingApprovals).To(ContainElement(HaveField("CallID", "s2c1")))
		}).Status.PendingApprovals[0]

		// Consent to the first call, held up before the second.
		a := approve(ctx, ann, second, func(a *v1alpha1.Approval) { a.Spec.Digest = first.Digest })
		expectSaid(ctx, a, v1alpha1.ReasonDigestMismatch)
		Expect(bank.paid()).To(Equal([]string{`{"q":"1"}`}))
		approve(ctx, ann, second, denying("Too much."))
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(Equal([]string{`{"q":"1"}`}))
	})

	It("a changed resource voids the approval", func(ctx SpecContext) {
		bank := aBank(ctx, namespace)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("Paid.", `"paid"`))
		r := aRun(ctx, namespace, []string{"pay"})
		first := awaiting(ctx, r, 1)[0]
		bank.change()
		a := approve(ctx, ann, first)

		second := eventually(ctx, r, func(g Gomega, r *v1alpha1.AgentRun) {
			g.Expect(r.Status.PendingApprovals).To(ContainElement(HaveField("Digest", Not(Equal(first.Digest)))), summary(r))
		}).Status.PendingApprovals[0]
		Expect(bank.paid()).To(BeEmpty())
		expectSaid(ctx, a, v1alpha1.ReasonStale)
		expectSaid(ctx, approve(ctx, ann, first), v1alpha1.ReasonDigestMismatch)
		Expect(bank.paid()).To(BeEmpty())
		approve(ctx, ann, second)
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(HaveLen(1))
	})

	It("a changed binding voids the approval", func(ctx SpecContext) {
		bank := aBank(ctx, namespace)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("I ask again another time.", "ToolChanged"))
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		edit(ctx, namespace, "pay", func(b *v1alpha1.ToolBinding) { b.Spec.Description = "Pays, and tells nobody." })

		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		a := approve(ctx, ann, asked)
		expectSaid(ctx, a, v1alpha1.ReasonStale)
		Expect(bank.paid()).To(BeEmpty())
	})

	It("partial approval in one turn", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, directly)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`), call("pay", `{"q":"2"}`), call("pay", `{"q":"3"}`)),
			says("Two of three.", "ApprovalDenied", "Not the second."))
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 3)
		approve(ctx, ann, asked[2])
		approve(ctx, ann, asked[1], denying("Not the second."))
		interlock.restart()
		approve(ctx, ann, asked[0])

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(ConsistOf(`{"q":"1"}`, `{"q":"3"}`))
		Expect(result(ctx, r, "s1c2")).To(And(HaveField("State", v1alpha1.CallRejected), HaveField("Code", "ApprovalDenied")))
	})

	It("an approval that was there before the run asked takes effect", func(ctx SpecContext) {
		bank := aBank(ctx, namespace)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("Paid.", `"paid"`))
		// The same question, asked by the same run twice: the first status is lost with the operator.
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		interlock.kill()
		forgetful := &v1alpha1.AgentRun{}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(r), forgetful)).To(Succeed())
		forgetful.Status.PendingApprovals = nil
		forgetful.Status.Phase, forgetful.Status.Calls[0].State = v1alpha1.PhaseActing, v1alpha1.CallPreviewing
		forgetful.Status.Calls[0].Write.Preview, forgetful.Status.Calls[0].Write.Digest, forgetful.Status.Calls[0].Write.Expires = nil, "", nil
		Expect(asOperator.Status().Update(ctx, forgetful)).To(Succeed())
		good := approve(ctx, ann, asked)
		bad := approve(ctx, ann, asked, func(a *v1alpha1.Approval) { a.Spec.Digest = "sha256:" + asked.FromModel.ArgumentsDigest[7:] })
		interlock.start()

		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(HaveLen(1))
		expectSaid(ctx, good, v1alpha1.ReasonEffective)
		expectSaid(ctx, bad, v1alpha1.ReasonDigestMismatch)
	})

	It("needs as many people as its tool says, each counted once", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, func(t *v1alpha1.ToolBinding) {
			t.Spec.Approval = &v1alpha1.ApprovalPolicy{Policy: v1alpha1.ApprovalAlways, Quorum: 2}
		})
		ben := aPerson(ctx, namespace, "ben", "interlock-approver")
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("Paid.", `"paid"`))
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		expectSaid(ctx, approve(ctx, ann, asked), v1alpha1.ReasonEffective)
		expectSaid(ctx, approve(ctx, ann, asked), v1alpha1.ReasonDuplicate)
		Expect(bank.paid()).To(BeEmpty())
		approve(ctx, ben, asked)
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(HaveLen(1))
	})

	It("ends when nobody approves in time, if onDenied says so", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, func(t *v1alpha1.ToolBinding) {
			t.Spec.Approval = &v1alpha1.ApprovalPolicy{Policy: v1alpha1.ApprovalAlways, TTLSeconds: 2}
		})
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("never"))
		r := aRun(ctx, namespace, []string{"pay"}, func(r *v1alpha1.AgentRun) { r.Spec.OnDenied = v1alpha1.DenialTerminate })
		asked := awaiting(ctx, r, 1)[0]
		expectEnd(ended(ctx, r), v1alpha1.TerminationPolicyDenied, "ApprovalExpired")
		expectSaid(ctx, approve(ctx, ann, asked), v1alpha1.ReasonExpired)
		Expect(bank.paid()).To(BeEmpty())
	})

	It("settles a write that was sent before it lets itself be cancelled or deleted", func(ctx SpecContext) {
		for how, end := range map[string]func(*v1alpha1.AgentRun){
			"cancelled": func(r *v1alpha1.AgentRun) {
				patch := client.MergeFrom(r.DeepCopy())
				r.Spec.Cancel = &v1alpha1.Cancellation{Reason: "Enough."}
				Expect(admin.Patch(ctx, r, patch)).To(Succeed())
			},
			"deleted": func(r *v1alpha1.AgentRun) { Expect(admin.Delete(ctx, r)).To(Succeed()) },
		} {
			By(how)
			namespace := aNamespace(ctx)
			bank := aBank(ctx, namespace, directly, freely)
			arrived, leave := make(chan struct{}), make(chan struct{})
			bank.misbehave(nil, func(_ http.ResponseWriter, _ *http.Request, verb string) bool {
				if verb == "invoke" {
					close(arrived)
					<-leave
				}
				return false
			})
			aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("never"))
			r := aRun(ctx, namespace, []string{"pay"})
			Eventually(ctx, arrived, patience).Should(BeClosed())
			r = eventually(ctx, r, func(Gomega, *v1alpha1.AgentRun) {})
			end(r)
			r = eventually(ctx, r, func(g Gomega, r *v1alpha1.AgentRun) { g.Expect(r.Status.Ending).NotTo(BeNil(), summary(r)) })
			Expect(r.Finalizers).NotTo(BeEmpty())
			turn := turns(ctx, r)[0]
			close(leave)

			if how == "cancelled" {
				r = ended(ctx, r)
				expectEnd(r, v1alpha1.TerminationCancelled, "")
				Expect(result(ctx, r, "s1c1").State).To(Equal(v1alpha1.CallSucceeded))
			} else {
				Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(&turn), &turn) }, patience).ShouldNot(Succeed())
			}
			Expect(bank.requests("invoke")).To(Equal(1))
		}
	})

	It("does what it may no longer do not at all", func(ctx SpecContext) {
		bank := aBank(ctx, namespace)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("I may not.", "NotPermitted"))
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		revoke(ctx, namespace, "agents")
		approve(ctx, ann, asked)
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(BeEmpty())
	})

	It("shows its tools a token that the API server does not accept", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, directly, freely, func(t *v1alpha1.ToolBinding) { t.Spec.Backend.HTTP.Audience = "tools.interlock.dev/bank" })
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("Paid.", `"paid"`))
		expectEnd(ended(ctx, aRun(ctx, namespace, []string{"pay"})), v1alpha1.TerminationFinal, "")
		bank.mu.Lock()
		token := bank.tokens[0]
		bank.mu.Unlock()
		Expect(reviewed(ctx, token, "tools.interlock.dev/bank")).To(Equal("system:serviceaccount:" + namespace + ":default"))
		Expect(reviewed(ctx, token)).To(BeEmpty())
	})

	It("takes effect once when two operators both believe they lead", func(ctx SpecContext) {
		const runs = 8
		other := newOperator(ctx)
		other.start()
		DeferCleanup(other.kill)
		for _, knows := range []v1alpha1.Idempotency{v1alpha1.IdempotencyKey, v1alpha1.IdempotencyNone} {
			By(string(knows))
			namespace := aNamespace(ctx)
			bank := aBank(ctx, namespace, directly, freely, func(t *v1alpha1.ToolBinding) { t.Spec.Idempotency = knows })
			var all []*v1alpha1.AgentRun
			for i := range runs {
				name := fmt.Sprintf("run-%d", i)
				create(ctx, scripted(namespace, name, asks(call("pay", `{"q":"1"}`), call("pay", `{"q":"2"}`)), says("Paid.")))
				all = append(all, aRun(ctx, namespace, []string{"pay"}, func(r *v1alpha1.AgentRun) { r.Name, r.Spec.Model.Name = name, name }))
			}
			for _, r := range all {
				r = ended(ctx, r)
				expectEnd(r, v1alpha1.TerminationFinal, "")
				for _, id := range []string{"s1c1", "s1c2"} {
					Expect(result(ctx, r, id).State).To(Equal(v1alpha1.CallSucceeded))
				}
			}
			Expect(bank.paid()).To(HaveLen(2 * runs))
			// One that takes over asks the server. If the call is on its way still, it is sent under the same ID once more: only to a
			// server that does each ID once.
			if knows == v1alpha1.IdempotencyNone {
				Expect(bank.requests("invoke")).To(Equal(2 * runs))
			}
		}
	})
})
