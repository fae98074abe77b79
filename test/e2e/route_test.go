// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/test/chatserver"
)

// routed has a run choose among models, with the chooser "judge" if it is to have one.
func routed(chooser string, candidates ...string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		router := &v1alpha1.ModelRouter{Chooser: chooser}
		for _, name := range candidates {
			router.Candidates = append(router.Candidates, v1alpha1.ModelCandidate{Name: name, Purpose: "Fit for " + name + " questions."})
		}
		r.Spec.Model = v1alpha1.ModelSelection{Router: router}
	}
}

// chooses is the turn of a chooser.
func chooses(choice, reason string, expected ...string) v1alpha1.ScriptedTurn {
	turn := asks(call("route", `{"choice":"`+choice+`","reason":"`+reason+`"}`))
	turn.Expect = shown(expected...)
	turn.Usage = &v1alpha1.ScriptedUsage{Input: new(int64(100)), Output: new(int64(20))}
	return turn
}

// models makes a scripted model for each name that says the name and nothing else.
func models(ctx context.Context, namespace string, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		create(ctx, scripted(namespace, name, says("It is "+name+".")))
	}
}

// anOpenAIModel makes the model name of a server that speaks Chat Completions.
func anOpenAIModel(ctx context.Context, namespace, name string, answer func(chatserver.Request) chatserver.Answer) *chatserver.Server {
	GinkgoHelper()
	server := chatserver.New(answer)
	listener := httptest.NewServer(server)
	DeferCleanup(func() { server.Close(); listener.CloseClientConnections(); listener.Close() })
	b := scripted(namespace, name)
	b.Spec.Scripted, b.Spec.OpenAI = nil, &v1alpha1.OpenAIModel{BaseURL: listener.URL + "/v1", Model: "test"}
	create(ctx, b)
	return server
}

func answers(text string) chatserver.Answer {
	return chatserver.Answer{Completion: &chatserver.Completion{Text: text, Usage: &chatserver.Usage{Prompt: 10, Completion: 5}}}
}

func overloaded(chatserver.Request) chatserver.Answer {
	return chatserver.Answer{Status: http.StatusServiceUnavailable, Body: `{"error":{"message":"overloaded"}}`}
}

