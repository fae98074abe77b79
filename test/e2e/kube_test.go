// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// aKubeServer starts toolservers/kube as its own ServiceAccount with what its deploy/rbac.yaml gives it, for one namespace. It
// reaches the API server at the given address if there is one.
func aKubeServer(ctx context.Context, namespace string, kubeconfigOf func(string) string) *program {
	GinkgoHelper()
	Expect(plane.Apply(ctx, repository("toolservers", "kube", "deploy", "rbac.yaml"))).To(Succeed())
	create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "interlock-kube"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "interlock-kube-impersonator"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "kube"}},
	})
	kubeconfig, err := plane.KubeconfigFor(ctx, "default", "kube")
	Expect(err).NotTo(HaveOccurred())
	if kubeconfigOf != nil {
		kubeconfig = kubeconfigOf(kubeconfig)
	}
	port := freePort(ctx)
	return &program{
		name: "kube",
		args: []string{
			binary("kube"), fmt.Sprintf("--listen=127.0.0.1:%d", port), "--namespaces=" + namespace, "--records-namespace=default", "--settle-after=1s",
		},
		env: []string{"KUBECONFIG=" + kubeconfig}, ready: loopback(port, "/readyz"),
	}
}

// address is where a tool server listens.
func (p *program) address() string { return strings.TrimSuffix(p.ready, "/readyz") }

// aDeployment makes a Deployment with two replicas, and lets ServiceAccount "default" do the verbs to it.
func aDeployment(ctx context.Context, namespace string, verbs ...string) *appsv1.Deployment {
	GinkgoHelper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
			},
		},
	}
	create(ctx, d)
	create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: verbs}},
	})
	create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "web"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "default"}},
	})
	return d
}

// aKubeTool binds a tool of the kube server under a name without underscores.
func aKubeTool(ctx context.Context, namespace, address, tool string, mutate ...func(*v1alpha1.ToolBinding)) string {
	GinkgoHelper()
	name := strings.ReplaceAll(tool, "_", "-")
	aTool(ctx, namespace, name, append([]func(*v1alpha1.ToolBinding){func(t *v1alpha1.ToolBinding) {
		t.Spec.InputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object","additionalProperties":true}`)}
		t.Spec.Backend.HTTP = &v1alpha1.HTTPBackend{URL: address, Tool: tool, Audience: "tools.interlock.dev/kube"}
	}}, mutate...)...)
	return name
}

// writing makes the binding one of a tool that changes objects.
func writing(t *v1alpha1.ToolBinding) {
	t.Spec.Effect, t.Spec.Protocol, t.Spec.Idempotency = v1alpha1.EffectWrite, v1alpha1.ProtocolPreviewCommit, v1alpha1.IdempotencyKey
}

