// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/test/chatserver"
)

// aPricedModel makes the model "model" of a chat server: a token in costs 1, one out 5, in millionths of the unit.
func aPricedModel(ctx context.Context, namespace, url string) {
	GinkgoHelper()
	create(ctx, &v1alpha1.ModelBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"},
		Spec: v1alpha1.ModelBindingSpec{
			OpenAI:          &v1alpha1.OpenAIModel{BaseURL: url + "/v1", Model: "test"},
			Price:           &v1alpha1.ModelPrice{Input: "1", CachedInput: "0.5", Output: "5", Reasoning: "6"},
			MaxOutputTokens: 1000, Retry: v1alpha1.RetryPolicy{BackoffMilliseconds: 10},
		},
	})
}

// aSpender is a model that calls the tool "again" for ever, with answers that are as long as they may be. It reports what
// used says; its bill is always what it used.
func aSpender(used func(chatserver.Request) *chatserver.Usage) (*chatserver.Server, string) {
	model := chatserver.New(func(r chatserver.Request) chatserver.Answer {
		return chatserver.Answer{Completion: &chatserver.Completion{
			Calls: []chatserver.Call{{ID: "c", Name: "again", Arguments: fmt.Sprintf(`{"q":"%d"}`, r.N)}}, Usage: used(r),
		}}
	})
	server := httptest.NewServer(model)
	DeferCleanup(func() { model.Close(); server.CloseClientConnections(); server.Close() })
	return model, server.URL
}

func reports(r chatserver.Request) *chatserver.Usage {
	return &chatserver.Usage{Prompt: 400, Cached: 100, Completion: r.Chat.MaxCompletionTokens, Reasoning: 10}
}

func reportsNothing(chatserver.Request) *chatserver.Usage { return nil }

var _ = Describe("the budget of a run", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = aNamespace(ctx)
		tools.answers("again", `"more"`)
		aTool(ctx, namespace, "again")
	})

	limited := func(change func(*v1alpha1.RunLimits)) func(*v1alpha1.AgentRun) {
		return func(r *v1alpha1.AgentRun) { change(&r.Spec.Limits) }
	}

	It("ends it before the cost would be passed, and the last answers are as short as what is left", func(ctx SpecContext) {
		model, url := aSpender(reports)
		aPricedModel(ctx, namespace, url)
		r := ended(ctx, aRun(ctx, namespace, []string{"again"}, limited(func(l *v1alpha1.RunLimits) { l.MaxCost = "0.02" })))

		expectEnd(r, v1alpha1.TerminationBudget, "Cost")
		// By hand: 300 tokens in at 1, 100 cached at 0.5, 10 reasoning at 6 and the others at 5, in millionths.
		var bill int64
		for _, request := range model.Requests() {
			bill += 300 + 50 + 10*6 + (request.Chat.MaxCompletionTokens-10)*5
		}
		Expect(bill).To(BeNumerically("<=", 20_000))
		Expect(r.Status.Usage.Cost).To(Equal(v1alpha1.Amount(strings.TrimRight(fmt.Sprintf("0.%06d", bill), "0"))))
		requests := model.Requests()
		Expect(requests[0].Chat.MaxCompletionTokens).To(Equal(int64(1000)))
		Expect(requests[len(requests)-1].Chat.MaxCompletionTokens).To(BeNumerically("<", 1000))
	})

	It("ends it before the output tokens would be passed", func(ctx SpecContext) {
		model, url := aSpender(reports)
		aPricedModel(ctx, namespace, url)
		r := ended(ctx, aRun(ctx, namespace, []string{"again"}, limited(func(l *v1alpha1.RunLimits) { l.MaxOutputTokens = 2500 })))

		expectEnd(r, v1alpha1.TerminationBudget, "OutputTokens")
		var asked []int64
		for _, request := range model.Requests() {
			asked = append(asked, request.Chat.MaxCompletionTokens)
		}
		Expect(asked).To(Equal([]int64{1000, 1000, 500}))
		Expect(*r.Status.Usage.OutputTokens).To(Equal(int64(2500)))
	})

	It("ends it before the input tokens would be passed, and charges what is not reported as it was reserved", func(ctx SpecContext) {
		model, url := aSpender(reportsNothing)
		aPricedModel(ctx, namespace, url)
		r := ended(ctx, aRun(ctx, namespace, []string{"again"}, limited(func(l *v1alpha1.RunLimits) { l.MaxInputTokens = 10_000 })))

		expectEnd(r, v1alpha1.TerminationBudget, "InputTokens")
		// A token has at least one byte, so no provider can charge more than this.
		var bytes int64
		for _, request := range model.Requests() {
			bytes += int64(len(request.Body))
		}
		Expect(*r.Status.Usage.InputTokens).To(And(BeNumerically(">=", bytes), BeNumerically("<=", 10_000)))
		Expect(*r.Status.Usage.UnreportedModelCalls).To(Equal(*r.Status.Usage.ModelCalls))
	})

	It("is charged for a request that was lost with the operator", func(ctx SpecContext) {
		hold := make(chan struct{})
		model := chatserver.New(func(r chatserver.Request) chatserver.Answer {
			a := chatserver.Text("Done.")
			a.Completion.Usage = &chatserver.Usage{Prompt: 10, Completion: 10}
			if r.N == 1 {
				a.Hold = hold
			}
			return a
		})
		server := httptest.NewServer(model)
		DeferCleanup(func() { close(hold); model.Close(); server.CloseClientConnections(); server.Close() })
		aPricedModel(ctx, namespace, server.URL)
		r := aRun(ctx, namespace, nil)
		Eventually(ctx, model.Seen, patience).Should(Equal(1))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(r), r)).To(Succeed())
		reserved := r.Status.ModelCall.Reserved
		Expect(reserved).NotTo(BeNil())
		interlock.restart()

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(*r.Status.Usage.InputTokens).To(Equal(*reserved.InputTokens + 10))
		Expect(*r.Status.Usage.OutputTokens).To(Equal(*reserved.OutputTokens + 10))
	})

	It("can't hold a cost that nobody can know", func(ctx SpecContext) {
		aModel(ctx, namespace, says("done"))
		refused := &v1alpha1.AgentRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "unpriced"},
			Spec: v1alpha1.AgentRunSpec{
				Goal: "Spend.", Model: v1alpha1.ModelSelection{Name: "model"}, Limits: v1alpha1.RunLimits{MaxCost: "1"},
			},
		}
		// The API server learns of a new binding a moment after it has stored it.
		Eventually(ctx, func() error { return admin.Create(ctx, refused.DeepCopy(), client.DryRunAll) }, patience).Should(
			And(Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring("spec.limits.maxCost needs models with a price"))))

		By("applying the run before its model, which is checked later")
		refused.Spec.Model.Name = "later"
		create(ctx, refused)
		create(ctx, scripted(namespace, "later", says("done")))
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(refused), refused)).To(Succeed())
			g.Expect(refused.Status.Phase).To(Equal(v1alpha1.PhasePending))
			g.Expect(refused.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring("has no price"))))
		}, patience).Should(Succeed())
		Eventually(ctx, func() error {
			b := &v1alpha1.ModelBinding{}
			if err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "later"}, b); err != nil {
				return err
			}
			b.Spec.Price = &v1alpha1.ModelPrice{Input: "1", Output: "1"}
			return admin.Update(ctx, b)
		}, patience).Should(Succeed())
		expectEnd(ended(ctx, refused), v1alpha1.TerminationFinal, "")
	})
})
