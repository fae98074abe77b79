// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

const turnName = "6a2f0d4c-1"

// manifests are what people write, by who may create it. They leave out what the API server writes.
var manifests = map[string]string{
	"approver": `
apiVersion: interlock.dev/v1alpha1
kind: Approval
metadata:
  name: applied
  namespace: admission
spec:
  run: {name: run, uid: 6a2f0d4c}
  callID: s1c1
  tool: refund
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  decision: Approve
`,
	"editor": `
apiVersion: interlock.dev/v1alpha1
kind: AgentRun
metadata:
  name: applied
  namespace: admission
spec:
  goal: Find it out.
  model: {name: model}
`,
}

// parse makes an object of a manifest.
func parse(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		panic(err)
	}
	return o
}

// stampedField is where the API server writes who created an object.
func stampedField(o *unstructured.Unstructured) string {
	if o.GetKind() == "Approval" {
		return "approver"
	}
	return "requestedBy"
}

// stamp is who an object says has created it.
func stamp(o *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(o.Object, "spec", stampedField(o))
	return name
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

func anApproval(change ...func(*v1alpha1.Approval)) *v1alpha1.Approval {
	a := &v1alpha1.Approval{ObjectMeta: meta("new"), Spec: v1alpha1.ApprovalSpec{
		Run: v1alpha1.RunReference{Name: "run", UID: "6a2f0d4c"}, CallID: "s1c1", Tool: "refund",
		Digest: "sha256:" + strings.Repeat("0", 64), Decision: v1alpha1.DecisionApprove,
	}}
	for _, c := range change {
		c(a)
	}
	return a
}

func aRun(change ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	r := &v1alpha1.AgentRun{ObjectMeta: meta("new"), Spec: v1alpha1.AgentRunSpec{
		Goal: "Find it out.", Model: v1alpha1.ModelSelection{Name: "model"}, ServiceAccountName: "agent",
	}}
	for _, c := range change {
		c(r)
	}
	return r
}

func aTurn() *v1alpha1.Turn {
	t := &v1alpha1.Turn{ObjectMeta: meta("new"), Spec: v1alpha1.TurnSpec{
		RunName: "run", RunUID: "6a2f0d4c", Step: 1, Reply: v1alpha1.TurnReply{Time: metav1.NowMicro(), Finish: "Stop", Text: "Done."},
	}}
	t.Labels = map[string]string{v1alpha1.LabelRunUID: "6a2f0d4c"}
	t.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AgentRun", Name: "run", UID: "6a2f0d4c"}}
	return t
}

func aModel(secret string) *v1alpha1.ModelBinding {
	m := &v1alpha1.ModelBinding{ObjectMeta: meta("new"), Spec: v1alpha1.ModelBindingSpec{
		OpenAI: &v1alpha1.OpenAIModel{Model: "large", BaseURL: "https://models.example"},
	}}
	if secret != "" {
		m.Spec.OpenAI.APIKeySecret = &v1alpha1.SecretKey{Name: secret, Key: "key"}
	}
	return m
}

func aTool() *v1alpha1.ToolBinding {
	return &v1alpha1.ToolBinding{ObjectMeta: meta("new"), Spec: v1alpha1.ToolBindingSpec{
		Description: "Looks.", Effect: v1alpha1.EffectReadOnly, InputSchema: &runtime.RawExtension{Raw: []byte(`{"type":"object"}`)},
		Backend: v1alpha1.ToolBackend{HTTP: &v1alpha1.HTTPBackend{URL: "https://look.tools.svc", Tool: "look"}},
	}}
}

// stored are objects that are there from the start, one of each Kind, all of the same name but the Turn.
func stored() []client.Object {
	all := []client.Object{anApproval(), aRun(), aModel(""), aTool(), &corev1.ServiceAccount{ObjectMeta: meta("agent")}}
	for _, o := range all[:4] {
		o.SetName("stored")
	}
	all[1].SetFinalizers([]string{"interlock.dev/charged-to-parent", "interlock.dev/unsettled-write", "example.com/kept"})
	keyed := aModel("bank")
	keyed.Name = "keyed"
	priced := aModel("")
	priced.Name, priced.Spec.Price = "priced", &v1alpha1.ModelPrice{Input: "1", Output: "2"}
	turn := aTurn()
	turn.Name = turnName
	policy := &v1alpha1.RunPolicy{ObjectMeta: metav1.ObjectMeta{Name: "stored"}}
	policy.Spec.NamespaceSelector = &v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"kubernetes.io/metadata.name": "elsewhere"}}
	return append(all, keyed, priced, turn, policy)
}

func aToken(seconds int64, audiences ...string) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: &seconds}}
}