var _ = Describe("the tool server for Kubernetes", func() {
	var namespace string
	var kube *program
	BeforeEach(func(ctx SpecContext) {
		namespace = aNamespace(ctx)
		kube = aKubeServer(ctx, namespace, nil)
		kube.start()
		DeferCleanup(func() { kube.kill() })
	})
	scale := func(name string, replicas int) v1alpha1.ScriptedCall {
		return call(name, fmt.Sprintf(`{"kind":"Deployment","namespace":%q,"name":"web","replicas":%d}`, namespace, replicas))
	}

	It("scales a Deployment as the run's ServiceAccount, once somebody has approved", func(ctx SpecContext) {
		d := aDeployment(ctx, namespace, "get", "patch")
		ann := aPerson(ctx, namespace, "ann", "interlock-approver")
		name := aKubeTool(ctx, namespace, kube.address(), "kube_scale", writing)
		aModel(ctx, namespace, asks(scale(name, 5)), says("Scaled.", `"done":true`))
		r := aRun(ctx, namespace, []string{name})

		asked := awaiting(ctx, r, 1)[0]
		Expect(asked.FromTool.Summary).To(Equal("Scale Deployment " + namespace + "/web to 5 replicas."))
		Expect(asked.FromTool.Changes).To(And(ContainSubstring("-  replicas: 2"), ContainSubstring("+  replicas: 5")))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
		Expect(d.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)), "a preview changes nothing")
		approve(ctx, ann, asked)

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
		Expect(d.Spec.Replicas).To(HaveValue(BeEquivalentTo(5)))
		Expect(d.Generation).To(BeEquivalentTo(2), "it was changed once")
		Expect(d.Annotations).To(HaveKeyWithValue("interlock.dev/operations", result(ctx, r, "s1c1").OperationID))
	})

	It("can do no more than the ServiceAccount can", func(ctx SpecContext) {
		d := aDeployment(ctx, namespace, "get")
		name := aKubeTool(ctx, namespace, kube.address(), "kube_scale", writing, freely)
		aModel(ctx, namespace, asks(scale(name, 5)), says("I may not.", "Forbidden", "cannot patch resource"))
		r := ended(ctx, aRun(ctx, namespace, []string{name}))
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(result(ctx, r, "s1c1").Code).To(Equal("Forbidden"))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
		Expect(d.Generation).To(BeEquivalentTo(1))
	})

	It("takes no token but one made for it", func(ctx SpecContext) {
		aDeployment(ctx, namespace, "get")
		name := aKubeTool(ctx, namespace, kube.address(), "kube_get", func(t *v1alpha1.ToolBinding) {
			t.Spec.Backend.HTTP.Audience = "tools.interlock.dev/another"
		})
		aModel(ctx, namespace, asks(call(name, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","namespace":%q,"name":"web"}`, namespace))), says("No."))
		r := ended(ctx, aRun(ctx, namespace, []string{name}))
		Expect(result(ctx, r, "s1c1").Code).To(Equal("Unauthenticated"))
	})

	It("shows of Secrets only that they are there", func(ctx SpecContext) {
		const canary = "canary-0123456789"
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}, StringData: map[string]string{"key": canary}})
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "admin"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "default"}},
		})
		get := aKubeTool(ctx, namespace, kube.address(), "kube_get")
		patch := aKubeTool(ctx, namespace, kube.address(), "kube_patch", writing, freely)
		object := fmt.Sprintf(`"apiVersion":"v1","kind":"Secret","namespace":%q,"name":"keys"`, namespace)
		aModel(ctx, namespace, asks(call(get, "{"+object+"}")), asks(call(patch, "{"+object+`,"patch":{"stringData":{"key":"x"}}}`)), says("Hidden.", "Secrets can't be changed here"))
		r := ended(ctx, aRun(ctx, namespace, []string{get, patch}))
		expectEnd(r, v1alpha1.TerminationFinal, "")
		shown := result(ctx, r, "s1c1").Data
		Expect(shown).To(And(ContainSubstring("not shown"), ContainSubstring("keys")))
		Expect(shown).NotTo(Or(ContainSubstring(canary), ContainSubstring("Y2FuYXJ5")))
	})

	It("does each of its changes, and only to the version that was previewed", func(ctx SpecContext) {
		d := aDeployment(ctx, namespace, "get", "patch")
		restart := aKubeTool(ctx, namespace, kube.address(), "kube_restart", writing, freely)
		image := aKubeTool(ctx, namespace, kube.address(), "kube_set_image", writing, freely)
		patch := aKubeTool(ctx, namespace, kube.address(), "kube_patch", writing, freely)
		object := fmt.Sprintf(`"kind":"Deployment","namespace":%q,"name":"web"`, namespace)
		aModel(ctx, namespace,
			asks(call(restart, "{"+object+"}"), call(image, "{"+object+`,"container":"web","image":"example.com/web:2"}`),
				call(patch, `{"apiVersion":"apps/v1",`+object+`,"patch":{"metadata":{"labels":{"team":"web"}},"spec":{"paused":true}}}`),
				call(patch, `{"apiVersion":"apps/v1",`+object+`,"patch":{"metadata":{"ownerReferences":[]}}}`)),
			says("Done.", "only labels and annotations"))
		r := ended(ctx, aRun(ctx, namespace, []string{restart, image, patch}))
		expectEnd(r, v1alpha1.TerminationFinal, "")
		for _, id := range []string{"s1c1", "s1c2", "s1c3"} {
			Expect(result(ctx, r, id)).To(HaveField("State", v1alpha1.CallSucceeded), id)
		}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
		Expect(d.Spec.Template.Annotations).To(HaveKey("kubectl.kubernetes.io/restartedAt"))
		Expect(d.Spec.Template.Spec.Containers[0].Image).To(Equal("example.com/web:2"))
		Expect(d.Labels).To(HaveKeyWithValue("team", "web"))
		Expect(d.Spec.Paused).To(BeTrue())
		Expect(d.Generation).To(BeEquivalentTo(4), "three changes")
	})
})

var _ = Describe("the tool server for Kubernetes, when it is killed at any request", func() {
	It("changes the object exactly once", func(ctx SpecContext) {
		namespace := aNamespace(ctx)
		d := aDeployment(ctx, namespace, "get", "patch")
		blade := &guillotine{}
		kube := aKubeServer(ctx, namespace, func(path string) string {
			return blade.kubeconfigBehind(path, func(r *http.Request) bool {
				return strings.Contains(r.URL.Path, "/configmaps") && r.Method != http.MethodGet && r.URL.RawQuery == "" ||
					strings.Contains(r.URL.Path, "/deployments/") && r.Method == http.MethodPatch && !strings.Contains(r.URL.RawQuery, "dryRun")
			})
		})
		blade.victim = kube
		blade.arm(0, false)
		kube.start()
		DeferCleanup(func() { kube.kill() })
		name := aKubeTool(ctx, namespace, kube.address(), "kube_scale", writing, freely)

		points, replicas := 0, 2
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				replicas++
				blade.arm(at, after)
				suffix := fmt.Sprintf("%t-%d", after, at)
				create(ctx, scripted(namespace, "model-"+suffix,
					asks(call(name, fmt.Sprintf(`{"kind":"Deployment","namespace":%q,"name":"web","replicas":%d}`, namespace, replicas))), says("Done.", `"done":true`)))
				r := aRun(ctx, namespace, []string{name}, func(r *v1alpha1.AgentRun) {
					r.Name, r.Spec.Model.Name = "run-"+suffix, "model-"+suffix
				})
				fell := goesThrough(ctx, blade, nil, r)
				Expect(admin.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
				Expect(d.Spec.Replicas).To(HaveValue(BeEquivalentTo(replicas)), "%s", blade)
				Expect(d.Generation).To(BeEquivalentTo(replicas-1), "%s", blade)
				if !fell {
					break
				}
				points++
			}
		}
		AddReportEntry("points at which the server was killed", points)
		Expect(points).To(BeNumerically(">=", 6))
	}, SpecTimeout(5*time.Minute))
})
