// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/test/chatserver"
)

// stepOf is the step that a request is for: one more than the answers of the model that it shows.
func stepOf(r chatserver.Request) int {
	step := 1
	for _, m := range r.Chat.Messages {
		if m.Role == "assistant" {
			step++
		}
	}
	return step
}

// aChatModel makes the model "model" of a server that speaks Chat Completions.
func aChatModel(ctx context.Context, namespace, url string) {
	GinkgoHelper()
	create(ctx, &v1alpha1.ModelBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"},
		Spec: v1alpha1.ModelBindingSpec{
			OpenAI: &v1alpha1.OpenAIModel{BaseURL: url + "/v1", Model: "test"}, Retry: v1alpha1.RetryPolicy{BackoffMilliseconds: 10},
		},
	})
}

// asked counts the requests for each step.
func asked(server *chatserver.Server) map[int]int {
	counts := map[int]int{}
	for _, r := range server.Requests() {
		counts[stepOf(r)]++
	}
	return counts
}

var _ = Describe("an operator that is killed", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	It("goes on after a restart as if nothing had happened, and asks for no answer that is in a Turn", func(ctx SpecContext) {
		const steps = 5
		think := make(chan struct{})
		thinks := sync.OnceFunc(func() { close(think) })
		DeferCleanup(thinks)
		model := chatserver.New(func(r chatserver.Request) chatserver.Answer {
			switch step := stepOf(r); {
			case step > steps:
				return chatserver.Text("Five lookups later.")
			default:
				a := chatserver.Answer{Completion: &chatserver.Completion{Calls: []chatserver.Call{
					{ID: fmt.Sprint("call", step), Name: "step", Arguments: fmt.Sprintf(`{"q":"%d"}`, step)},
				}}}
				if step == 3 {
					a.Hold = think
				}
				return a
			}
		})
		server := httptest.NewServer(model)
		DeferCleanup(func() { thinks(); model.Close(); server.CloseClientConnections(); server.Close() })

		// The tool holds back its first answer to steps 2 and 4, so that the operator can be killed while it waits.
		held := map[string]chan struct{}{`{"q":"2"}`: make(chan struct{}), `{"q":"4"}`: make(chan struct{})}
		tools.on("step", func(w http.ResponseWriter, r *http.Request, c received) {
			if hold := held[c.Arguments]; hold != nil && c.N == 1 {
				close(hold)
				<-r.Context().Done()
				return
			}
			answer(w, c, c.Arguments)
		})
		aTool(ctx, namespace, "step")
		aChatModel(ctx, namespace, server.URL)
		r := aRun(ctx, namespace, []string{"step"})

		By("killing it while a tool is being called")
		Eventually(ctx, held[`{"q":"2"}`], patience).Should(BeClosed())
		interlock.restart()
		By("killing it while the model is thinking")
		Eventually(ctx, func() int { return asked(model)[3] }, patience).Should(Equal(1))
		interlock.kill()
		thinks()
		interlock.start()
		By("killing it while a tool is being called again")
		Eventually(ctx, held[`{"q":"4"}`], patience).Should(BeClosed())
		interlock.restart()

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(r.Status.Result.Text).To(Equal("Five lookups later."))
		Expect(asked(model)).To(Equal(map[int]int{1: 1, 2: 1, 3: 2, 4: 1, 5: 1, 6: 1}), "only the answer that never came is asked for again")
		Expect(turns(ctx, r)).To(HaveLen(steps + 1))
		operations := map[string]string{}
		for _, c := range tools.received("step") {
			Expect(operations).To(Or(Not(HaveKey(c.Arguments)), HaveKeyWithValue(c.Arguments, c.OperationID)))
			operations[c.Arguments] = c.OperationID
		}
		for step := 1; step <= steps; step++ {
			id := fmt.Sprintf("s%dc1", step)
			Expect(result(ctx, r, id).Data).To(Equal(fmt.Sprintf(`{"q":"%d"}`, step)))
		}
	})

	It("loses nothing of many runs, and asks for nothing that is in a Turn, however often it is killed", func(ctx SpecContext) {
		const runs, steps, kills, apart = 15, 4, 5, 12
		model := chatserver.New(func(r chatserver.Request) chatserver.Answer {
			step := stepOf(r)
			if step > steps {
				return chatserver.Text("The end.")
			}
			return chatserver.Answer{Completion: &chatserver.Completion{Calls: []chatserver.Call{
				{Name: "many", Arguments: fmt.Sprintf(`{"q":"%d"}`, step)}, {Name: "many", Arguments: `{"q":"again"}`},
			}}}
		})
		server := httptest.NewServer(model)
		DeferCleanup(func() { model.Close(); server.CloseClientConnections(); server.Close() })
		tools.on("many", func(w http.ResponseWriter, _ *http.Request, c received) { answer(w, c, c.Arguments) })
		aTool(ctx, namespace, "many")
		aChatModel(ctx, namespace, server.URL)
		var all []*v1alpha1.AgentRun
		for i := range runs {
			all = append(all, aRun(ctx, namespace, []string{"many"}, func(r *v1alpha1.AgentRun) { r.Name = fmt.Sprintf("run-%d", i) }))
		}

		// Each kill comes after so many further requests, wherever the runs are then.
		stored := map[string]int{}
		for kill := 1; kill <= kills; kill++ {
			Eventually(ctx, model.Seen, patience, time.Millisecond).Should(BeNumerically(">=", kill*apart))
			interlock.kill()
			seen := model.Seen()
			for _, r := range all {
				for _, t := range turns(ctx, r) {
					if id := fmt.Sprintf("%s/s%d", r.UID, t.Spec.Step); stored[id] == 0 {
						stored[id] = seen
					}
				}
			}
			interlock.start()
		}
		for _, r := range all {
			r = ended(ctx, r)
			expectEnd(r, v1alpha1.TerminationFinal, "")
			Expect(turns(ctx, r)).To(HaveLen(steps + 1))
			for step := 1; step <= steps; step++ {
				Expect(result(ctx, r, fmt.Sprintf("s%dc1", step)).Data).To(Equal(fmt.Sprintf(`{"q":"%d"}`, step)))
				Expect(result(ctx, r, fmt.Sprintf("s%dc2", step)).Data).To(Equal(`{"q":"again"}`))
			}
		}
		for n, request := range model.Requests() {
			id := request.Header.Get("X-Client-Request-Id")
			Expect(id).NotTo(BeEmpty())
			if at, ok := stored[id]; ok {
				Expect(n).To(BeNumerically("<", at), "%s was asked for again, with its answer in a Turn", id)
			}
		}
		AddReportEntry("requests to the model", fmt.Sprintf("%d for %d answers, with %d kills", model.Seen(), runs*(steps+1), kills))
	})

	It("adopts a Turn whose status write was lost", func(ctx SpecContext) {
		model := chatserver.New(chatserver.Always(chatserver.Text("After the crash.")))
		server := httptest.NewServer(model)
		DeferCleanup(func() { model.Close(); server.Close() })
		tools.answers("adopted", `"result"`)
		aTool(ctx, namespace, "adopted")
		aChatModel(ctx, namespace, server.URL)

		// The state of the world at the moment of the crash: the model was asked, and its answer is stored.
		expectUsable(ctx, namespace, "adopted")
		interlock.kill()
		r := aRun(ctx, namespace, []string{"adopted"})
		now := metav1.Now()
		r.Status = v1alpha1.AgentRunStatus{
			StateVersion: 1, Phase: v1alpha1.PhaseThinking, Step: 1, StartTime: &now, Deadline: new(metav1.NewTime(now.Add(patience))),
			ModelCall: &v1alpha1.ModelCallStatus{State: v1alpha1.ModelAsking, Attempt: 1},
			Usage:     &v1alpha1.RunUsage{ModelCalls: new(int32(1))},
		}
		Expect(asOperator.Status().Update(ctx, r)).To(Succeed())
		Expect(asOperator.Create(ctx, &v1alpha1.Turn{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: string(r.UID) + "-1", Labels: map[string]string{v1alpha1.LabelRunUID: string(r.UID)},
			},
			Spec: v1alpha1.TurnSpec{
				RunName: r.Name, RunUID: string(r.UID), Step: 1,
				Reply: v1alpha1.TurnReply{
					Time: metav1.NowMicro(), Finish: "Stop",
					Calls: []v1alpha1.TurnCall{{ID: "s1c1", Tool: "adopted", Arguments: `{"q":"x"}`}, {ID: "s1c2", Tool: "adopted", Arguments: `{"q":"y"}`}},
				},
				Results: []v1alpha1.TurnResult{{CallID: "s1c2", State: v1alpha1.CallRejected, Code: "InvalidArguments", Time: metav1.NowMicro()}},
			},
		})).To(Succeed())
		interlock.start()

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(asked(model)).To(Equal(map[int]int{2: 1}), "the answer that is stored is not asked for again")
		Expect(result(ctx, r, "s1c1").State).To(Equal(v1alpha1.CallSucceeded))
		Expect(result(ctx, r, "s1c2").Code).To(Equal("InvalidArguments"), "a refusal that is stored stands")
		Expect(tools.received("adopted")).To(HaveLen(1))
	})
})

