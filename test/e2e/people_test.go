// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// aPerson has ClusterRoles in one namespace, and is who the returned client acts as.
func aPerson(ctx context.Context, namespace, name string, roles ...string) client.Client {
	GinkgoHelper()
	for _, role := range roles {
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: role + "-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: name}},
		})
	}
	kubeconfig, err := plane.KubeconfigForUser(name)
	Expect(err).NotTo(HaveOccurred())
	return clientOf(kubeconfig)
}

// awaiting waits until a run asks people about n calls, and gives what it asks.
func awaiting(ctx context.Context, r *v1alpha1.AgentRun, n int) []v1alpha1.PendingApproval {
	GinkgoHelper()
	return eventually(ctx, r, func(g Gomega, r *v1alpha1.AgentRun) {
		g.Expect(r.Status.PendingApprovals).To(HaveLen(n), summary(r))
	}).Status.PendingApprovals
}

// anApproval is what the manifest of a question says, with changes.
func anApproval(asked v1alpha1.PendingApproval, mutate ...func(*v1alpha1.Approval)) *v1alpha1.Approval {
	GinkgoHelper()
	a := &v1alpha1.Approval{}
	Expect(yaml.UnmarshalStrict([]byte(asked.Manifest), a)).To(Succeed())
	for _, m := range mutate {
		m(a)
	}
	return a
}

// denying turns an Approval into a denial.
func denying(reason string) func(*v1alpha1.Approval) {
	return func(a *v1alpha1.Approval) { a.Spec.Decision, a.Spec.Reason = v1alpha1.DecisionDeny, reason }
}

// approve has a person approve what is asked.
func approve(ctx context.Context, person client.Client, asked v1alpha1.PendingApproval, mutate ...func(*v1alpha1.Approval)) *v1alpha1.Approval {
	GinkgoHelper()
	a := anApproval(asked, mutate...)
	Expect(person.Create(ctx, a)).To(Succeed())
	return a
}

// expectSaid waits until an Approval says what came of it.
func expectSaid(ctx context.Context, a *v1alpha1.Approval, reason string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(a), a)).To(Succeed())
		g.Expect(meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady)).To(HaveValue(HaveField("Reason", reason)))
	}, patience).Should(Succeed())
}