var _ = Describe("the route of a run", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	It("is what its chooser says, whose step and tokens are the run's", func(ctx SpecContext) {
		models(ctx, namespace, "small")
		large := anOpenAIModel(ctx, namespace, "large", func(chatserver.Request) chatserver.Answer { return answers("It is large.") })
		create(ctx, scripted(namespace, "judge", chooses("large", "It is a hard one.", "Find it out.", "- small: Fit for small questions.", "- large")))
		r := ended(ctx, aRun(ctx, namespace, nil, routed("judge", "small", "large")))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(r.Status.Result.Text).To(Equal("It is large."))
		Expect(r.Status.Route).To(HaveValue(And(
			HaveField("Model", "large"), HaveField("Reason", v1alpha1.RouteChosen), HaveField("FromModel", "It is a hard one."), HaveField("Excluded", BeEmpty()))))
		Expect(r.Status.Step).To(BeEquivalentTo(2))
		Expect(r.Status.Usage.ModelCalls).To(HaveValue(BeEquivalentTo(2)))
		Expect(r.Status.Usage.InputTokens).To(HaveValue(BeEquivalentTo(110)))
		Expect(r.Status.Usage.OutputTokens).To(HaveValue(BeEquivalentTo(25)))
		journal := turns(ctx, r)
		Expect(journal).To(HaveLen(2))
		Expect(journal[0].Spec.Purpose).To(Equal(v1alpha1.TurnRoute))
		Expect(journal[1].Spec.Purpose).To(BeEmpty())
		expectEvent(ctx, r, v1alpha1.ReasonRouted, "the run asks ModelBinding large (Chosen)")

		By("showing the model nothing of it")
		request := large.Requests()[0]
		Expect(request.Chat.Messages).To(HaveLen(2))
		Expect(request.Chat.Messages[1].Content).To(Equal("Find it out."))
		Expect(string(request.Body)).NotTo(ContainSubstring("hard one"))
	})

	It("leaves out what does not meet the rules, and says why", func(ctx SpecContext) {
		models(ctx, namespace, "blind", "public", "dear", "fit")
		able := func(name, price string, classes, capabilities []v1alpha1.Label) {
			b := &v1alpha1.ModelBinding{}
			Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b)).To(Succeed())
			before := b.DeepCopy()
			b.Spec.DataClasses, b.Spec.Capabilities, b.Spec.Price = classes, capabilities, &v1alpha1.ModelPrice{Input: "1", Output: v1alpha1.UnitPrice(price)}
			Expect(admin.Patch(ctx, b, client.MergeFrom(before))).To(Succeed())
		}
		confidential, vision := []v1alpha1.Label{"public", "confidential"}, []v1alpha1.Label{"vision"}
		able("blind", "5", confidential, nil)
		able("public", "5", []v1alpha1.Label{"public"}, vision)
		able("dear", "5.01", confidential, vision)
		able("fit", "5", confidential, vision)
		r := ended(ctx, aRun(ctx, namespace, nil, routed("", "blind", "absent", "public", "dear", "fit"), func(r *v1alpha1.AgentRun) {
			r.Spec.Model.Requires = &v1alpha1.ModelRequirements{
				DataClasses: []v1alpha1.Label{"confidential"}, Capabilities: vision, MaxPrice: &v1alpha1.PriceCeiling{Input: "1", Output: "5"},
			}
		}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(r.Status.Result.Text).To(Equal("It is fit."))
		Expect(r.Status.Route).To(HaveValue(And(HaveField("Model", "fit"), HaveField("Reason", v1alpha1.RoutePreferred), HaveField("Excluded", ConsistOf(
			v1alpha1.ExcludedModel{Name: "absent", Message: "ModelBinding absent does not exist"},
			v1alpha1.ExcludedModel{Name: "blind", Message: "ModelBinding blind lacks the capability vision (spec.capabilities)"},
			v1alpha1.ExcludedModel{Name: "public", Message: "ModelBinding public may not be shown data of class confidential (spec.dataClasses)"},
			v1alpha1.ExcludedModel{Name: "dear", Message: "ModelBinding dear costs 5.01 a million tokens of output, and the run pays at most 5"},
		)))))
	})

	It("waits for a candidate that meets the rules", func(ctx SpecContext) {
		models(ctx, namespace, "model")
		requires := &v1alpha1.ModelRequirements{DataClasses: []v1alpha1.Label{"confidential"}}
		fixed := aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) { r.Name, r.Spec.Model.Requires = "fixed", requires })
		free := aRun(ctx, namespace, nil, routed("", "model"), func(r *v1alpha1.AgentRun) { r.Spec.Model.Requires = requires })
		expectHeld(ctx, fixed, v1alpha1.PhasePending, "ModelBinding model may not be shown data of class confidential")
		expectHeld(ctx, free, v1alpha1.PhasePending, "no candidate of the router can be asked: ModelBinding model may not be shown data of class confidential")

		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"dataClasses":["confidential"]}}`))
		Expect(admin.Patch(ctx, scripted(namespace, "model"), patch)).To(Succeed())
		expectEnd(ended(ctx, fixed), v1alpha1.TerminationFinal, "")
		expectEnd(ended(ctx, free), v1alpha1.TerminationFinal, "")
	})

	It("falls back when a model is overloaded, stays there, and survives a kill on the way", func(ctx SpecContext) {
		first := anOpenAIModel(ctx, namespace, "first", overloaded)
		hold := make(chan struct{})
		second := anOpenAIModel(ctx, namespace, "second", func(r chatserver.Request) chatserver.Answer {
			if len(r.Chat.Messages) == 2 {
				return chatserver.Answer{Hold: hold, Completion: &chatserver.Completion{Calls: []chatserver.Call{{ID: "c", Name: "routing", Arguments: `{"q":"x"}`}}}}
			}
			return answers("Done.")
		})
		tools.answers("routing", `"found"`)
		aTool(ctx, namespace, "routing")
		r := aRun(ctx, namespace, []string{"routing"}, routed("", "first", "second"))
		Eventually(ctx, second.Seen, patience).Should(Equal(1))
		interlock.restart()
		Eventually(ctx, second.Seen, patience).Should(Equal(2))
		close(hold)

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(first.Seen()).To(Equal(3), "the attempts that its binding allows")
		Expect(r.Status.Route).To(HaveValue(And(
			HaveField("Model", "second"), HaveField("Reason", v1alpha1.RouteFallback), HaveField("Message", "ModelBinding first could not be asked (Unavailable)."))))
		Expect(r.Status.Usage.ModelCalls).To(HaveValue(BeEquivalentTo(3 + 2 + 1)))
		expectEvent(ctx, r, v1alpha1.ReasonRouted, "the run asks ModelBinding second (Fallback)")
	})

	It("ends once every candidate is overloaded", func(ctx SpecContext) {
		one, two := anOpenAIModel(ctx, namespace, "one", overloaded), anOpenAIModel(ctx, namespace, "two", overloaded)
		r := ended(ctx, aRun(ctx, namespace, nil, routed("", "one", "two")))
		expectEnd(r, v1alpha1.TerminationModelFailed, "Unavailable")
		Expect([]int{one.Seen(), two.Seen()}).To(Equal([]int{3, 3}))
	})

	It("goes on elsewhere when its model may not be asked any more, or is held and says why", func(ctx SpecContext) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		tools.on("turning", func(w http.ResponseWriter, _ *http.Request, c received) {
			close(begun)
			<-goOn
			answer(w, c, `"found"`)
		})
		aTool(ctx, namespace, "turning")
		create(ctx, scripted(namespace, "a", asks(call("turning", `{"q":"x"}`)), says("It is a.")))
		create(ctx, scripted(namespace, "b", says("Never."), says("It is b.", "found")))
		r := aRun(ctx, namespace, []string{"turning"}, routed("", "a", "b"))
		Eventually(ctx, begun, patience).Should(BeClosed())
		throw(ctx, scripted(namespace, "a"), "true")
		throw(ctx, scripted(namespace, "b"), "true")
		close(goOn)
		expectHeld(ctx, r, v1alpha1.PhaseThinking, "no candidate of the router can be asked: ModelBinding a is suspended; ModelBinding b is suspended")
		throw(ctx, scripted(namespace, "b"), "false")

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(r.Status.Result.Text).To(Equal("It is b."))
		Expect(r.Status.Route.Message).To(Equal("The model before could not be asked any more: ModelBinding a is suspended."))
	})

	It("is the first candidate when the chooser is no help", func(ctx SpecContext) {
		models(ctx, namespace, "small", "large")
		create(ctx, scripted(namespace, "liar", chooses("https://elsewhere.example/v1", "Trust me.")))
		create(ctx, scripted(namespace, "babbler", says("I would take large.")))
		broken := scripted(namespace, "broken", v1alpha1.ScriptedTurn{
			Text: "Never.", Fail: &v1alpha1.ScriptedFailure{Times: 9, Reason: "Unauthorized"},
		})
		create(ctx, broken)
		for chooser, invalid := range map[string]int{"liar": 1, "babbler": 1, "broken": 0, "absent": 0} {
			r := ended(ctx, aRun(ctx, namespace, nil, routed(chooser, "small", "large"), func(r *v1alpha1.AgentRun) { r.Name = chooser }))
			expectEnd(r, v1alpha1.TerminationFinal, "")
			Expect(r.Status.Result.Text).To(Equal("It is small."), chooser)
			Expect(r.Status.Route).To(HaveValue(And(HaveField("Model", "small"), HaveField("Reason", v1alpha1.RouteDefault))), chooser)
			Expect(r.Status.Usage.Invalid).To(HaveValue(BeEquivalentTo(invalid)), chooser)
		}
	})

	It("ends where the chooser refuses the task, or hands it to a person", func(ctx SpecContext) {
		models(ctx, namespace, "small", "large")
		create(ctx, scripted(namespace, "strict", chooses("REFUSE", "It is none of our business.")))
		create(ctx, scripted(namespace, "careful", chooses("HAND_OVER", "Ask \\u202eAnn. "+strings.Repeat("x", 600))))
		r := ended(ctx, aRun(ctx, namespace, nil, routed("strict", "small", "large")))
		expectEnd(r, v1alpha1.TerminationPolicyDenied, "RouteRefused")
		Expect(r.Status.Route).To(HaveValue(And(HaveField("Model", ""), HaveField("FromModel", "It is none of our business."))))
		Expect(r.Status.Termination.Message).NotTo(ContainSubstring("business"))

		r = ended(ctx, aRun(ctx, namespace, nil, routed("careful", "small", "large"), func(r *v1alpha1.AgentRun) { r.Name = "other" }))
		expectEnd(r, v1alpha1.TerminationPolicyDenied, "HandedOver")
		Expect(r.Status.Route.FromModel).To(And(HavePrefix("Ask Ann. xxx"), HaveLen(512)))
	})

	It("keeps the data classes of a run for its children", func(ctx SpecContext) {
		b := scripted(namespace, "model", asks(call("delegate", `{"q":"x"}`)), says("Done."))
		b.Spec.DataClasses = []v1alpha1.Label{"confidential"}
		create(ctx, b)
		models(ctx, namespace, "open")
		anAgent(ctx, namespace, func(a *v1alpha1.AgentBackend) { a.Model.Name = "open" })
		r := aRun(ctx, namespace, []string{"delegate"}, func(r *v1alpha1.AgentRun) {
			r.Spec.Model.Requires = &v1alpha1.ModelRequirements{DataClasses: []v1alpha1.Label{"confidential"}}
		})
		expectHeld(ctx, onlyChild(ctx, r), v1alpha1.PhasePending, "ModelBinding open may not be shown data of class confidential")
	})
})
