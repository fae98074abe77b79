// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

var _ = Describe("a run", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	It("one lookup then final", func(ctx SpecContext) {
		tools.answers("lookup", `{"found":["one","two"],"total":9007199254740993}`)
		aTool(ctx, namespace, "lookup")
		aModel(ctx, namespace,
			asks(call("lookup", `{"q":"interlock"}`)),
			says("There are two, as [test:lookup] says; [made:up] is no source.", `"found":["one","two"]`, "9007199254740993"),
		)
		r := ended(ctx, aRun(ctx, namespace, []string{"lookup"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(r.Status.Phase).To(Equal(v1alpha1.PhaseSucceeded))
		Expect(r.Status.Result.Text).To(Equal("There are two, as [test:lookup] says; [made:up] is no source."))
		Expect(r.Status.Result.Citations).To(ConsistOf(And(
			HaveField("ID", "test:lookup"), HaveField("CallID", "s1c1"), HaveField("SourceVersion", "test@1"),
			HaveField("URL", "https://example.com/lookup"), HaveField("ObservedAt", Not(BeNil())),
		)))
		calls := tools.received("lookup")
		Expect(calls).To(ContainElement(HaveField("Arguments", `{"q":"interlock"}`)))
		journal := turns(ctx, r)
		Expect(journal).To(HaveLen(2))
		Expect(journal[0].Spec.Reply.Calls).To(ConsistOf(And(HaveField("ID", "s1c1"), HaveField("Arguments", `{"q":"interlock"}`))))
		Expect(result(ctx, r, "s1c1").Data).To(MatchJSON(`{"found":["one","two"],"total":9007199254740993}`))
		// Of the first answer the model reports nothing, so that what was reserved for it is charged.
		Expect(*r.Status.Usage.InputTokens).To(BeNumerically(">", 1000))
		Expect(r.Status.Usage.UnreportedModelCalls).To(HaveValue(BeEquivalentTo(1)))
	})

	It("unknown tool is refused and the model told", func(ctx SpecContext) {
		tools.answers("other", `"never"`)
		aTool(ctx, namespace, "lookup")
		aTool(ctx, namespace, "other")
		aModel(ctx, namespace,
			asks(call("no-such-tool", `{"q":"x"}`), call("other", `{"q":"bound in the namespace, but not to this run"}`)),
			says("I have to do without.", "UnknownTool", "The tools are: lookup."),
		)
		r := ended(ctx, aRun(ctx, namespace, []string{"lookup"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		for _, id := range []string{"s1c1", "s1c2"} {
			Expect(result(ctx, r, id)).To(And(HaveField("State", v1alpha1.CallRejected), HaveField("Code", "UnknownTool")))
		}
		Expect(tools.received("other")).To(BeEmpty())
		Expect(r.Status.Usage.ToolCalls).To(HaveValue(BeZero()))
	})

	It("invalid arguments never execute", func(ctx SpecContext) {
		tools.answers("strict", `"never"`)
		aTool(ctx, namespace, "strict")
		raw := func(arguments string) v1alpha1.ScriptedCall {
			return v1alpha1.ScriptedCall{Tool: "strict", RawArguments: &arguments}
		}
		invalid := []struct{ arguments, code string }{
			{`{"q":1}`, "InvalidArguments"},
			{`{}`, "InvalidArguments"},
			{``, "InvalidArguments"},
			{`{"q":"x","unknown":true}`, "InvalidArguments"},
			{`{"q":"x","q":"y"}`, "MalformedArguments"},
			{`{"q":"x"`, "MalformedArguments"},
			{`null`, "MalformedArguments"},
			{`["q"]`, "MalformedArguments"},
			{`{"q":"\ud800"}`, "MalformedArguments"},
			{`{"q":"x","n":9007199254740993}`, "MalformedArguments"},
			{`{"q":null}`, "InvalidArguments"},
			{`{"q":"x"} {"q":"y"}`, "MalformedArguments"},
		}
		var calls []v1alpha1.ScriptedCall
		for _, i := range invalid {
			calls = append(calls, raw(i.arguments))
		}
		aModel(ctx, namespace, asks(calls...), says("I give up.", "InvalidArguments", "MalformedArguments"))
		r := ended(ctx, aRun(ctx, namespace, []string{"strict"}, func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxInvalid = new(int32(50)) }))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		for i, bad := range invalid {
			Expect(result(ctx, r, fmt.Sprintf("s1c%d", i+1)).Code).To(Equal(bad.code), bad.arguments)
		}
		Expect(tools.received("strict")).To(BeEmpty())
		Expect(r.Status.Usage.Invalid).To(HaveValue(BeEquivalentTo(len(invalid))))
	})

	It("a tool time-out reaches the run", func(ctx SpecContext) {
		tools.on("slow", untilTheCallerLeaves)
		aTool(ctx, namespace, "slow", func(b *v1alpha1.ToolBinding) { b.Spec.TimeoutSeconds, b.Spec.Retry.MaxAttempts = 1, 1 })
		aModel(ctx, namespace, asks(call("slow", `{"q":"x"}`)), says("It took too long.", `"code":"Timeout"`))
		r := ended(ctx, aRun(ctx, namespace, []string{"slow"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(result(ctx, r, "s1c1")).To(And(HaveField("State", v1alpha1.CallFailed), HaveField("Code", "Timeout")))
	})

	It("the model corrects itself after a coded error", func(ctx SpecContext) {
		tools.on("pages", func(w http.ResponseWriter, _ *http.Request, c received) {
			if c.Arguments == `{"q":"page 9"}` {
				problem(w, http.StatusUnprocessableEntity, "PageOutOfRange", "there are 3 pages", false)
				return
			}
			answer(w, c, `"the third page"`)
		})
		aTool(ctx, namespace, "pages")
		aModel(ctx, namespace,
			asks(call("pages", `{"q":"page 9"}`)),
			v1alpha1.ScriptedTurn{Expect: shown(`"code":"PageOutOfRange"`, "there are 3 pages"), Calls: []v1alpha1.ScriptedCall{call("pages", `{"q":"page 3"}`)}},
			says("Found on the third page.", "the third page"),
		)
		r := ended(ctx, aRun(ctx, namespace, []string{"pages"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(tools.received("pages")).To(HaveLen(2))
		Expect(result(ctx, r, "s1c1").Code).To(Equal("PageOutOfRange"))
		Expect(result(ctx, r, "s2c1").State).To(Equal(v1alpha1.CallSucceeded))
	})

	It("calls tools side by side and answers each by its own ID", func(ctx SpecContext) {
		both := newBarrier(2)
		for name, data := range map[string]string{"left": `"L"`, "right": `"R"`} {
			tools.on(name, func(w http.ResponseWriter, r *http.Request, c received) {
				if both.wait(r.Context()) {
					answer(w, c, data)
				}
			})
			aTool(ctx, namespace, name)
		}
		aModel(ctx, namespace, asks(call("left", `{"q":"x"}`), call("right", `{"q":"x"}`)), says("Both.", `"L"`, `"R"`))
		r := ended(ctx, aRun(ctx, namespace, []string{"left", "right"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(result(ctx, r, "s1c1").Data).To(Equal(`"L"`))
		Expect(result(ctx, r, "s1c2").Data).To(Equal(`"R"`))
	})

	It("tries a call again after a passing failure, with the same operation ID", func(ctx SpecContext) {
		tools.on("flaky", func(w http.ResponseWriter, _ *http.Request, c received) {
			if c.N < 3 {
				problem(w, http.StatusServiceUnavailable, "Busy", "try again", true)
				return
			}
			answer(w, c, `"at last"`)
		})
		aTool(ctx, namespace, "flaky")
		aModel(ctx, namespace, asks(call("flaky", `{"q":"x"}`)), says("Done.", "at last"))
		r := ended(ctx, aRun(ctx, namespace, []string{"flaky"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		calls := tools.received("flaky")
		Expect(calls).To(HaveLen(3))
		Expect(calls[2].OperationID).To(And(Equal(calls[0].OperationID), HaveLen(64)))
		Expect(result(ctx, r, "s1c1").Attempts).To(HaveValue(BeEquivalentTo(3)))
	})

	It("stays valid whatever IDs and names the model sends", func(ctx SpecContext) {
		tools.answers("plain", `"fine"`)
		aTool(ctx, namespace, "plain")
		id := func(id, tool string) v1alpha1.ScriptedCall {
			c := call(tool, `{"q":"x"}`)
			c.ID = &id
			return c
		}
		aModel(ctx, namespace,
			asks(id("", "plain"), id("same", "plain"), id("same", "plain"), id("../../etc\x00\u202e", "plain"), id("s1c1", "..%2f\u202etool\n")),
			asks(id("same", "plain")),
			says("All answered.", "fine"),
		)
		r := ended(ctx, aRun(ctx, namespace, []string{"plain"}, inCircles))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		operations := map[string]bool{}
		for _, c := range tools.received("plain") {
			operations[c.OperationID] = true
		}
		Expect(operations).To(HaveLen(5))
		for _, id := range []string{"s1c1", "s1c2", "s1c3", "s1c4", "s2c1"} {
			Expect(result(ctx, r, id).State).To(Equal(v1alpha1.CallSucceeded), id)
		}
		Expect(result(ctx, r, "s1c5").Code).To(Equal("UnknownTool"))
	})

	It("waits for its bindings, and begins when they are there", func(ctx SpecContext) {
		tools.answers("late", `"here"`)
		pending := aRun(ctx, namespace, []string{"late"})
		eventually(ctx, pending, func(g Gomega, r *v1alpha1.AgentRun) {
			g.Expect(r.Status.Phase).To(Equal(v1alpha1.PhasePending))
			g.Expect(r.Status.Conditions).To(ContainElement(And(HaveField("Type", "Ready"), HaveField("Message", ContainSubstring("ModelBinding model does not exist")))))
		})
		aModel(ctx, namespace, asks(call("late", `{"q":"x"}`)), says("It came.", "here"))
		eventually(ctx, pending, func(g Gomega, r *v1alpha1.AgentRun) {
			g.Expect(r.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring("ToolBinding late does not exist"))))
		})
		aTool(ctx, namespace, "late")
		expectEnd(ended(ctx, pending), v1alpha1.TerminationFinal, "")
	})

	It("keeps a large result within its bounds", func(ctx SpecContext) {
		huge := make([]byte, 2<<20)
		for i := range huge {
			huge[i] = '<'
		}
		tools.answers("huge", `"`+string(huge)+`"`)
		aTool(ctx, namespace, "huge", func(b *v1alpha1.ToolBinding) { b.Spec.Result.MaxBytes = 262144 })
		aModel(ctx, namespace, asks(call("huge", `{"q":"x"}`)), says("A lot.", `"truncated":true`))
		r := ended(ctx, aRun(ctx, namespace, []string{"huge"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(tools.received("huge")).To(HaveLen(1))
		res := result(ctx, r, "s1c1")
		Expect(res.Completeness).To(Equal(v1alpha1.Truncated))
		Expect(res.Size).To(HaveValue(BeEquivalentTo(len(huge) + 2)))
	})
})
