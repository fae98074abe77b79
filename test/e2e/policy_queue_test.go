// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/test/chatserver"
)

// A desk is a model that answers each run, named in its goal, once somebody lets it.
type desk struct {
	*chatserver.Server

	mu sync.Mutex
	// came are the runs in the order in which they came first.
	came []string
	may  map[string]chan struct{}
}

var runName = regexp.MustCompile(`run-[0-9]+`)

// aDesk makes the model "model" of a desk.
func aDesk(ctx context.Context, namespace string) *desk {
	GinkgoHelper()
	d := &desk{may: map[string]chan struct{}{}}
	d.Server = chatserver.New(func(r chatserver.Request) chatserver.Answer {
		a := chatserver.Text("Done.")
		a.Hold = d.hold(runName.FindString(string(r.Body)))
		return a
	})
	server := httptest.NewServer(d.Server)
	DeferCleanup(func() { d.Close(); server.CloseClientConnections(); server.Close() })
	aChatModel(ctx, namespace, server.URL)
	return d
}

func (d *desk) hold(name string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.came, name) {
		d.came = append(d.came, name)
	}
	if d.may[name] == nil {
		d.may[name] = make(chan struct{})
	}
	return d.may[name]
}

func (d *desk) order() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.came)
}

// underway counts the runs of a namespace that have begun and not ended.
func underway(ctx context.Context, namespace string) int {
	GinkgoHelper()
	var all v1alpha1.AgentRunList
	Expect(admin.List(ctx, &all, client.InNamespace(namespace))).To(Succeed())
	n := 0
	for _, r := range all.Items {
		if r.Spec.Parent == nil && r.Status.Step > 0 && r.Status.Termination == nil {
			n++
		}
	}
	return n
}

func numbered(n int, mutate ...func(*v1alpha1.AgentRun)) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		r.Name = fmt.Sprintf("run-%d", n)
		r.Spec.Goal = "I am " + r.Name + "."
		for _, m := range mutate {
			m(r)
		}
	}
}

func expectQueued(ctx context.Context, r *v1alpha1.AgentRun) {
	GinkgoHelper()
	eventually(ctx, r, func(g Gomega, now *v1alpha1.AgentRun) {
		g.Expect(now.Status.Phase).To(Equal(v1alpha1.PhasePending), summary(now))
		g.Expect(now.Status.Conditions).To(ContainElement(And(
			HaveField("Type", v1alpha1.ConditionQueued), HaveField("Reason", v1alpha1.ReasonMaxConcurrentRuns))))
	})
}