var _ = Describe("two operators that both believe they lead", func() {
	It("bring every run to its end, with one result for each call and one Turn for each step", func(ctx SpecContext) {
		const runs, steps = 12, 3
		namespace := aNamespace(ctx)
		model := chatserver.New(func(r chatserver.Request) chatserver.Answer {
			step := stepOf(r)
			if step > steps {
				return chatserver.Text("The end.")
			}
			var calls []chatserver.Call
			for i := range 3 {
				calls = append(calls, chatserver.Call{ID: "same", Name: "shared", Arguments: fmt.Sprintf(`{"q":"%d.%d"}`, step, i)})
			}
			return chatserver.Answer{Completion: &chatserver.Completion{Calls: calls}}
		})
		server := httptest.NewServer(model)
		DeferCleanup(func() { model.Close(); server.CloseClientConnections(); server.Close() })
		tools.on("shared", func(w http.ResponseWriter, _ *http.Request, c received) { answer(w, c, c.Arguments) })
		aTool(ctx, namespace, "shared")
		aChatModel(ctx, namespace, server.URL)

		other := newOperator(ctx)
		other.start()
		DeferCleanup(other.kill)
		var all []*v1alpha1.AgentRun
		for i := range runs {
			all = append(all, aRun(ctx, namespace, []string{"shared"}, func(r *v1alpha1.AgentRun) { r.Name = fmt.Sprintf("run-%d", i) }))
		}
		for _, r := range all {
			r = ended(ctx, r)
			expectEnd(r, v1alpha1.TerminationFinal, "")
			Expect(turns(ctx, r)).To(HaveLen(steps + 1))
			for step := 1; step <= steps; step++ {
				for i := range 3 {
					Expect(result(ctx, r, fmt.Sprintf("s%dc%d", step, i+1)).Data).To(Equal(fmt.Sprintf(`{"q":"%d.%d"}`, step, i)))
				}
			}
		}
		// Reads may be made twice; what is sent twice carries one operation ID.
		operations := map[string]bool{}
		for _, c := range tools.received("shared") {
			operations[c.OperationID] = true
		}
		Expect(operations).To(HaveLen(runs * steps * 3))
	})
})
