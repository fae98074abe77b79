// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// throw suspends an object, or takes that back.
func throw(ctx context.Context, o client.Object, suspend string) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":`+suspend+`}}`))
	Expect(admin.Patch(ctx, o, patch)).To(Succeed())
}

// expectHeld waits until a run says what holds it.
func expectHeld(ctx context.Context, r *v1alpha1.AgentRun, phase v1alpha1.RunPhase, why string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(r), r)).To(Succeed())
		g.Expect(r.Status.Phase).To(Equal(phase))
		g.Expect(r.Status.Conditions).To(ContainElement(And(HaveField("Type", v1alpha1.ConditionReady), HaveField("Message", ContainSubstring(why)))))
	}, patience).Should(Succeed())
}

// aRunThatIsStopped makes a run whose tool answers only the second call. The channels are closed once the first has come, and once it
// was given up.
func aRunThatIsStopped(ctx context.Context, namespace, tool string) (r *v1alpha1.AgentRun, begun, aborted chan struct{}) {
	GinkgoHelper()
	begun, aborted = make(chan struct{}), make(chan struct{})
	tools.on(tool, func(w http.ResponseWriter, r *http.Request, c received) {
		if c.N > 1 {
			answer(w, c, `"done"`)
			return
		}
		close(begun)
		<-r.Context().Done()
		close(aborted)
	})
	aTool(ctx, namespace, tool)
	aModel(ctx, namespace, asks(call(tool, `{"q":"x"}`)), says("Done.", "done"))
	return aRun(ctx, namespace, []string{tool}), begun, aborted
}

var _ = Describe("a switch", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	It("of a run aborts what is in flight, and lets nothing begin until it is taken back", func(ctx SpecContext) {
		r, begun, aborted := aRunThatIsStopped(ctx, namespace, "halting")
		Eventually(ctx, begun, patience).Should(BeClosed())
		throw(ctx, r, "true")
		Eventually(ctx, aborted, patience).Should(BeClosed())
		expectHeld(ctx, r, v1alpha1.PhaseSuspended, "the run is suspended")
		interlock.restart()
		expectHeld(ctx, r, v1alpha1.PhaseSuspended, "the run is suspended")
		Expect(tools.received("halting")).To(HaveLen(1))

		throw(ctx, r, "false")
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(tools.received("halting")).To(HaveLen(2))
	})

	It("of a run that has not begun lets the deadline pass", func(ctx SpecContext) {
		aModel(ctx, namespace, says("never"))
		r := aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) { r.Spec.Suspend, r.Spec.Limits.DeadlineSeconds = true, 1 })
		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationDeadline, "")
		Expect(r.Status.Termination.Message).To(ContainSubstring("Suspended"))
		Expect(turns(ctx, r)).To(BeEmpty())
	})

	It("of a model holds the requests to it", func(ctx SpecContext) {
		release := make(chan struct{})
		tools.on("floodgate", func(w http.ResponseWriter, _ *http.Request, c received) { <-release; answer(w, c, `"open"`) })
		aTool(ctx, namespace, "floodgate")
		aModel(ctx, namespace, asks(call("floodgate", `{"q":"x"}`)), says("Done."))
		r := aRun(ctx, namespace, []string{"floodgate"})
		Eventually(ctx, func() int { return len(tools.received("floodgate")) }, patience).Should(Equal(1))
		model := scripted(namespace, "model")
		throw(ctx, model, "true")
		close(release)
		expectHeld(ctx, r, v1alpha1.PhaseThinking, "ModelBinding model is suspended")
		Expect(r.Status.ModelCall.State).To(Equal(v1alpha1.ModelHeld))
		Expect(turns(ctx, r)).To(HaveLen(1))

		throw(ctx, model, "false")
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
	})

	It("of a tool holds its calls, and leaves what people approved as it is", func(ctx SpecContext) {
		tools.answers("disburse", `"paid"`)
		tools.answers("glance", `"seen"`)
		aTool(ctx, namespace, "glance")
		aTool(ctx, namespace, "disburse", func(b *v1alpha1.ToolBinding) {
			b.Spec.Effect, b.Spec.Idempotency = v1alpha1.EffectWrite, v1alpha1.IdempotencyNone
		})
		aModel(ctx, namespace, asks(call("glance", `{"q":"x"}`), call("disburse", `{"q":"x"}`)), says("Done.", "paid"))
		r := aRun(ctx, namespace, []string{"glance", "disburse"})
		ann := aPerson(ctx, namespace, "ann", "interlock-approver")
		asked := awaiting(ctx, r, 1)
		pay := &v1alpha1.ToolBinding{}
		pay.Namespace, pay.Name = namespace, "disburse"
		throw(ctx, pay, "true")
		approve(ctx, ann, asked[0])
		expectHeld(ctx, r, v1alpha1.PhaseActing, "ToolBinding disburse is suspended")
		Expect(tools.received("glance")).To(HaveLen(1))
		Expect(tools.received("disburse")).To(BeEmpty())

		throw(ctx, pay, "false")
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(tools.received("disburse")).To(HaveLen(1))
	})
})
