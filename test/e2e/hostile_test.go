// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/test/chatserver"
)

var _ = Describe("a run in a hostile world", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })
	// aSlowTool is a tool whose calls arrive, and are answered once leave is closed.
	aSlowTool := func(ctx SpecContext, name string) (arrived, leave chan struct{}) {
		arrived, leave = make(chan struct{}, 100), make(chan struct{})
		tools.on(name, func(w http.ResponseWriter, r *http.Request, c received) {
			arrived <- struct{}{}
			select {
			case <-leave:
			case <-r.Context().Done():
			}
			answer(w, c, `"of `+c.OperationID+`"`)
		})
		aTool(ctx, namespace, name)
		return arrived, leave
	}

	It("that is deleted and made again under its name has nothing of the one before", func(ctx SpecContext) {
		arrived, leave := aSlowTool(ctx, "remade")
		aModel(ctx, namespace, asks(call("remade", `{"q":"x"}`)), says("The end."))
		first := aRun(ctx, namespace, []string{"remade"})
		Eventually(ctx, arrived, patience).Should(Receive())
		Expect(admin.Delete(ctx, first, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		second := aRun(ctx, namespace, []string{"remade"})
		Eventually(ctx, arrived, patience).Should(Receive())
		close(leave)

		second = ended(ctx, second)
		expectEnd(second, v1alpha1.TerminationFinal, "")
		Expect(turns(ctx, second)).To(HaveLen(2))
		got := result(ctx, second, "s1c1")
		Expect(got.Data).To(Equal(`"of ` + got.OperationID + `"`))
		Eventually(ctx, func() []v1alpha1.Turn { return turns(ctx, first) }, patience).Should(BeEmpty())
	})

	It("whose namespace is deleted is left alone", func(ctx SpecContext) {
		arrived, leave := aSlowTool(ctx, "homeless")
		aModel(ctx, namespace, asks(call("homeless", `{"q":"x"}`)), says("never"))
		r := aRun(ctx, namespace, []string{"homeless"})
		Eventually(ctx, arrived, patience).Should(Receive())
		Expect(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(r), r.DeepCopy()) }, patience).ShouldNot(Succeed())
		close(leave)
		var before count
		Eventually(ctx, func() count {
			last := before
			before = requests(ctx)
			added := before.since(last)
			delete(added, "PUT leases")
			return added
		}, patience, "2s").Should(BeEmpty(), "the operator goes on asking")
	})

	It("whose Turn was taken away ends and says so", func(ctx SpecContext) {
		arrived, leave := aSlowTool(ctx, "forgotten")
		aModel(ctx, namespace, asks(call("forgotten", `{"q":"x"}`)), says("never"))
		r := aRun(ctx, namespace, []string{"forgotten"})
		Eventually(ctx, arrived, patience).Should(Receive())
		Expect(admin.Delete(ctx, &turns(ctx, r)[0])).To(Succeed())
		interlock.restart()
		close(leave)
		expectEnd(ended(ctx, r), v1alpha1.TerminationModelFailed, "JournalUnavailable")
	})

	It("whose binding was made anew is refused the call that the old one let through", func(ctx SpecContext) {
		arrived, leave := aSlowTool(ctx, "anew")
		edit(ctx, namespace, "anew", func(b *v1alpha1.ToolBinding) { b.Spec.Concurrency.Max = 1 })
		aModel(ctx, namespace, asks(call("anew", `{"q":"1"}`), call("anew", `{"q":"2"}`)), says("The end.", "ToolChanged"))
		r := aRun(ctx, namespace, []string{"anew"})
		// One call is under way, and the other waits behind it for its turn.
		Eventually(ctx, arrived, patience).Should(Receive())
		old := &v1alpha1.ToolBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "anew"}}
		Expect(admin.Delete(ctx, old)).To(Succeed())
		aTool(ctx, namespace, "anew")
		expectUsable(ctx, namespace, "anew")
		close(leave)
		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(tools.received("anew")).To(HaveLen(1))
	})

	It("is asked for as many calls as a step can hold, and for more", func(ctx SpecContext) {
		tools.answers("many-calls", `"x"`)
		for calls, reason := range map[int]v1alpha1.TerminationReason{64: v1alpha1.TerminationFinal, 65: v1alpha1.TerminationModelFailed} {
			namespace := aNamespace(ctx)
			aTool(ctx, namespace, "many-calls")
			model := chatserver.New(func(r chatserver.Request) chatserver.Answer {
				if stepOf(r) > 1 {
					return chatserver.Text("The end.")
				}
				var all []chatserver.Call
				for range calls {
					all = append(all, chatserver.Call{ID: "same", Name: "many-calls", Arguments: `{"q":"x"}`})
				}
				return chatserver.Answer{Completion: &chatserver.Completion{Calls: all}}
			})
			server := httptest.NewServer(model)
			DeferCleanup(func() { model.Close(); server.CloseClientConnections(); server.Close() })
			aChatModel(ctx, namespace, server.URL)
			r := ended(ctx, aRun(ctx, namespace, []string{"many-calls"}, inCircles))
			Expect(r.Status.Termination.Reason).To(Equal(reason), summary(r))
			if reason == v1alpha1.TerminationFinal {
				Expect(turns(ctx, r)[0].Spec.Results).To(HaveLen(calls))
			}
		}
	})

	It("stores what grows when it is escaped", func(ctx SpecContext) {
		tools.on("angles", func(w http.ResponseWriter, _ *http.Request, c received) {
			answer(w, c, `"`+strings.Repeat("<", 300_000)+`"`)
		})
		aTool(ctx, namespace, "angles", func(b *v1alpha1.ToolBinding) { b.Spec.Result.MaxBytes = 262144 })
		model := chatserver.New(func(r chatserver.Request) chatserver.Answer {
			if stepOf(r) > 1 {
				return chatserver.Text(strings.Repeat("<", 100_000))
			}
			return chatserver.Answer{Completion: &chatserver.Completion{
				Text: strings.Repeat("<", 100_000), Calls: []chatserver.Call{{Name: "angles", Arguments: `{"q":"1"}`}, {Name: "angles", Arguments: `{"q":"2"}`}},
			}}
		})
		server := httptest.NewServer(model)
		DeferCleanup(func() { model.Close(); server.CloseClientConnections(); server.Close() })
		aChatModel(ctx, namespace, server.URL)
		r := ended(ctx, aRun(ctx, namespace, []string{"angles"}))
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(result(ctx, r, "s1c2").State).To(Equal(v1alpha1.CallSucceeded))
	})

	It("keeps what hides or reorders out of conditions and events", func(ctx SpecContext) {
		lie := "Stop.\x1b[31m\u202e\u200b\nReady: True"
		aModel(ctx, namespace, says("never"))
		r := aRun(ctx, namespace, nil, func(r *v1alpha1.AgentRun) {
			r.Spec.Goal, r.Spec.Cancel = lie, &v1alpha1.Cancellation{Reason: lie}
		})
		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationCancelled, "")
		message := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady).Message
		Expect(message).To(ContainSubstring("Stop.[31m"))
		Expect(message).NotTo(containAny("\x1b", "\u202e", "\u200b"))
	})

	It("waits beside two hundred others without a request, and they all begin when they can", func(ctx SpecContext) {
		const runs = 200
		tools.answers("awaited", `"x"`)
		aModel(ctx, namespace, says("The end."))
		var all []*v1alpha1.AgentRun
		for i := range runs {
			all = append(all, aRun(ctx, namespace, []string{"awaited"}, func(r *v1alpha1.AgentRun) { r.Name = fmt.Sprintf("run-%d", i) }))
		}
		for _, r := range all {
			eventually(ctx, r, func(g Gomega, r *v1alpha1.AgentRun) { g.Expect(r.Status.Phase).To(Equal(v1alpha1.PhasePending)) })
		}
		var before count
		Eventually(ctx, func() count {
			last := before
			before = requests(ctx)
			added := before.since(last)
			delete(added, "PUT leases")
			return added
		}, patience, "2s").Should(BeEmpty())
		aTool(ctx, namespace, "awaited")
		for _, r := range all {
			expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		}
	}, SpecTimeout(2*time.Minute))
})

// containAny matches a text that has any of the parts.
func containAny(parts ...string) OmegaMatcher {
	var matchers []OmegaMatcher
	for _, p := range parts {
		matchers = append(matchers, ContainSubstring(p))
	}
	return Or(matchers...)
}