var _ = Describe("a RunPolicy that bounds how many runs are under way", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })
	atMost := func(n int32) func(*v1alpha1.RunPolicySpec) {
		return func(s *v1alpha1.RunPolicySpec) { s.MaxConcurrentRuns = n }
	}
	queued := func(ctx context.Context, policy string) func() float64 {
		return func() float64 {
			return interlock.metric(ctx, "interlock_runpolicy_queued_runs", map[string]string{"policy": policy})
		}
	}

	It("has the others wait, first come, first served, whenever the operator is killed", func(ctx SpecContext) {
		const runs = 8
		d := aDesk(ctx, namespace)
		p := aPolicy(ctx, namespace, atMost(2))
		var all []*v1alpha1.AgentRun
		var names []string
		for i := range runs {
			all = append(all, aRun(ctx, namespace, nil, numbered(i)))
			names = append(names, all[i].Name)
		}
		Eventually(ctx, d.order, patience).Should(ConsistOf(names[:2]))
		for _, r := range all[2:] {
			expectQueued(ctx, r)
		}
		expectEvent(ctx, all[runs-1], "Pending", "RunPolicy "+p.Name+" allows 2; the run is number 6 of those that wait.")
		Expect(queued(ctx, p.Name)()).To(BeEquivalentTo(6))
		show := exec.CommandContext(ctx, binary("kubectl-interlock"), "show", "run-4", "-n", namespace)
		show.Env = append(os.Environ(), "KUBECONFIG="+plane.AdminKubeconfig())
		out, err := show.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		Expect(string(out)).To(ContainSubstring("number 3 of 6 that wait"))

		for i, r := range all {
			switch i {
			case 1:
				By("being killed")
				interlock.restart()
			case 3:
				By("being killed when one has just ended")
				interlock.kill()
			}
			close(d.hold(r.Name))
			if i == 3 {
				interlock.start()
			}
			expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
			Expect(underway(ctx, namespace)).To(BeNumerically("<=", 2))
			if i+2 < runs {
				Eventually(ctx, func() []string { return d.order()[2:] }, patience).Should(Equal(names[2 : i+3]))
			}
		}
		Eventually(ctx, queued(ctx, p.Name), patience).Should(BeZero())
	})

	It("writes to none of those that go on waiting when it is changed", func(ctx SpecContext) {
		d := aDesk(ctx, namespace)
		p := aPolicy(ctx, namespace, atMost(2))
		for i := range 8 {
			aRun(ctx, namespace, nil, numbered(i))
		}
		Eventually(ctx, queued(ctx, p.Name), patience).Should(BeEquivalentTo(6))
		expectQueued(ctx, &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "run-7"}})
		before := requests(ctx)

		stricter := &v1alpha1.RunPolicy{Spec: p.Spec}
		stricter.Name, stricter.Spec.MaxConcurrentRuns = "stricter-in-"+namespace, 1
		create(ctx, stricter)
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, stricter))).To(Succeed()) })
		Eventually(ctx, queued(ctx, stricter.Name), patience).Should(BeEquivalentTo(6))
		Expect(admin.Delete(ctx, stricter)).To(Succeed())
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"maxConcurrentRuns":3}}`))
		Expect(admin.Patch(ctx, p, patch)).To(Succeed())
		Eventually(ctx, d.order, patience).Should(ConsistOf("run-0", "run-1", "run-2"))
		Eventually(ctx, queued(ctx, p.Name), patience).Should(BeEquivalentTo(5))
		Expect(requests(ctx).since(before)["PUT agentruns/status"]).To(Equal(1), "run-2 has begun")
	})

	It("is held up by none that can't begin, and does not count child runs", func(ctx SpecContext) {
		d := aDesk(ctx, namespace)
		aPolicy(ctx, namespace, atMost(1))
		create(ctx, scripted(namespace, "parent", asks(call("delegate", `{"q":"run-9"}`)), says("So it is.", "Done.")))
		anAgent(ctx, namespace, func(a *v1alpha1.AgentBackend) { a.Model.Name = "model" })
		first := aRun(ctx, namespace, nil, numbered(1))
		Eventually(ctx, d.order, patience).Should(Equal([]string{"run-1"}))
		later := aRun(ctx, namespace, nil, numbered(2, func(r *v1alpha1.AgentRun) { r.Spec.Model.Name = "later" }))
		off := aRun(ctx, namespace, nil, numbered(3, func(r *v1alpha1.AgentRun) { r.Spec.Suspend = true }))
		eventually(ctx, later, func(g Gomega, now *v1alpha1.AgentRun) { g.Expect(now.Status.Phase).To(Equal(v1alpha1.PhasePending)) })
		expectHeld(ctx, off, v1alpha1.PhaseSuspended, "the run is suspended")
		parent := aRun(ctx, namespace, []string{"delegate"}, numbered(4, func(r *v1alpha1.AgentRun) { r.Spec.Model.Name = "parent" }))
		expectQueued(ctx, parent)
		last := aRun(ctx, namespace, nil, numbered(5))
		expectQueued(ctx, last)

		By("a child run going on beside its parent, of which only one may be under way")
		close(d.hold("run-1"))
		expectEnd(ended(ctx, first), v1alpha1.TerminationFinal, "")
		Eventually(ctx, d.order, patience).Should(Equal([]string{"run-1", "run-9"}))
		Expect(underway(ctx, namespace)).To(Equal(1))

		By("those that can begin at last having their old places")
		create(ctx, scripted(namespace, "later", says("Late.")))
		expectQueued(ctx, later)
		throw(ctx, off, "false")
		expectQueued(ctx, off)
		close(d.hold("run-9"))
		expectEnd(ended(ctx, parent), v1alpha1.TerminationFinal, "")
		expectEnd(ended(ctx, later), v1alpha1.TerminationFinal, "")
		Eventually(ctx, d.order, patience).Should(Equal([]string{"run-1", "run-9", "run-3"}))
		close(d.hold("run-3"))
		close(d.hold("run-5"))
		expectEnd(ended(ctx, off), v1alpha1.TerminationFinal, "")
		expectEnd(ended(ctx, last), v1alpha1.TerminationFinal, "")
	})

	It("comes back to its number when two operators are at work for a moment", func(ctx SpecContext) {
		d := aDesk(ctx, namespace)
		aPolicy(ctx, namespace, atMost(2))
		other := newOperator(ctx)
		other.start()
		var all []*v1alpha1.AgentRun
		for i := range 12 {
			// Within a second it is their names that count.
			all = append(all, aRun(ctx, namespace, nil, numbered(10+i)))
		}
		Eventually(ctx, d.order, patience).Should(ContainElements("run-10", "run-11"))
		other.kill()
		// Each of the two lets at most as many begin as it may.
		Expect(underway(ctx, namespace)).To(BeNumerically("<=", 4))
		for _, r := range all {
			close(d.hold(r.Name))
			expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		}
	})
})
