// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// aNamespace makes a namespace for one spec.
func aNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(admin.Create(ctx, ns)).To(Succeed())
	permit(ctx, ns.Name, "agents", "invoke", "default")
	return ns.Name
}

// permit gives ServiceAccounts of a namespace a verb on all of its ToolBindings.
func permit(ctx context.Context, namespace, name, verb string, serviceAccounts ...string) {
	GinkgoHelper()
	create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"interlock.dev"}, Resources: []string{"toolbindings"}, Verbs: []string{verb}}},
	})
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: name},
	}
	for _, account := range serviceAccounts {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: account})
	}
	create(ctx, binding)
}

// revoke takes back what permit gave.
func revoke(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).To(Succeed())
}

// reviewed says whose token the API server thinks it is, for the given audiences or, if there are none, for itself.
func reviewed(ctx context.Context, token string, audiences ...string) string {
	GinkgoHelper()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
	Expect(admin.Create(ctx, review)).To(Succeed())
	return review.Status.User.Username
}

// aModel makes the scripted model "model" that answers with turns.
func aModel(ctx context.Context, namespace string, turns ...v1alpha1.ScriptedTurn) {
	GinkgoHelper()
	create(ctx, scripted(namespace, "model", turns...))
}

func scripted(namespace, name string, turns ...v1alpha1.ScriptedTurn) *v1alpha1.ModelBinding {
	return &v1alpha1.ModelBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.ModelBindingSpec{
			Scripted: &v1alpha1.ScriptedModel{Turns: turns}, Retry: v1alpha1.RetryPolicy{MaxAttempts: 3, BackoffMilliseconds: 10},
		},
	}
}

// says is a turn that ends the run, if it is the answer.
func says(text string, expected ...string) v1alpha1.ScriptedTurn {
	return v1alpha1.ScriptedTurn{Text: text, Expect: shown(expected...), Usage: &v1alpha1.ScriptedUsage{Input: new(int64(10)), Output: new(int64(5))}}
}

// asks is a turn that asks for calls.
func asks(calls ...v1alpha1.ScriptedCall) v1alpha1.ScriptedTurn {
	return v1alpha1.ScriptedTurn{Calls: calls}
}

// shown is what the model must have been shown since it last spoke.
func shown(texts ...string) *v1alpha1.ScriptedExpectation {
	if len(texts) == 0 {
		return nil
	}
	return &v1alpha1.ScriptedExpectation{Contains: texts}
}

// call is a call with arguments written as JSON.
func call(tool, arguments string) v1alpha1.ScriptedCall {
	return v1alpha1.ScriptedCall{Tool: tool, Arguments: &runtime.RawExtension{Raw: []byte(arguments)}}
}

const anySchema = `{"type":"object","properties":{"q":{"type":"string","maxLength":100}},"required":["q"]}`

// aTool makes a binding for the tool of the same name on the test's tool server.
func aTool(ctx context.Context, namespace, name string, mutate ...func(*v1alpha1.ToolBinding)) {
	GinkgoHelper()
	b := &v1alpha1.ToolBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.ToolBindingSpec{
			Description: "A tool of the test.", Effect: v1alpha1.EffectReadOnly,
			InputSchema: &runtime.RawExtension{Raw: []byte(anySchema)},
			Backend:     v1alpha1.ToolBackend{HTTP: &v1alpha1.HTTPBackend{URL: tools.URL, Tool: name}},
			Retry:       v1alpha1.RetryPolicy{MaxAttempts: 3, BackoffMilliseconds: 10},
		},
	}
	for _, m := range mutate {
		m(b)
	}
	create(ctx, b)
}

// edit changes a ToolBinding, however often somebody else does meanwhile, and waits until runs may use it.
func edit(ctx context.Context, namespace, name string, mutate func(*v1alpha1.ToolBinding)) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		var b v1alpha1.ToolBinding
		if err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &b); err != nil {
			return err
		}
		mutate(&b)
		return admin.Update(ctx, &b)
	}, patience).Should(Succeed())
	expectUsable(ctx, namespace, name)
}

// expectUsable waits until runs may use a tool.
func expectUsable(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var b v1alpha1.ToolBinding
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &b)).To(Succeed())
		g.Expect(meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady)).To(HaveValue(And(
			HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", b.Generation))))
	}, patience).Should(Succeed())
}

