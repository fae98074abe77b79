// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/test/chatserver"
)

// anAgent makes the tool "delegate", which starts child runs of the model "small".
func anAgent(ctx context.Context, namespace string, mutate ...func(*v1alpha1.AgentBackend)) {
	GinkgoHelper()
	agent := &v1alpha1.AgentBackend{Model: &v1alpha1.ModelSelection{Name: "small"}, Limits: v1alpha1.RunLimits{MaxSteps: 3, MaxToolCalls: new(int32(3))}}
	for _, m := range mutate {
		m(agent)
	}
	create(ctx, &v1alpha1.ToolBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "delegate"},
		Spec: v1alpha1.ToolBindingSpec{
			Description: "Looks into a question.", Effect: v1alpha1.EffectReadOnly, InputSchema: &runtime.RawExtension{Raw: []byte(anySchema)},
			Backend: v1alpha1.ToolBackend{Agent: agent},
		},
	})
}

// childrenOf are the runs that a run has started.
func childrenOf(ctx context.Context, r *v1alpha1.AgentRun) []v1alpha1.AgentRun {
	GinkgoHelper()
	var all v1alpha1.AgentRunList
	Expect(admin.List(ctx, &all, client.InNamespace(r.Namespace))).To(Succeed())
	var children []v1alpha1.AgentRun
	for _, c := range all.Items {
		if c.Spec.Parent != nil && c.Spec.Parent.UID == string(r.UID) {
			children = append(children, c)
		}
	}
	return children
}

// onlyChild waits for the child of a run.
func onlyChild(ctx context.Context, r *v1alpha1.AgentRun) *v1alpha1.AgentRun {
	GinkgoHelper()
	var children []v1alpha1.AgentRun
	Eventually(ctx, func() []v1alpha1.AgentRun { children = childrenOf(ctx, r); return children }, patience).Should(HaveLen(1))
	return &children[0]
}

