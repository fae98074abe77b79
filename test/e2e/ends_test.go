// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

var _ = Describe("the end of a run", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	It("max steps ends the run", func(ctx SpecContext) {
		tools.answers("loop", `"more"`)
		aTool(ctx, namespace, "loop")
		aModel(ctx, namespace, asks(call("loop", `{"q":"1"}`)), asks(call("loop", `{"q":"2"}`)), says("too late"))
		r := ended(ctx, aRun(ctx, namespace, []string{"loop"}, func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxSteps = 2 }))

		expectEnd(r, v1alpha1.TerminationMaxSteps, "")
		Expect(r.Status.Phase).To(Equal(v1alpha1.PhaseFailed))
		Expect(r.Status.Result).To(BeNil())
		Expect(result(ctx, r, "s2c1").State).To(Equal(v1alpha1.CallSucceeded))
		Expect(turns(ctx, r)).To(HaveLen(2))
	})

	It("a user cancels", func(ctx SpecContext) {
		left := make(chan struct{})
		tools.on("endless", func(_ http.ResponseWriter, r *http.Request, _ received) {
			<-r.Context().Done()
			close(left)
		})
		aTool(ctx, namespace, "endless")
		aModel(ctx, namespace, asks(call("endless", `{"q":"x"}`)), says("never"))
		r := aRun(ctx, namespace, []string{"endless"})
		Eventually(ctx, func() int { return len(tools.received("endless")) }, patience).Should(Equal(1))

		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":{"reason":"no longer needed"}}}`))
		Expect(admin.Patch(ctx, r.DeepCopy(), patch)).To(Succeed())
		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationCancelled, "")
		Expect(r.Status.Phase).To(Equal(v1alpha1.PhaseCancelled))
		Expect(r.Status.Termination.Message).To(ContainSubstring("no longer needed"))
		Expect(result(ctx, r, "s1c1")).To(And(HaveField("State", v1alpha1.CallFailed), HaveField("Code", "RunEnded")))
		Eventually(ctx, left, patience).Should(BeClosed(), "the call in flight was not aborted")
		Expect(turns(ctx, r)).To(HaveLen(1))
	})

	It("comes at the deadline, also while a call is in flight", func(ctx SpecContext) {
		tools.on("stuck", untilTheCallerLeaves)
		aTool(ctx, namespace, "stuck", func(b *v1alpha1.ToolBinding) { b.Spec.TimeoutSeconds = 600 })
		aModel(ctx, namespace, asks(call("stuck", `{"q":"x"}`)), says("never"))
		r := ended(ctx, aRun(ctx, namespace, []string{"stuck"}, func(r *v1alpha1.AgentRun) { r.Spec.Limits.DeadlineSeconds = 2 }))

		expectEnd(r, v1alpha1.TerminationDeadline, "")
		Expect(r.Status.CompletionTime.Time).To(BeTemporally(">=", r.Status.Deadline.Time))
		Expect(result(ctx, r, "s1c1").Code).To(Or(Equal("RunEnded"), Equal("Timeout")))
	})

	It("comes at the deadline for a run that never begins", func(ctx SpecContext) {
		r := ended(ctx, aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) { r.Spec.Limits.DeadlineSeconds = 1 }))
		expectEnd(r, v1alpha1.TerminationDeadline, "")
	})

	It("comes with a dead model", func(ctx SpecContext) {
		aModel(ctx, namespace, v1alpha1.ScriptedTurn{Text: "never", Fail: &v1alpha1.ScriptedFailure{Times: 100, Reason: "Unavailable"}})
		r := ended(ctx, aRun(ctx, namespace, nil))

		expectEnd(r, v1alpha1.TerminationModelFailed, "Unavailable")
		Expect(r.Status.Usage.ModelCalls).To(HaveValue(BeEquivalentTo(3)))
	})

	It("does not come with a model that recovers", func(ctx SpecContext) {
		aModel(ctx, namespace, v1alpha1.ScriptedTurn{Text: "at last", Fail: &v1alpha1.ScriptedFailure{Times: 2, Reason: "RateLimited"}})
		expectEnd(ended(ctx, aRun(ctx, namespace, nil)), v1alpha1.TerminationFinal, "")
	})

	It("comes with a dead tool, if the run says so", func(ctx SpecContext) {
		tools.on("dead", func(w http.ResponseWriter, _ *http.Request, _ received) {
			problem(w, http.StatusGone, "Decommissioned", "gone", false)
		})
		aTool(ctx, namespace, "dead")
		aModel(ctx, namespace, asks(call("dead", `{"q":"x"}`)), says("never"))
		r := ended(ctx, aRun(ctx, namespace, []string{"dead"}, func(r *v1alpha1.AgentRun) { r.Spec.OnToolFailure = v1alpha1.ToolFailureTerminate }))

		expectEnd(r, v1alpha1.TerminationToolFailed, "Decommissioned")
		Expect(r.Status.Termination.CallID).To(Equal("s1c1"))
	})

	It("comes when the tool calls are used up, before the one too many", func(ctx SpecContext) {
		tools.answers("metered", `"x"`)
		aTool(ctx, namespace, "metered")
		aModel(ctx, namespace,
			asks(call("metered", `{"q":"1"}`)), asks(call("metered", `{"q":"2"}`), call("metered", `{"q":"3"}`)), says("never"))
		r := ended(ctx, aRun(ctx, namespace, []string{"metered"}, func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxToolCalls = new(int32(2)) }))

		expectEnd(r, v1alpha1.TerminationBudget, "ToolCalls")
		Expect(tools.received("metered")).To(HaveLen(1))
	})

	It("comes with a model that goes in circles, good calls and bad ones in turn", func(ctx SpecContext) {
		tools.answers("circle", `"as before"`)
		aTool(ctx, namespace, "circle")
		again := asks(call("circle", `{"q":"x"}`), call("circle", `{}`))
		aModel(ctx, namespace, again, again, again, says("never"))
		r := ended(ctx, aRun(ctx, namespace, []string{"circle"}, func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxRepeats = 3 }))

		expectEnd(r, v1alpha1.TerminationModelFailed, "Stuck")
		Expect(r.Status.Termination.CallID).To(Equal("s3c1"))
		Expect(tools.received("circle")).To(HaveLen(3))
	})

	It("comes with a model that makes up a new tool name each time", func(ctx SpecContext) {
		aModel(ctx, namespace, asks(call("one", `{}`)), asks(call("two", `{}`)), asks(call("three", `{}`)), says("never"))
		r := ended(ctx, aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxInvalid = new(int32(2)) }))
		expectEnd(r, v1alpha1.TerminationModelFailed, "TooManyInvalid")
		Expect(turns(ctx, r)).To(HaveLen(3))
	})

	It("comes with a model that sends nothing of use", func(ctx SpecContext) {
		aModel(ctx, namespace, v1alpha1.ScriptedTurn{}, v1alpha1.ScriptedTurn{Expect: shown("Your answer was empty")}, says("never"))
		r := ended(ctx, aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxInvalid = new(int32(1)) }))
		expectEnd(r, v1alpha1.TerminationModelFailed, "TooManyInvalid")
	})

	It("is followed by the run's own, when its time to live is over", func(ctx SpecContext) {
		aModel(ctx, namespace, says("done"))
		r := aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = new(int32(0)) })
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(r), &v1alpha1.AgentRun{}))
		}, patience).Should(BeTrue())
		Eventually(ctx, func() int { return len(turns(ctx, r)) }, patience).Should(BeZero(), "the Turns outlive their run")
	})
})
