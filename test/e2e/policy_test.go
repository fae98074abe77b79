// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// aPolicy makes a RunPolicy for one namespace, or for those that a change selects, and waits until the operator has read it.
func aPolicy(ctx context.Context, namespace string, change func(*v1alpha1.RunPolicySpec)) *v1alpha1.RunPolicy {
	GinkgoHelper()
	p := &v1alpha1.RunPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "policy-of-" + namespace},
		Spec: v1alpha1.RunPolicySpec{NamespaceSelector: &v1alpha1.NamespaceSelector{
			MatchLabels: map[string]v1alpha1.LabelValue{"kubernetes.io/metadata.name": v1alpha1.LabelValue(namespace)},
		}},
	}
	change(&p.Spec)
	create(ctx, p)
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, p))).To(Succeed()) })
	expectInForce(ctx, p)
	return p
}

func expectInForce(ctx context.Context, p *v1alpha1.RunPolicy) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		now := &v1alpha1.RunPolicy{}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), now)).To(Succeed())
		g.Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
		g.Expect(now.Status.Conditions).To(ContainElement(And(
			HaveField("Type", v1alpha1.ConditionReady), HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonInForce))))
	}, patience).Should(Succeed())
}

// label changes the labels of a namespace, as JSON has them.
func label(ctx context.Context, namespace, labels string) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`))
	Expect(admin.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, patch)).To(Succeed())
}

// expectEvent waits for an event about a run.
func expectEvent(ctx context.Context, r *v1alpha1.AgentRun, reason, words string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var events corev1.EventList
		g.Expect(admin.List(ctx, &events, client.InNamespace(r.Namespace))).To(Succeed())
		g.Expect(events.Items).To(ContainElement(And(
			HaveField("InvolvedObject.Name", r.Name), HaveField("Reason", reason), HaveField("Message", ContainSubstring(words)))))
	}, patience).Should(Succeed())
}

var _ = Describe("a RunPolicy", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	It("that suspends aborts what is in flight in its namespaces, and lets it go on when that is taken back", func(ctx SpecContext) {
		r, begun, aborted := aRunThatIsStopped(ctx, namespace, "stopping")
		Eventually(ctx, begun, patience).Should(BeClosed())
		p := aPolicy(ctx, namespace, func(s *v1alpha1.RunPolicySpec) { s.Suspend = true })
		Eventually(ctx, aborted, patience).Should(BeClosed())
		why := "RunPolicy " + p.Name + " suspends the runs of this namespace"
		expectHeld(ctx, r, v1alpha1.PhaseSuspended, why)

		By("holding one that is created meanwhile, and leaving other namespaces alone")
		late := aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) { r.Name = "late" })
		elsewhere := aNamespace(ctx)
		aModel(ctx, elsewhere, says("Untouched."))
		expectEnd(ended(ctx, aRun(ctx, elsewhere, nil)), v1alpha1.TerminationFinal, "")
		expectHeld(ctx, late, v1alpha1.PhaseSuspended, why)
		interlock.restart()
		expectHeld(ctx, r, v1alpha1.PhaseSuspended, why)
		Expect(tools.received("stopping")).To(HaveLen(1))

		throw(ctx, p, "false")
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(ended(ctx, late).Status.Termination).NotTo(BeNil())
	})

	It("holds in a namespace as soon as that has its label", func(ctx SpecContext) {
		aModel(ctx, namespace, says("Done."))
		aPolicy(ctx, namespace, func(s *v1alpha1.RunPolicySpec) {
			s.Suspend = true
			s.NamespaceSelector = &v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"example.com/stop": v1alpha1.LabelValue(namespace)}}
		})
		label(ctx, namespace, `{"example.com/stop":"`+namespace+`"}`)
		Eventually(ctx, func() string {
			// Until the operator has seen the label, runs go on; each of them is another.
			r := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "run-"}}
			r.Spec = v1alpha1.AgentRunSpec{Goal: "Find it out.", Model: v1alpha1.ModelSelection{Name: "model"}}
			create(ctx, r)
			r = eventually(ctx, r, func(g Gomega, now *v1alpha1.AgentRun) {
				g.Expect(now.Status.Phase).To(BeElementOf(v1alpha1.PhaseSuspended, v1alpha1.PhaseSucceeded))
			})
			return string(r.Status.Phase)
		}, patience).Should(Equal("Suspended"))

		By("taking the label away again")
		label(ctx, namespace, `{"example.com/stop":null}`)
		Eventually(ctx, func(g Gomega) {
			var runs v1alpha1.AgentRunList
			g.Expect(admin.List(ctx, &runs, client.InNamespace(namespace))).To(Succeed())
			g.Expect(runs.Items).To(HaveEach(HaveField("Status.Phase", v1alpha1.PhaseSucceeded)))
		}, patience).Should(Succeed())
	})

	It("has the API server refuse a run that asks for more than it allows, and says what it may be", func(ctx SpecContext) {
		p := aPolicy(ctx, namespace, func(s *v1alpha1.RunPolicySpec) {
			s.MaxLimits, s.Models = &v1alpha1.LimitCeilings{MaxSteps: 30, MaxCost: "2.5"}, []string{"model"}
		})
		asking := func(model string, steps int32, cost v1alpha1.Amount) func() error {
			return func() error {
				return admin.Create(ctx, &v1alpha1.AgentRun{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "asking"},
					Spec: v1alpha1.AgentRunSpec{
						Goal: "Spend.", Model: v1alpha1.ModelSelection{Name: model}, Limits: v1alpha1.RunLimits{MaxSteps: steps, MaxCost: cost},
					},
				}, client.DryRunAll)
			}
		}
		refused := func(words string) OmegaMatcher {
			return And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring(fmt.Sprintf(words, p.Name))))
		}
		// The API server learns of a new policy a moment after it has stored it.
		Eventually(ctx, asking("model", 31, "1"), patience).Should(refused("spec.limits.maxSteps is 31, and RunPolicy %s allows at most 30"))
		Expect(asking("model", 30, "10")()).To(refused("spec.limits.maxCost is 10, and RunPolicy %s allows at most 2.5"))
		Expect(asking("model", 30, "")()).To(refused("spec.limits.maxCost is not set, and RunPolicy %s allows at most 2.5: set it"))
		Expect(asking("other", 30, "1")()).To(refused("spec.model names other, and RunPolicy %s allows only: model"))
		Expect(asking("model", 30, "2.50")()).To(Succeed())
	})

	It("that comes after a run refuses it before it begins, and leaves one that has begun as it is", func(ctx SpecContext) {
		release := make(chan struct{})
		tools.on("underway", func(w http.ResponseWriter, _ *http.Request, c received) { <-release; answer(w, c, `"done"`) })
		aTool(ctx, namespace, "underway")
		aModel(ctx, namespace, asks(call("underway", `{"q":"x"}`)), says("Done.", "done"))
		begun := aRun(ctx, namespace, []string{"underway"})
		Eventually(ctx, func() int { return len(tools.received("underway")) }, patience).Should(Equal(1))
		waiting := aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) { r.Name, r.Spec.Model.Name = "waiting", "later" })
		eventually(ctx, waiting, func(g Gomega, now *v1alpha1.AgentRun) { g.Expect(now.Status.Phase).To(Equal(v1alpha1.PhasePending)) })

		p := aPolicy(ctx, namespace, func(s *v1alpha1.RunPolicySpec) { s.MaxLimits = &v1alpha1.LimitCeilings{MaxSteps: 2} })
		waiting = ended(ctx, waiting)
		expectEnd(waiting, v1alpha1.TerminationPolicyDenied, "AbovePolicy")
		words := "spec.limits.maxSteps is 25, and RunPolicy " + p.Name + " allows at most 2."
		Expect(waiting.Status.Termination.Message).To(Equal(words))
		expectEvent(ctx, waiting, "PolicyDenied", words)
		Expect(refusals(ctx, p.Name, "AbovePolicy")).To(BeEquivalentTo(1))
		close(release)
		expectEnd(ended(ctx, begun), v1alpha1.TerminationFinal, "")
	})

	It("refuses a child run as it does any other, and its parent goes on", func(ctx SpecContext) {
		p := aPolicy(ctx, namespace, func(s *v1alpha1.RunPolicySpec) { s.Models = []string{"model"} })
		small := &v1alpha1.AgentRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
			Spec:       v1alpha1.AgentRunSpec{Goal: "Look.", Model: v1alpha1.ModelSelection{Name: "small"}},
		}
		// The API server learns of a new policy a moment after it has stored it.
		Eventually(ctx, func() error { return admin.Create(ctx, small.DeepCopy(), client.DryRunAll) }, patience).Should(
			MatchError(ContainSubstring("RunPolicy " + p.Name + " allows only: model")))
		aModel(ctx, namespace, asks(call("delegate", `{"q":"why"}`)), says("So be it.", "ChildRefused", "Forbidden"))
		create(ctx, scripted(namespace, "small", says("never")))
		anAgent(ctx, namespace)
		r := ended(ctx, aRun(ctx, namespace, []string{"delegate"}))
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(result(ctx, r, "s1c1")).To(And(HaveField("State", v1alpha1.CallFailed), HaveField("Code", "ChildRefused")))
		Expect(childrenOf(ctx, r)).To(BeEmpty())
	})

	It("that changes nothing for parked runs makes no write but about itself", func(ctx SpecContext) {
		aModel(ctx, namespace, says("Done."))
		for i := range 5 {
			expectHeld(ctx, aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) {
				r.Name, r.Spec.Suspend, r.Spec.Limits.DeadlineSeconds = fmt.Sprintf("parked-%d", i), true, 600
			}), v1alpha1.PhaseSuspended, "the run is suspended")
		}
		expectBinding(ctx, &v1alpha1.ModelBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"}}, v1alpha1.ReasonAvailable, "")
		before := requests(ctx)
		p := aPolicy(ctx, namespace, func(s *v1alpha1.RunPolicySpec) { s.Suspend = true })
		// A run that comes after has been looked at after the change.
		seen := aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) { r.Name = "seen" })
		expectHeld(ctx, seen, v1alpha1.PhaseSuspended, "RunPolicy "+p.Name)
		throw(ctx, p, "false")
		expectEnd(ended(ctx, seen), v1alpha1.TerminationFinal, "")

		added := requests(ctx).since(before)
		Expect(added["PUT runpolicies/status"]).To(BeNumerically("<=", 2))
		// Those of the run "seen": it is held, begins, and ends.
		Expect(added["PUT agentruns/status"]).To(BeNumerically("<=", 3), fmt.Sprint(added))
	})
})
