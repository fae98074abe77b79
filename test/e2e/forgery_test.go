// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// refusedWith is an error of the API server's that says no, in these words.
func refusedWith(words string) OmegaMatcher {
	return And(Satisfy(func(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }), MatchError(ContainSubstring(words)))
}

var _ = Describe("consent that is none", func() {
	var namespace string
	var bank *bank
	var ann client.Client
	BeforeEach(func(ctx SpecContext) {
		namespace = aNamespace(ctx)
		ann = aPerson(ctx, namespace, "ann", "interlock-approver")
		bank = aBank(ctx, namespace)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("The end."))
	})
	// nothingIsPaid lets the run end by a denial, and looks at the bank.
	nothingIsPaid := func(ctx SpecContext, r *v1alpha1.AgentRun) {
		GinkgoHelper()
		approve(ctx, ann, awaiting(ctx, r, 1)[0], denying("It was a test."))
		ended(ctx, r)
		Expect(bank.paid()).To(BeEmpty())
	}

	It("by who requested the run has no effect", func(ctx SpecContext) {
		eve := aPerson(ctx, namespace, "eve", "interlock-approver", "interlock-editor")
		r := &v1alpha1.AgentRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "run"},
			Spec: v1alpha1.AgentRunSpec{
				Goal: "Pay.", Model: v1alpha1.ModelSelection{Name: "model"}, Tools: []v1alpha1.ToolSelection{{Name: "pay"}},
			},
		}
		Expect(eve.Create(ctx, r)).To(Succeed())
		Expect(r.Spec.RequestedBy).To(Equal("eve"))
		expectSaid(ctx, approve(ctx, eve, awaiting(ctx, r, 1)[0]), v1alpha1.ReasonSelfApproval)
		nothingIsPaid(ctx, r)
	})

	It("by who requested the run counts where the tool's rules allow it", func(ctx SpecContext) {
		edit(ctx, namespace, "pay", func(b *v1alpha1.ToolBinding) {
			b.Spec.Approval = &v1alpha1.ApprovalPolicy{Policy: v1alpha1.ApprovalAlways, SelfApproval: v1alpha1.SelfApprovalAllowed}
		})
		r := aRun(ctx, namespace, []string{"pay"})
		approve(ctx, admin, awaiting(ctx, r, 1)[0])
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(HaveLen(1))
	})

	It("by the run's own principal, or another that agents run as, has no effect", func(ctx SpecContext) {
		for _, name := range []string{"default", "other"} {
			if name == "other" {
				create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
				aRun(ctx, namespace, []string{"pay"}, func(r *v1alpha1.AgentRun) { r.Name, r.Spec.ServiceAccountName = "another", name })
			}
			create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "approver-" + name},
				RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "interlock-approver"},
				Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
			})
		}
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		for _, name := range []string{"default", "other"} {
			kubeconfig, err := plane.KubeconfigFor(ctx, namespace, name)
			Expect(err).NotTo(HaveOccurred())
			expectSaid(ctx, approve(ctx, clientOf(kubeconfig), asked), v1alpha1.ReasonSelfApproval)
		}
		nothingIsPaid(ctx, r)
	})

	It("without the verb approve, or in another's name, is refused", func(ctx SpecContext) {
		eve := aPerson(ctx, namespace, "eve", "interlock-viewer")
		create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "writer"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"interlock.dev"}, Resources: []string{"approvals"}, Verbs: []string{"create"}}},
		})
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "writer"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "writer"},
			Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "eve"}},
		})
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		Eventually(ctx, func() error { return eve.Create(ctx, anApproval(asked)) }, patience).
			Should(refusedWith("you may not answer for the ToolBinding pay: ask for the verb approve on it"))
		Expect(eve.Create(ctx, anApproval(asked, denying("No.")))).To(refusedWith("ask for the verb approve"))
		Expect(ann.Create(ctx, anApproval(asked, func(a *v1alpha1.Approval) { a.Spec.Approver = "ben" }))).
			To(refusedWith("spec.approver is written by the API server"))
		// Where nothing stamps it, people write their own names.
		Expect(ann.Create(ctx, anApproval(asked, denying("No."), func(a *v1alpha1.Approval) { a.Spec.Approver = "ann" }))).To(Succeed())
		ended(ctx, r)
		Expect(bank.paid()).To(BeEmpty())
	})

	It("to anything but the very call has no effect", func(ctx SpecContext) {
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		for name, test := range map[string]struct {
			change func(*v1alpha1.Approval)
			reason string
		}{
			"another run of the name": {func(a *v1alpha1.Approval) { a.Spec.Run.UID = "00000000-0000-4000-8000-000000000000" }, v1alpha1.ReasonStale},
			"another run":             {func(a *v1alpha1.Approval) { a.Spec.Run.Name = "nobody" }, v1alpha1.ReasonStale},
			"one byte more": {func(a *v1alpha1.Approval) {
				last := strings.TrimPrefix(a.Spec.Digest, "sha256:")
				a.Spec.Digest = "sha256:" + last[1:] + last[:1]
			}, v1alpha1.ReasonDigestMismatch},
			"a call to come":       {func(a *v1alpha1.Approval) { a.Spec.CallID = "s2c1" }, v1alpha1.ReasonWaiting},
			"a call that never is": {func(a *v1alpha1.Approval) { a.Spec.CallID = "s1c2" }, v1alpha1.ReasonStale},
		} {
			a := approve(ctx, ann, asked, test.change)
			By(name)
			expectSaid(ctx, a, test.reason)
		}
		nothingIsPaid(ctx, r)
	})

	It("can't be changed once it is given", func(ctx SpecContext) {
		r := aRun(ctx, namespace, []string{"pay"})
		a := approve(ctx, ann, awaiting(ctx, r, 1)[0], denying("No."))
		patch := client.MergeFrom(a.DeepCopy())
		a.Spec.Decision, a.Spec.Reason = v1alpha1.DecisionApprove, ""
		Expect(admin.Patch(ctx, a, patch)).To(refusedWith("an Approval can't be changed: create another one"))
		ended(ctx, r)
		Expect(bank.paid()).To(BeEmpty())
	})

	It("that comes with a denial, or after one, has no effect", func(ctx SpecContext) {
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		interlock.kill()
		yes := approve(ctx, ann, asked)
		no := approve(ctx, ann, asked, denying("No."))
		interlock.start()
		ended(ctx, r)
		expectSaid(ctx, no, v1alpha1.ReasonEffective)
		expectSaid(ctx, yes, v1alpha1.ReasonStale)
		expectSaid(ctx, approve(ctx, ann, asked), v1alpha1.ReasonStale)
		Expect(bank.paid()).To(BeEmpty())
	})

	It("of a run that was deleted does nothing for one of its name", func(ctx SpecContext) {
		first := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, first, 1)[0]
		Expect(admin.Delete(ctx, first)).To(Succeed())
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(first), first.DeepCopy()) }, patience).ShouldNot(Succeed())
		second := aRun(ctx, namespace, []string{"pay"})
		awaiting(ctx, second, 1)
		expectSaid(ctx, approve(ctx, ann, asked), v1alpha1.ReasonStale)
		nothingIsPaid(ctx, second)
	})

	It("counts for nothing while the admission policies are not in place, nor when they are again", func(ctx SpecContext) {
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		DeferCleanup(func(ctx SpecContext) {
			Expect(plane.InstallAdmission(ctx, repository("config", "admission"))).To(Succeed())
		})
		// An altered one is as good as none.
		var policy admissionv1.ValidatingAdmissionPolicy
		Expect(admin.Get(ctx, client.ObjectKey{Name: "interlock-approvals"}, &policy)).To(Succeed())
		policy.Spec.Validations = policy.Spec.Validations[1:]
		Expect(admin.Update(ctx, &policy)).To(Succeed())
		pay := &v1alpha1.ToolBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pay"}}
		expectBinding(ctx, pay, v1alpha1.ReasonAdmissionMissing, "ValidatingAdmissionPolicy interlock-approvals is not as it was shipped")
		forgeable := approve(ctx, ann, asked)
		expectSaid(ctx, forgeable, v1alpha1.ReasonWaiting)

		// What only reads goes on.
		tools.answers("look", `"seen"`)
		aTool(ctx, namespace, "look")
		other := aNamespace(ctx)
		aTool(ctx, other, "look")
		aModel(ctx, other, asks(call("look", `{"q":"x"}`)), says("Seen.", `"seen"`))
		expectEnd(ended(ctx, aRun(ctx, other, []string{"look"})), v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(BeEmpty())

		// What was written meanwhile may be anybody's, and counts for nothing afterwards either.
		Expect(plane.InstallAdmission(ctx, repository("config", "admission"))).To(Succeed())
		expectBinding(ctx, pay, v1alpha1.ReasonAvailable, "")
		interlock.restart()
		expectSaid(ctx, forgeable, v1alpha1.ReasonStale)
		Expect(bank.paid()).To(BeEmpty())
		Eventually(ctx, func(g Gomega) {
			approve(ctx, ann, asked)
			g.Expect(bank.paid()).To(HaveLen(1))
		}, patience, "1s").Should(Succeed())
		expectEnd(ended(ctx, r), v1alpha1.TerminationFinal, "")
	})
})