var _ = Describe("a tree of runs", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	It("gives the child's answer to its parent, and charges what it used", func(ctx SpecContext) {
		tools.answers("leaf", `"42"`)
		aTool(ctx, namespace, "leaf")
		aModel(ctx, namespace, asks(call("delegate", `{"q":"why"}`)), says("It is 42.", "The child says 42."))
		create(ctx, scripted(namespace, "small", asks(call("leaf", `{"q":"x"}`)), says("The child says 42.", "42")))
		anAgent(ctx, namespace, func(a *v1alpha1.AgentBackend) { a.Tools = []v1alpha1.ToolSelection{{Name: "leaf"}} })
		r := ended(ctx, aRun(ctx, namespace, []string{"delegate", "leaf"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		child := onlyChild(ctx, r)
		expectEnd(child, v1alpha1.TerminationFinal, "")
		Expect(child.Spec.Goal).To(Equal(`{"q":"why"}`))
		Expect(child.Spec.RequestedBy).To(Equal(r.Spec.RequestedBy))
		Expect(child.Spec.ServiceAccountName).To(Equal(r.Spec.ServiceAccountName))
		Expect(child.Status.Deadline.Time).NotTo(BeTemporally(">", r.Status.Deadline.Time))
		Expect(r.Status.Usage.Children).To(HaveValue(Equal(int32(1))))
		Expect(r.Status.Usage.ChildSteps).To(HaveValue(Equal(child.Status.Step)))
		Expect(*r.Status.Usage.ToolCalls).To(Equal(1 + *child.Status.Usage.ToolCalls))
		Expect(*r.Status.Usage.ModelCalls).To(Equal(2 + *child.Status.Usage.ModelCalls))
		Eventually(ctx, func() []string { return onlyChild(ctx, r).Finalizers }, patience).Should(BeEmpty())
	})

	It("tells the parent that a child came to no answer, and goes on", func(ctx SpecContext) {
		aModel(ctx, namespace, asks(call("delegate", `{"q":"why"}`)), says("So be it.", "ChildFailed", "MaxSteps"))
		create(ctx, scripted(namespace, "small", asks(call("nothing", `{}`)), asks(call("nothing", `{}`))))
		anAgent(ctx, namespace, func(a *v1alpha1.AgentBackend) { a.Limits.MaxSteps = 1 })
		expectEnd(ended(ctx, aRun(ctx, namespace, []string{"delegate"})), v1alpha1.TerminationFinal, "")
	})

	It("ends from the root down when somebody cancels", func(ctx SpecContext) {
		hold := make(chan struct{})
		DeferCleanup(func() { close(hold) })
		tools.on("deepest", func(_ http.ResponseWriter, r *http.Request, _ received) {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		})
		aTool(ctx, namespace, "deepest")
		aModel(ctx, namespace, asks(call("delegate", `{"q":"why"}`)), says("never"))
		create(ctx, scripted(namespace, "small", asks(call("deepest", `{"q":"x"}`)), says("never")))
		anAgent(ctx, namespace, func(a *v1alpha1.AgentBackend) { a.Tools = []v1alpha1.ToolSelection{{Name: "deepest"}} })
		r := aRun(ctx, namespace, []string{"delegate", "deepest"})
		child := onlyChild(ctx, r)
		eventually(ctx, child, func(g Gomega, now *v1alpha1.AgentRun) {
			g.Expect(now.Status.Calls).To(ContainElement(HaveField("State", v1alpha1.CallExecuting)))
		})
		Eventually(ctx, func() error {
			if err := admin.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
				return err
			}
			r.Spec.Cancel = &v1alpha1.Cancellation{Reason: "enough"}
			return admin.Update(ctx, r)
		}, patience).Should(Succeed())
		expectEnd(ended(ctx, child), v1alpha1.TerminationCancelled, "")
		expectEnd(ended(ctx, r), v1alpha1.TerminationCancelled, "")
	})

	It("answers the call of a child that is deleted", func(ctx SpecContext) {
		hold := make(chan struct{})
		model := chatserver.New(func(chatserver.Request) chatserver.Answer {
			a := chatserver.Text("late")
			a.Hold = hold
			return a
		})
		server := httptest.NewServer(model)
		DeferCleanup(func() { close(hold); model.Close(); server.CloseClientConnections(); server.Close() })
		aModel(ctx, namespace, asks(call("delegate", `{"q":"why"}`)), says("So be it.", "ChildFailed", "Cancelled"))
		create(ctx, &v1alpha1.ModelBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
			Spec:       v1alpha1.ModelBindingSpec{OpenAI: &v1alpha1.OpenAIModel{BaseURL: server.URL + "/v1", Model: "test"}},
		})
		anAgent(ctx, namespace)
		r := aRun(ctx, namespace, []string{"delegate"})
		Eventually(ctx, model.Seen, patience).Should(Equal(1))
		child := onlyChild(ctx, r)
		Expect(admin.Delete(ctx, child)).To(Succeed())
		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		// The request was lost, so all that it could have used is charged.
		Expect(r.Status.Usage.UnreportedModelCalls).To(HaveValue(BeNumerically(">=", int32(1))))
		Eventually(ctx, func() bool { return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(child), child)) }, patience).Should(BeTrue())
	})

	It("is told when another run has the name of its child, and goes on", func(ctx SpecContext) {
		aModel(ctx, namespace, asks(call("delegate", `{"q":"why"}`)), says("So be it.", "ChildRefused"))
		create(ctx, scripted(namespace, "small", says("never")))
		anAgent(ctx, namespace)
		r := aRun(ctx, namespace, []string{"delegate"}, func(r *v1alpha1.AgentRun) { r.Spec.Suspend = true })
		name := fmt.Sprintf("run-s1c1-%x", sha256.Sum256([]byte(string(r.UID)+"/s1c1")))[:len("run-s1c1-")+8]
		aRun(ctx, namespace, nil, func(other *v1alpha1.AgentRun) { other.Name, other.Spec.Suspend = name, true })
		throw(ctx, r, "false")
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(childrenOf(ctx, r)).To(BeEmpty())
	})

	It("does not let anybody else make a child", func(ctx SpecContext) {
		forged := &v1alpha1.AgentRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "forged"},
			Spec: v1alpha1.AgentRunSpec{
				Goal: "Spend.", Model: v1alpha1.ModelSelection{Name: "model"},
				Parent: &v1alpha1.ParentReference{Name: "run", UID: "u", CallID: "s1c1", Deadline: metav1.Now()},
			},
		}
		Expect(admin.Create(ctx, forged)).To(MatchError(ContainSubstring("spec.parent is written by the Interlock operator")))
	})

	It("keeps one limit of cost with 50 children, and an operator that is killed again and again", func(ctx SpecContext) {
		model := chatserver.New(func(r chatserver.Request) chatserver.Answer {
			a := chatserver.Text("Done.")
			a.Completion.Usage = reports(r)
			return a
		})
		server := httptest.NewServer(model)
		DeferCleanup(func() { model.Close(); server.CloseClientConnections(); server.Close() })
		small := &v1alpha1.ModelBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
			Spec: v1alpha1.ModelBindingSpec{
				OpenAI: &v1alpha1.OpenAIModel{BaseURL: server.URL + "/v1", Model: "test"}, MaxOutputTokens: 1000,
				Price: &v1alpha1.ModelPrice{Input: "1", CachedInput: "0.5", Output: "5", Reasoning: "6"}, Retry: v1alpha1.RetryPolicy{BackoffMilliseconds: 10},
			},
		}
		create(ctx, small)
		var script []v1alpha1.ScriptedTurn
		for turn := range 5 {
			var ten []v1alpha1.ScriptedCall
			for i := range 10 {
				ten = append(ten, call("delegate", fmt.Sprintf(`{"q":"%d"}`, turn*10+i)))
			}
			script = append(script, asks(ten...))
		}
		parent := scripted(namespace, "model", append(script, says("All done."))...)
		parent.Spec.Price, parent.Spec.MaxOutputTokens = &v1alpha1.ModelPrice{Input: "0.000001", Output: "0.000001"}, 100
		create(ctx, parent)
		anAgent(ctx, namespace, func(a *v1alpha1.AgentBackend) {
			a.Limits.MaxInputTokens, a.Limits.MaxOutputTokens, a.Limits.MaxCost = 20_000, 2000, "0.012"
		})
		r := aRun(ctx, namespace, []string{"delegate"}, func(r *v1alpha1.AgentRun) {
			r.Spec.Limits = v1alpha1.RunLimits{
				DeadlineSeconds: 300, MaxSteps: 500, MaxToolCalls: new(int32(1000)), MaxChildren: new(int32(50)), MaxCost: "0.2", Parallelism: 8,
				MaxRepeats: 1000,
			}
		})
		for kill := range 5 {
			Eventually(ctx, func(g Gomega) {
				g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(r), r)).To(Succeed())
				g.Expect(r.Status.Termination != nil || model.Seen() > 5*kill+2).To(BeTrue())
			}, patience).Should(Succeed())
			interlock.restart()
		}
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(r), r)).To(Succeed())
			g.Expect(r.Status.Termination).NotTo(BeNil(), summary(r))
		}, 4*patience).Should(Succeed())

		expectEnd(r, v1alpha1.TerminationFinal, "")
		// By hand, in millionths; the provider bills requests that were lost with the operator, too.
		var bill int64
		for _, request := range model.Requests() {
			bill += 300 + 50 + 10*6 + (request.Chat.MaxCompletionTokens-10)*5
		}
		Expect(bill).To(And(BeNumerically(">", 100_000), BeNumerically("<=", 200_000)))
		children := childrenOf(ctx, r)
		Expect(len(children)).To(BeNumerically("<=", 50))
		for _, c := range children {
			Expect(c.Status.Termination).NotTo(BeNil())
		}
		Expect(*r.Status.Usage.Children).To(Equal(int32(len(children))))
	})

	It("lets a child go that is deleted with its parent while the operator is down", func(ctx SpecContext) {
		hold := make(chan struct{})
		model := chatserver.New(func(chatserver.Request) chatserver.Answer { a := chatserver.Text("late"); a.Hold = hold; return a })
		server := httptest.NewServer(model)
		DeferCleanup(func() { close(hold); model.Close(); server.CloseClientConnections(); server.Close() })
		aModel(ctx, namespace, asks(call("delegate", `{"q":"why"}`)), says("So be it."))
		create(ctx, &v1alpha1.ModelBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
			Spec:       v1alpha1.ModelBindingSpec{OpenAI: &v1alpha1.OpenAIModel{BaseURL: server.URL + "/v1", Model: "test"}},
		})
		anAgent(ctx, namespace)
		r := aRun(ctx, namespace, []string{"delegate"})
		Eventually(ctx, model.Seen, patience).Should(Equal(1))
		child := onlyChild(ctx, r)
		interlock.kill()
		Expect(admin.Delete(ctx, r, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Eventually(ctx, func() bool {
			return admin.Get(ctx, client.ObjectKeyFromObject(child), child) == nil && !child.DeletionTimestamp.IsZero()
		}, patience).Should(BeTrue())
		interlock.start()
		Eventually(ctx, func() bool { return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(child), child)) }, "15s").Should(BeTrue(), summary(child))
	})

	It("lets nobody but the operator take away what holds a child", func(ctx SpecContext) {
		hold := make(chan struct{})
		small := anOpenAIModel(ctx, namespace, "small", func(chatserver.Request) chatserver.Answer { a := chatserver.Text("late"); a.Hold = hold; return a })
		aModel(ctx, namespace, asks(call("delegate", `{"q":"why"}`)), says("So be it."))
		anAgent(ctx, namespace)
		r := aRun(ctx, namespace, []string{"delegate"})
		Eventually(ctx, small.Seen, patience).Should(Equal(1))
		child := onlyChild(ctx, r)
		loose := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		Expect(admin.Patch(ctx, child, loose)).To(refusedWith("the finalizers interlock.dev/ are the Interlock operator's"))
		eventually(ctx, r, func(g Gomega, now *v1alpha1.AgentRun) {
			g.Expect(now.Status.Calls).To(ConsistOf(HaveField("ChildUID", string(child.UID))))
		})
		close(hold)
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
	})
})
