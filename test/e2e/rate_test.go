// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// anyName has the API server name the run.
func anyName(r *v1alpha1.AgentRun) { r.Name, r.GenerateName = "", "run-" }

// onceADay is so rare that only the burst begins while a test runs.
func onceADay(burst int32) *v1alpha1.RateLimit {
	return &v1alpha1.RateLimit{Requests: 1, PerSeconds: 86400, Burst: burst}
}

var _ = Describe("the rate of a binding", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	soon := func(r *v1alpha1.AgentRun) { r.Spec.Limits.DeadlineSeconds = 2 }

	It("lets calls of all runs wait that come too early, until their run's deadline", func(ctx SpecContext) {
		tools.answers("rare", `"x"`)
		aTool(ctx, namespace, "rare", func(b *v1alpha1.ToolBinding) { b.Spec.Rate = onceADay(2) })
		aModel(ctx, namespace, asks(call("rare", `{"q":"1"}`)), says("Done."))
		expectUsable(ctx, namespace, "rare")
		for range 2 {
			expectEnd(ended(ctx, aRun(ctx, namespace, []string{"rare"}, anyName)), v1alpha1.TerminationFinal, "")
		}
		r := ended(ctx, aRun(ctx, namespace, []string{"rare"}, anyName, soon))
		expectEnd(r, v1alpha1.TerminationDeadline, "")
		Expect(tools.received("rare")).To(HaveLen(2))
	})

	It("lets requests to a model wait", func(ctx SpecContext) {
		m := scripted(namespace, "model", says("Done."))
		m.Spec.Rate = onceADay(1)
		create(ctx, m)
		expectBinding(ctx, m, v1alpha1.ReasonAvailable, "")
		expectEnd(ended(ctx, aRun(ctx, namespace, nil, anyName)), v1alpha1.TerminationFinal, "")
		r := ended(ctx, aRun(ctx, namespace, nil, anyName, soon))
		expectEnd(r, v1alpha1.TerminationDeadline, "")
		Expect(turns(ctx, r)).To(BeEmpty())
	})
})
