// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// A request is one that is only tried: nothing is stored.
type request func(context.Context, client.Client) error

// A row is somebody's request, and what a policy says to it.
type row struct {
	as  string
	try request
	// policy is the one that refuses it, in the words of want. Both empty: it is taken.
	policy, want string
}

const (
	wantApprover  = "spec.approver is written by the API server: leave it out, or write your own user name"
	wantRequest   = "spec.requestedBy is written by the API server: leave it out, or write your own user name"
	wantFinalizer = "the finalizers interlock.dev/ are the Interlock operator's: it takes them away once the run is settled"
	wantOperator  = "only the Interlock operator writes this"
	wantToken     = "the Interlock operator asks for tokens of tools only, for an hour at most"
)

var rows = map[string]row{
	"an approval in one's own name, which is left out": {as: "approver", try: creates(anApproval())},
	"an approval in one's own name, which is written":  {as: "approver", try: creates(anApproval(by("approver")))},
	"an approval in another's name":                    {"approver", creates(anApproval(by("owner"))), "interlock-approvals", wantApprover},
	"an approval in the operator's name":               {"owner", creates(anApproval(by(operator))), "interlock-approvals", wantApprover},
	"an approval by somebody without the verb approve": {
		"stranger", creates(anApproval()), "interlock-approvals",
		"you may not answer for the ToolBinding refund: ask for the verb approve on it",
	},
	"a denial by somebody without the verb approve": {
		"stranger", creates(anApproval(func(a *v1alpha1.Approval) { a.Spec.Decision = v1alpha1.DecisionDeny })), "interlock-approvals",
		"you may not answer for the ToolBinding refund: ask for the verb approve on it",
	},
	"an approval for the one tool that one may approve": {as: "clerk", try: creates(anApproval())},
	"an approval for another tool than that": {
		"clerk", creates(anApproval(func(a *v1alpha1.Approval) { a.Spec.Tool = "pay" })), "interlock-approvals",
		"you may not answer for the ToolBinding pay: ask for the verb approve on it",
	},

	"a run in one's own name, which is left out": {as: "editor", try: creates(aRun())},
	"a run in one's own name, which is written":  {as: "editor", try: creates(aRun(requestedBy("editor")))},
	"a child run of one's own": {
		"editor", creates(aRun(func(r *v1alpha1.AgentRun) {
			r.Spec.Parent = &v1alpha1.ParentReference{Name: "run", UID: "6a2f0d4c", CallID: "s1c1", Deadline: metav1.Unix(1_800_000_000, 0)}
		})), "interlock-runs", "spec.parent is written by the Interlock operator: leave it out",
	},
	"a run in another's name": {"editor", creates(aRun(requestedBy("owner"))), "interlock-runs", wantRequest},
	"a run in another's name, by an administrator": {
		"owner", creates(aRun(requestedBy("editor"))), "interlock-runs", wantRequest,
	},
	"a run by somebody without the verb use": {
		"stranger", creates(aRun()), "interlock-runs",
		"you may not have a run act as the ServiceAccount agent: ask for the verb use on it",
	},
	"a run as the ServiceAccount that is filled in, without the verb use": {
		"clerk", creates(aRun(runsAs(""))), "interlock-runs",
		"you may not have a run act as the ServiceAccount default: ask for the verb use on it",
	},
	"a run as the one ServiceAccount that one may use": {as: "clerk", try: creates(aRun())},
	"a run that somebody else cancels": {as: "editor", try: changes(&v1alpha1.AgentRun{}, "stored", func(r *v1alpha1.AgentRun) {
		r.Spec.Cancel = &v1alpha1.Cancellation{Reason: "Not needed."}
	})},

	"a run with a limit of cost, whose model has a price": {as: "editor", try: creates(aRun(costs("priced")))},
	"a run with a limit of cost, whose model comes later": {as: "editor", try: creates(aRun(costs("later")))},
	"a run with a limit of cost, whose model has no price": {
		"editor", creates(aRun(costs("stored"))), "interlock-prices",
		"spec.limits.maxCost needs models with a price: give the ModelBinding stored a spec.price, or leave maxCost out",
	},
	"a run with a limit of cost, whose candidates have a price": {as: "editor", try: creates(aRun(costsRouted("priced", "later")))},
	"a run with a limit of cost, one of whose candidates has no price": {
		"editor", creates(aRun(costsRouted("priced", "later", "stored"))), "interlock-prices",
		"spec.limits.maxCost needs models with a price: give the ModelBinding stored a spec.price, or leave maxCost out",
	},
	"a run with a limit of cost, whose chooser has no price": {
		"editor", creates(aRun(costsRouted("priced"), func(r *v1alpha1.AgentRun) { r.Spec.Model.Router.Chooser = "stored" })), "interlock-prices",
		"spec.limits.maxCost needs models with a price: give the ModelBinding stored a spec.price, or leave maxCost out",
	},
	"a run without a limit of cost, whose model has no price": {as: "editor", try: creates(aRun(func(r *v1alpha1.AgentRun) {
		r.Spec.Model.Name = "stored"
	}))},

	"the operator's finalizer, taken away by the operator": {as: operator, try: changes(&v1alpha1.AgentRun{}, "stored", lessFinalizer("interlock.dev/charged-to-parent"))},
	"the operator's finalizer, taken away by somebody else": {
		"editor", changes(&v1alpha1.AgentRun{}, "stored", lessFinalizer("interlock.dev/charged-to-parent")), "interlock-finalizers", wantFinalizer,
	},
	"all finalizers, taken away by a namespace's owner": {
		"owner", changes(&v1alpha1.AgentRun{}, "stored", func(r *v1alpha1.AgentRun) { r.Finalizers = nil }), "interlock-finalizers", wantFinalizer,
	},
	"another's finalizer, taken away": {as: "editor", try: changes(&v1alpha1.AgentRun{}, "stored", lessFinalizer("example.com/kept"))},

	"the switch of a model with a Secret that one can't read": {as: "binder", try: changes(&v1alpha1.ModelBinding{}, "keyed", func(m *v1alpha1.ModelBinding) {
		m.Spec.Suspend = true
	})},
	"the address of a model with a Secret that one can't read": {
		"binder", changes(&v1alpha1.ModelBinding{}, "keyed", func(m *v1alpha1.ModelBinding) { m.Spec.OpenAI.BaseURL = "https://mine.example.com/v1" }),
		"interlock-secrets", wantSecret("bank"),
	},

	"a Turn by the operator":             {as: operator, try: creates(aTurn())},
	"a Turn by a namespace's owner":      {"owner", creates(aTurn()), "interlock-written-by-operator", wantOperator},
	"a result in a Turn by the operator": {as: operator, try: changes(&v1alpha1.Turn{}, turnName, addResult)},
	"a result in a Turn by a namespace's owner": {
		"owner", changes(&v1alpha1.Turn{}, turnName, addResult), "interlock-written-by-operator", wantOperator,
	},
	"the owners of a Turn by the garbage collector": {as: garbageCollector, try: changes(&v1alpha1.Turn{}, turnName, func(t *v1alpha1.Turn) {
		t.OwnerReferences = nil
	})},
	"the labels of a Turn by a namespace's owner": {
		"owner", changes(&v1alpha1.Turn{}, turnName, func(t *v1alpha1.Turn) { t.Labels[v1alpha1.LabelRunUID] = "another" }),
		"interlock-written-by-operator", wantOperator,
	},
	"the labels of a Turn, all taken away by a namespace's owner": {
		"owner", changes(&v1alpha1.Turn{}, turnName, func(t *v1alpha1.Turn) { t.Labels = nil }), "interlock-written-by-operator", wantOperator,
	},
	"the status of a run by the operator":          {as: operator, try: writesStatus("AgentRun")},
	"the status of an approval by the operator":    {as: operator, try: writesStatus("Approval")},
	"the status of a ToolBinding by the operator":  {as: operator, try: writesStatus("ToolBinding")},
	"the status of a ModelBinding by the operator": {as: operator, try: writesStatus("ModelBinding")},
	"the status of a run by a namespace's owner":   {"owner", writesStatus("AgentRun"), "interlock-written-by-operator", wantOperator},
	"the status of an approval by a namespace's owner": {
		"owner", writesStatus("Approval"), "interlock-written-by-operator", wantOperator,
	},
	"the status of a ToolBinding by a namespace's owner": {
		"owner", writesStatus("ToolBinding"), "interlock-written-by-operator", wantOperator,
	},
	// Its status is not of a namespace, so who may do anything is the one who could write it.
	"the status of a RunPolicy by an administrator": {"", writesStatus("RunPolicy"), "interlock-written-by-operator", wantOperator},
	"the status of a ModelBinding by a namespace's owner": {
		"owner", writesStatus("ModelBinding"), "interlock-written-by-operator", wantOperator,
	},
	"the status of a run by server-side apply": {"owner", appliesStatus, "interlock-written-by-operator", wantOperator},

	"a model without a Secret":                  {as: "binder", try: creates(aModel(""))},
	"a model with a Secret that one may read":   {as: "keeper", try: creates(aModel("model-key"))},
	"a model with a Secret that one can't read": {"binder", creates(aModel("model-key")), "interlock-secrets", wantSecret("model-key")},
	"a model with another Secret than the one that one may read": {
		"keeper", creates(aModel("bank")), "interlock-secrets", wantSecret("bank"),
	},
	"a model that is given a Secret that one can't read": {
		"binder", changes(&v1alpha1.ModelBinding{}, "stored", func(m *v1alpha1.ModelBinding) { m.Spec = aModel("bank").Spec }),
		"interlock-secrets", wantSecret("bank"),
	},

	"a token for a tool by the operator":                {as: operator, try: asksFor(aToken(600, "tools.interlock.dev/refund"))},
	"a token for the API server by the operator":        {operator, asksFor(aToken(600, "https://kubernetes.default.svc")), "interlock-tokens", wantToken},
	"a token for whom it is not said, by the operator":  {operator, asksFor(aToken(600)), "interlock-tokens", wantToken},
	"a token for a tool and others by the operator":     {operator, asksFor(aToken(600, "tools.interlock.dev/x", "api")), "interlock-tokens", wantToken},
	"a token for what sounds like a tool":               {operator, asksFor(aToken(600, "tools.interlock.dev.evil/x")), "interlock-tokens", wantToken},
	"a token for more than an hour by the operator":     {operator, asksFor(aToken(3601, "tools.interlock.dev/x")), "interlock-tokens", wantToken},
	"a token for the API server by a namespace's owner": {as: "owner", try: asksFor(aToken(600, "https://kubernetes.default.svc"))},
}