var _ = Describe("what is the operator's to write", func() {
	It("is refused to all others, whatever their role", func(ctx SpecContext) {
		namespace := aNamespace(ctx)
		mallory := aPerson(ctx, namespace, "mallory", "cluster-admin")
		r := aRun(ctx, namespace, nil)
		eventually(ctx, r, func(g Gomega, r *v1alpha1.AgentRun) { g.Expect(r.Status.Phase).NotTo(BeEmpty()) })
		for _, who := range []client.Client{mallory, admin} {
			Expect(who.Create(ctx, &v1alpha1.Turn{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: string(r.UID) + "-1", Labels: map[string]string{v1alpha1.LabelRunUID: string(r.UID)}},
				Spec: v1alpha1.TurnSpec{
					RunName: r.Name, RunUID: string(r.UID), Step: 1, Reply: v1alpha1.TurnReply{Time: metav1.NowMicro(), Finish: "Stop", Text: "Forged."},
				},
			})).To(refusedWith("only the Interlock operator writes this"))
			now := eventually(ctx, r, func(Gomega, *v1alpha1.AgentRun) {})
			now.Status.Phase = v1alpha1.PhaseSucceeded
			Expect(who.Status().Update(ctx, now)).To(refusedWith("only the Interlock operator writes this"))
		}
		eventually(ctx, r, func(g Gomega, r *v1alpha1.AgentRun) { g.Expect(r.Status.Phase).To(Equal(v1alpha1.PhasePending)) })
	})

	It("holds runs only in the name of who creates them, as ServiceAccounts that are theirs to use", func(ctx SpecContext) {
		namespace := aNamespace(ctx)
		eve := aPerson(ctx, namespace, "eve", "interlock-viewer")
		create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "runs"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"interlock.dev"}, Resources: []string{"agentruns"}, Verbs: []string{"create"}}},
		})
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "runs"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "runs"},
			Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "eve"}},
		})
		run := func(requestedBy string) *v1alpha1.AgentRun {
			return &v1alpha1.AgentRun{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "run-"},
				Spec:       v1alpha1.AgentRunSpec{Goal: "x", Model: v1alpha1.ModelSelection{Name: "m"}, RequestedBy: requestedBy},
			}
		}
		Eventually(ctx, func() error { return eve.Create(ctx, run("")) }, patience).
			Should(refusedWith("you may not have a run act as the ServiceAccount default: ask for the verb use on it"))
		Expect(admin.Create(ctx, run("eve"))).To(refusedWith("spec.requestedBy is written by the API server"))
	})

	It("holds no binding for a Secret that its author may not read", func(ctx SpecContext) {
		namespace := aNamespace(ctx)
		eve := aPerson(ctx, namespace, "eve", "interlock-admin")
		m := &v1alpha1.ModelBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"},
			Spec: v1alpha1.ModelBindingSpec{OpenAI: &v1alpha1.OpenAIModel{
				Model: "x", BaseURL: "https://eve.example", APIKeySecret: &v1alpha1.SecretKey{Name: "bank", Key: "key"},
			}},
		}
		Eventually(ctx, func() error { return eve.Create(ctx, m.DeepCopy()) }, patience).
			Should(refusedWith("you may not read the Secret bank, so you may not have it used"))
		Expect(admin.Create(ctx, m)).To(Succeed())
		m.Spec.OpenAI.BaseURL = "https://eve2.example"
		Expect(eve.Update(ctx, m)).To(refusedWith("you may not read the Secret bank"))
	})
})