// inCircles lets a run make the same call as often as it likes.
func inCircles(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxRepeats = 1000 }

// aRun makes a run of the model "model" with tools.
func aRun(ctx context.Context, namespace string, toolNames []string, mutate ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	GinkgoHelper()
	r := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "run"},
		Spec:       v1alpha1.AgentRunSpec{Goal: "Find it out.", Model: v1alpha1.ModelSelection{Name: "model"}},
	}
	for _, name := range toolNames {
		r.Spec.Tools = append(r.Spec.Tools, v1alpha1.ToolSelection{Name: name})
	}
	r.Spec.Limits.DeadlineSeconds = 60
	for _, m := range mutate {
		m(r)
	}
	create(ctx, r)
	return r
}

func create(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Expect(admin.Create(ctx, o)).To(Succeed())
}

const patience = 30 * time.Second

// ended waits for the end of a run and gives it as it is then.
func ended(ctx context.Context, r *v1alpha1.AgentRun) *v1alpha1.AgentRun {
	GinkgoHelper()
	return eventually(ctx, r, func(g Gomega, now *v1alpha1.AgentRun) {
		g.Expect(now.Status.Termination).NotTo(BeNil(), "the run has not ended: %s", summary(now))
	})
}

// eventually waits until what is expected of a run holds, and gives it as it is then.
func eventually(ctx context.Context, r *v1alpha1.AgentRun, expected func(Gomega, *v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	GinkgoHelper()
	now := &v1alpha1.AgentRun{}
	Eventually(ctx, func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(r), now)).To(Succeed())
		expected(g, now)
	}, patience, 20*time.Millisecond).Should(Succeed())
	return now
}

// expectEnd checks why a run ended and that its conditions say the same.
func expectEnd(r *v1alpha1.AgentRun, reason v1alpha1.TerminationReason, detail string) {
	GinkgoHelper()
	Expect(r.Status.Termination).To(HaveValue(And(HaveField("Reason", reason), HaveField("Detail", detail))), summary(r))
	ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	Expect(ready).To(HaveValue(And(
		HaveField("Reason", string(reason)),
		HaveField("Status", Equal(map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[reason == v1alpha1.TerminationFinal])),
	)))
	Expect(meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReconciling)).To(BeNil())
	Expect(meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionStalled)).To(Equal(reason != v1alpha1.TerminationFinal))
	Expect(r.Status.CompletionTime).NotTo(BeNil())
	Expect(r.Status.ModelCall).To(BeNil())
}

// summary says where a run stands, for the message of a failed expectation.
func summary(r *v1alpha1.AgentRun) string {
	parts := []string{fmt.Sprintf("phase %s, step %d", r.Status.Phase, r.Status.Step)}
	for _, c := range r.Status.Calls {
		parts = append(parts, fmt.Sprintf("%s %s %s#%d %s", c.ID, c.Tool, c.State, c.Attempt, c.Code))
	}
	if t := r.Status.Termination; t != nil {
		parts = append(parts, fmt.Sprintf("%s/%s: %s", t.Reason, t.Detail, t.Message))
	} else if ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		parts = append(parts, ready.Message)
	}
	return strings.Join(parts, "; ")
}

// turns gives the journal of a run, by step.
func turns(ctx context.Context, r *v1alpha1.AgentRun) []v1alpha1.Turn {
	GinkgoHelper()
	var list v1alpha1.TurnList
	Expect(admin.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingLabels{v1alpha1.LabelRunUID: string(r.UID)})).To(Succeed())
	slices.SortFunc(list.Items, func(a, b v1alpha1.Turn) int { return int(a.Spec.Step - b.Spec.Step) })
	return list.Items
}

// result gives what came of a call of a run.
func result(ctx context.Context, r *v1alpha1.AgentRun, callID string) v1alpha1.TurnResult {
	GinkgoHelper()
	var found []v1alpha1.TurnResult
	for _, t := range turns(ctx, r) {
		for _, res := range t.Spec.Results {
			if res.CallID == callID {
				found = append(found, res)
			}
		}
	}
	Expect(found).To(HaveLen(1), "call %s must have exactly one result", callID)
	return found[0]
}