// probes are one row of each policy that refuses.
var probes = []string{
	"an approval in another's name", "a run in another's name", "a Turn by a namespace's owner",
	"a model with a Secret that one can't read", "a token for the API server by the operator",
	"a run with a limit of cost, whose model has no price", "the operator's finalizer, taken away by somebody else",
}

func TestPolicies(t *testing.T) {
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			if err := r.check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// While nobody says who the operator is, nobody is: not even the operator writes.
func TestPolicies_withoutTheirParametersRefuse(t *testing.T) {
	parameters := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "interlock-system", Name: "interlock-admission"}}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(parameters), parameters); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), parameters.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		parameters.ResourceVersion = ""
		if err := errors.Join(api.Create(context.Background(), parameters), inForce(context.Background())); err != nil {
			t.Error(err)
		}
		if err := until(context.Background(), rows["a Turn by the operator"].check); err != nil {
			t.Error(err)
		}
	})
	for _, try := range []request{creates(aTurn()), writesStatus("AgentRun")} {
		r := row{as: operator, try: try}
		err := until(t.Context(), func(ctx context.Context) error {
			if err := r.check(ctx); err == nil || !strings.Contains(err.Error(), "no params found") {
				return fmt.Errorf("it is not refused for want of parameters: %w", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	// What is not Interlock's goes on. They are read anew together, so that this is no matter of time.
	for _, r := range []row{
		{as: "owner", try: asksFor(aToken(600, "https://kubernetes.default.svc"))},
		rows["another's finalizer, taken away"],
	} {
		if err := until(t.Context(), r.check); err != nil {
			t.Error(err)
		}
	}
}

// check is an error unless the API server says to a request what it should.
func (r row) check(ctx context.Context) error {
	c, err := as(r.as)
	if err != nil {
		return err
	}
	err = r.try(ctx, c)
	switch refusal := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%[1]s' denied request: %s", r.policy, r.want); {
	case r.policy == "" && err != nil:
		return fmt.Errorf("it was refused: %w", err)
	case r.policy == "":
		return nil
	case err == nil:
		return errors.New("it was taken")
	case (!apierrors.IsForbidden(err) && !apierrors.IsInvalid(err)) || !strings.Contains(err.Error(), refusal):
		return fmt.Errorf("it was refused with\n\t%w\nand should be with\n\t%s", err, refusal)
	}
	return nil
}

func by(name string) func(*v1alpha1.Approval) {
	return func(a *v1alpha1.Approval) { a.Spec.Approver = name }
}

func requestedBy(name string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Spec.RequestedBy = name }
}

func costs(model string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Spec.Model.Name, r.Spec.Limits.MaxCost = model, "0.5" }
}

// costsRouted has a run with a limit of cost choose among models.
func costsRouted(models ...string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		r.Spec.Limits.MaxCost, r.Spec.Model = "0.5", v1alpha1.ModelSelection{Router: &v1alpha1.ModelRouter{}}
		for _, m := range models {
			r.Spec.Model.Router.Candidates = append(r.Spec.Model.Router.Candidates, v1alpha1.ModelCandidate{Name: m})
		}
	}
}