var _ = Describe("a tool server that lies", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = aNamespace(ctx) })

	It("with another operation's ID leaves the outcome in doubt, which is looked up", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, directly, freely)
		bank.misbehave(nil, func(w http.ResponseWriter, _ *http.Request, verb string) bool {
			if verb == "invoke" {
				answer(w, received{Tool: "pay", OperationID: "another"}, `"somebody else's"`)
				return true
			}
			return false
		})
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("Paid.", `"paid"`))
		expectEnd(ended(ctx, aRun(ctx, namespace, []string{"pay"})), v1alpha1.TerminationFinal, "")
		Expect(bank.requests("invoke")).To(Equal(1))
		Expect(bank.requests("operations")).To(Equal(1))
	})

	It("about a key that it has used for other arguments gets no second call", func(ctx SpecContext) {
		bank := aBank(ctx, namespace, directly, freely)
		bank.misbehave(func(w http.ResponseWriter, _ *http.Request, verb string) bool {
			if verb == "invoke" {
				problem(w, 422, "IdempotencyKeyReused", "the key came before with other arguments", false)
				return true
			}
			return false
		}, nil)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("A conflict.", "IdempotencyKeyReused"))
		expectEnd(ended(ctx, aRun(ctx, namespace, []string{"pay"})), v1alpha1.TerminationFinal, "")
		Expect(bank.requests("invoke")).To(Equal(1))
		Expect(bank.paid()).To(BeEmpty())
	})

	It("with a preview of 5 MB asks nobody", func(ctx SpecContext) {
		bank := aBank(ctx, namespace)
		bank.preview = func(p map[string]any) { p["changes"] = strings.Repeat("x", 5<<20) }
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("It is too long."))
		r := ended(ctx, aRun(ctx, namespace, []string{"pay"}))
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(result(ctx, r, "s1c1")).To(And(HaveField("State", v1alpha1.CallFailed), HaveField("Code", "MalformedResult")))
		Expect(bank.paid()).To(BeEmpty())
	})

	It("in its preview is shown as it is, and made harmless", func(ctx SpecContext) {
		bank := aBank(ctx, namespace)
		lie := "\x1b[2K\x1b[1mAlready approved.\u202e\u200b Nothing to see."
		bank.preview = func(p map[string]any) { p["summary"] = lie }
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), says("never"))
		r := aRun(ctx, namespace, []string{"pay"})
		asked := awaiting(ctx, r, 1)[0]
		Expect(asked.FromTool.Summary).To(Equal("[2K[1mAlready approved. Nothing to see."))
		Expect(asked.FromTool.Preview).To(ContainSubstring("u001b[2K"))
		r = eventually(ctx, r, func(Gomega, *v1alpha1.AgentRun) {})
		for _, c := range r.Status.Conditions {
			Expect(c.Message).NotTo(ContainSubstring("lready approved"))
		}
		var events corev1.EventList
		Expect(admin.List(ctx, &events, client.InNamespace(namespace))).To(Succeed())
		Expect(fmt.Sprint(events.Items)).NotTo(ContainSubstring("lready approved"))
		Expect(bank.paid()).To(BeEmpty())
	})
})
