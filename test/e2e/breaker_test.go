// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"net/http"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// expectBreaker waits until the breaker of a ToolBinding stands as it should.
func expectBreaker(ctx context.Context, namespace, name string, state v1alpha1.BreakerState, failures int) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var b v1alpha1.ToolBinding
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &b)).To(Succeed())
		g.Expect(b.Status.Breaker).To(HaveValue(And(HaveField("State", state), HaveField("Failures", BeEquivalentTo(failures)))))
	}, patience).Should(Succeed())
}

var _ = Describe("the breaker of a binding", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	It("leaves a tool that is down alone, at no cost to runs, and closes once it answers", func(ctx SpecContext) {
		var up atomic.Bool
		tools.on("fused", func(w http.ResponseWriter, _ *http.Request, c received) {
			if !up.Load() {
				problem(w, http.StatusServiceUnavailable, "Melted", "it is down", true)
				return
			}
			answer(w, c, `"up again"`)
		})
		aTool(ctx, namespace, "fused", func(b *v1alpha1.ToolBinding) {
			b.Spec.Breaker = &v1alpha1.CircuitBreaker{Failures: 2, OpenSeconds: 2}
		})
		aModel(ctx, namespace, asks(call("fused", `{"q":"x"}`)), says("Done.", "up again"))
		r := aRun(ctx, namespace, []string{"fused"}, func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxToolCalls = new(int32(4)) })
		expectBreaker(ctx, namespace, "fused", v1alpha1.BreakerOpen, 2)
		eventually(ctx, r, func(g Gomega, now *v1alpha1.AgentRun) {
			g.Expect(now.Status.Calls).To(ConsistOf(And(HaveField("State", v1alpha1.CallBackoff), HaveField("Code", "BreakerOpen"))))
		})
		Expect(tools.received("fused")).To(HaveLen(2))
		up.Store(true)

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(tools.received("fused")).To(HaveLen(3))
		Expect(r.Status.Usage.ToolCalls).To(HaveValue(BeEquivalentTo(3)))
		expectBreaker(ctx, namespace, "fused", v1alpha1.BreakerClosed, 0)
	})

	It("does not open for what a tool refuses", func(ctx SpecContext) {
		tools.on("choosy", func(w http.ResponseWriter, _ *http.Request, _ received) {
			problem(w, http.StatusUnprocessableEntity, "NotThatOne", "no", false)
		})
		aTool(ctx, namespace, "choosy", func(b *v1alpha1.ToolBinding) {
			b.Spec.Breaker = &v1alpha1.CircuitBreaker{Failures: 1, OpenSeconds: 3600}
		})
		aModel(ctx, namespace, asks(call("choosy", `{"q":"1"}`)), asks(call("choosy", `{"q":"2"}`)), says("Done.", "NotThatOne"))
		expectEnd(ended(ctx, aRun(ctx, namespace, []string{"choosy"})), v1alpha1.TerminationFinal, "")
		Expect(tools.received("choosy")).To(HaveLen(2))
		expectBreaker(ctx, namespace, "choosy", v1alpha1.BreakerClosed, 0)
	})

	It("does not open for a run that has no time left", func(ctx SpecContext) {
		tools.on("unhurried", func(w http.ResponseWriter, r *http.Request, c received) {
			if c.Arguments == `{"q":"slowly"}` {
				<-r.Context().Done()
				return
			}
			answer(w, c, `"here"`)
		})
		aTool(ctx, namespace, "unhurried", func(b *v1alpha1.ToolBinding) {
			b.Spec.Breaker = &v1alpha1.CircuitBreaker{Failures: 1, OpenSeconds: 3600}
		})
		create(ctx, scripted(namespace, "slow", asks(call("unhurried", `{"q":"slowly"}`)), says("never")))
		aModel(ctx, namespace, asks(call("unhurried", `{"q":"x"}`)), says("Done.", "here"))
		expectUsable(ctx, namespace, "unhurried")
		r := ended(ctx, aRun(ctx, namespace, []string{"unhurried"}, anyName, func(r *v1alpha1.AgentRun) {
			r.Spec.Model.Name, r.Spec.Limits.DeadlineSeconds = "slow", 2
		}))
		expectEnd(r, v1alpha1.TerminationDeadline, "")
		Expect(tools.received("unhurried")).To(HaveLen(1))

		expectEnd(ended(ctx, aRun(ctx, namespace, []string{"unhurried"}, anyName)), v1alpha1.TerminationFinal, "")
		expectBreaker(ctx, namespace, "unhurried", v1alpha1.BreakerClosed, 0)
	})

	It("is closed again when the operator has been restarted, and the status says so", func(ctx SpecContext) {
		tools.on("tripped", func(w http.ResponseWriter, _ *http.Request, _ received) {
			problem(w, http.StatusServiceUnavailable, "Melted", "it is down", true)
		})
		aTool(ctx, namespace, "tripped", func(b *v1alpha1.ToolBinding) {
			b.Spec.Breaker = &v1alpha1.CircuitBreaker{Failures: 1, OpenSeconds: 3600}
		})
		aModel(ctx, namespace, asks(call("tripped", `{"q":"x"}`)), says("Done.", "BreakerOpen"))
		// What can't be sent before the deadline has failed, and the model is told.
		expectEnd(ended(ctx, aRun(ctx, namespace, []string{"tripped"})), v1alpha1.TerminationFinal, "")
		expectBreaker(ctx, namespace, "tripped", v1alpha1.BreakerOpen, 1)
		interlock.restart()
		expectBreaker(ctx, namespace, "tripped", v1alpha1.BreakerClosed, 0)
	})

	It("ends a run whose model stays down until after the deadline", func(ctx SpecContext) {
		m := scripted(namespace, "model", v1alpha1.ScriptedTurn{Text: "never", Fail: &v1alpha1.ScriptedFailure{Times: 100, Reason: "Unavailable"}})
		m.Spec.Breaker = &v1alpha1.CircuitBreaker{Failures: 2, OpenSeconds: 3600}
		create(ctx, m)
		r := ended(ctx, aRun(ctx, namespace, nil))
		expectEnd(r, v1alpha1.TerminationModelFailed, "BreakerOpen")
		Expect(r.Status.Termination.Message).To(ContainSubstring("so it is left alone for a while"))
	})
})