func lessFinalizer(name string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) {
		r.Finalizers = slices.DeleteFunc(r.Finalizers, func(f string) bool { return f == name })
	}
}

func runsAs(serviceAccount string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Spec.ServiceAccountName = serviceAccount }
}

func addResult(t *v1alpha1.Turn) {
	t.Spec.Results = append(t.Spec.Results, v1alpha1.TurnResult{CallID: "s1c1", State: v1alpha1.CallSucceeded, Time: metav1.NowMicro()})
}

func wantSecret(name string) string {
	return "you may not read the Secret " + name + ", so you may not have it used"
}

func creates(o client.Object) request {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

// changes makes a change to what is stored.
func changes[T client.Object](into T, name string, change func(T)) request {
	return func(ctx context.Context, c client.Client) error {
		o := into.DeepCopyObject().(T)
		if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
			return err
		}
		old := o.DeepCopyObject().(T)
		change(o)
		return c.Patch(ctx, o, client.MergeFrom(old), client.DryRunAll)
	}
}

// writesStatus writes the status of what is stored.
func writesStatus(kind string) request {
	return func(ctx context.Context, c client.Client) error {
		o := ofKind(kind)
		if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "stored"}, o); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(o.Object, int64(1), "status", "observedGeneration"); err != nil {
			return err
		}
		return c.Status().Update(ctx, o, client.DryRunAll)
	}
}

func appliesStatus(ctx context.Context, c client.Client) error {
	o := ofKind("AgentRun")
	o.SetNamespace(namespace)
	o.SetName("stored")
	if err := unstructured.SetNestedField(o.Object, "Succeeded", "status", "phase"); err != nil {
		return err
	}
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.DryRunAll)
}

func ofKind(kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	return o
}

func asksFor(token *authenticationv1.TokenRequest) request {
	return func(ctx context.Context, c client.Client) error {
		agent := &corev1.ServiceAccount{ObjectMeta: meta("agent")}
		return c.SubResource("token").Create(ctx, agent, token.DeepCopy(), client.DryRunAll)
	}
}
