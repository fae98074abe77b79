// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// The call is the first of internal/approval/testdata/vectors.json, so that its digest was not made by what is tested.
const (
	theArguments       = `{"amountMinor":1250,"currency":"EUR","paymentId":"pay_1001"}`
	theArgumentsDigest = "sha256:62feb37c2748d49418119fbb49ef3fcf90b663786f573ef090c9520ea208294f"
	thePreview         = `{"changes":"-refunded: 0.00 EUR\n+refunded: 12.50 EUR","cost":"12.50 EUR","id":"pv_1","resourceVersion":"7","resources":["payment/pay_1001"],"summary":"Refund 12.50 EUR of payment pay_1001."}`
	theDigest          = "sha256:8585b1caba1b919b3c980776a21f44ab0a87725b28ccb71ef5f08027a5ecaf12"
)

var (
	theExpiry = metav1.NewTime(time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC))
	theTime   = time.Date(2026, 1, 2, 3, 39, 5, 0, time.UTC)
)

// aRun waits for the approval of one call.
func aRun(changes ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	run := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "refunds", UID: "6f1c0c1e-9d0b-4a0e-8f0e-3b1f8f1d2a3b"},
		Spec: v1alpha1.AgentRunSpec{
			Goal: "Refund what was paid twice.", ServiceAccountName: "agent", RequestedBy: "ann@example.com",
			Limits: v1alpha1.RunLimits{MaxSteps: 25},
		},
		Status: v1alpha1.AgentRunStatus{
			Phase: v1alpha1.PhaseAwaitingApproval, Step: 3,
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAwaitingApproval,
				Message: "Call s3c1 of tool refund waits for approval.",
			}},
			Calls: []v1alpha1.CallStatus{{
				ID: "s3c1", Tool: "refund", State: v1alpha1.CallAwaitingApproval, Attempt: 1,
				OperationID:     "453f156bfd0f0ab49a6a431969e5fb22925a2262a67d7b3be8f5bdeb9bfc8e71",
				ArgumentsDigest: theArgumentsDigest, BindingUID: "0b9a7d3e-52a5-4a5c-a8b7-1c9e2d3f4a5b", BindingGeneration: 4,
				Write: &v1alpha1.WriteStatus{
					Effect: v1alpha1.EffectWrite, Protocol: v1alpha1.ProtocolPreviewCommit, Approvals: new(int32(2)),
					Digest: theDigest, Expires: &theExpiry, ApprovedBy: []v1alpha1.ApprovedBy{{Approver: "bob@example.com", UID: "1"}},
					Preview: &v1alpha1.PreviewStatus{
						ID: "pv_1", ResourceVersion: "7", Digest: "sha256:62107b2a2f4c87ebc92f8a404e904967769668c47e43fe35adf04d001f18e9b3",
					},
				},
			}},
			PendingApprovals: []v1alpha1.PendingApproval{{
				CallID: "s3c1", Tool: "refund", Endpoint: "https://payments.tools.svc:8443 refund_payment", RequestedBy: "ann@example.com",
				Principal: "system:serviceaccount:shop:agent", Expires: theExpiry, Digest: theDigest,
				DefinitionDigest: "sha256:a177cc21d3aca3bda1f684dfd8f77daf687dfb4299d0555636d98cd6520c8344",
				FromModel:        v1alpha1.ModelWords{Arguments: theArguments, ArgumentsDigest: theArgumentsDigest, Turn: "refunds-t3"},
				FromTool:         &v1alpha1.ToolWords{Preview: thePreview, Summary: "Refund 12.50 EUR of payment pay_1001."},
				Manifest:         "{}",
			}},
		},
	}
	for _, change := range changes {
		change(run)
	}
	return run
}

// asked is the call that waits.
func asked(run *v1alpha1.AgentRun) *v1alpha1.PendingApproval { return &run.Status.PendingApprovals[0] }

// A fixture is a cluster with a person before it.
type fixture struct {
	client client.WithWatch
	user   string
	// may are the tools whose calls the person may approve.
	may []string
	// typed is what the person types; without it there is no terminal.
	typed string
	// brokenPipe: nothing can be shown.
	brokenPipe bool
	// createErr is what creating an Approval fails with.
	createErr error
	// watched, if set, is called as soon as a watch has begun.
	watched func()
}

func newFixture(objects ...client.Object) *fixture {
	f := &fixture{user: "carol@example.com", may: []string{"refund"}}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	f.client = fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Approval{}, &v1alpha1.AgentRun{}).
		WithIndex(&v1alpha1.Approval{}, metav1.ObjectNameField, byName).WithIndex(&v1alpha1.AgentRun{}, metav1.ObjectNameField, byName).
		WithInterceptorFuncs(interceptor.Funcs{Create: f.create, List: listWithVersion, Watch: f.watch}).Build()
	return f
}

// listWithVersion gives lists a version, as every API server does.
func listWithVersion(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	err := c.List(ctx, list, opts...)
	list.SetResourceVersion("1")
	return err
}

// create answers what only an API server can.
func (f *fixture) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	switch o := o.(type) {
	case *authenticationv1.SelfSubjectReview:
		o.Status.UserInfo.Username = f.user
		return nil
	case *authorizationv1.SelfSubjectAccessReview:
		a := o.Spec.ResourceAttributes
		for _, tool := range f.may {
			o.Status.Allowed = o.Status.Allowed || (a.Verb == "approve" && a.Group == "interlock.dev" && a.Resource == "toolbindings" && a.Name == tool)
		}
		return nil
	case *v1alpha1.Approval:
		if f.createErr != nil {
			return f.createErr
		}
	}
	return c.Create(ctx, o, opts...)
}

func (f *fixture) watch(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	w, err := c.Watch(ctx, list, opts...)
	if f.watched != nil {
		f.watched()
	}
	return w, err
}

func (f *fixture) connect() (client.WithWatch, string, error) { return f.client, "shop", nil }

func (f *fixture) addFlags(*cobra.Command) {}

// run runs a command, and gives what it printed.
func (f *fixture) run(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{
		in: strings.NewReader(f.typed), out: &output{to: &stdout}, errOut: &output{to: &stderr},
		clock: clocktesting.NewFakePassiveClock(theTime), cluster: f, isTerminal: func() bool { return f.typed != "" },
	}
	if f.brokenPipe {
		a.out.err = io.ErrClosedPipe
	}
	err = a.execute(t.Context(), rootCommand(a), args)
	return stdout.String(), stderr.String(), err
}

// approvals are all that there are.
func (f *fixture) approvals(t *testing.T) []v1alpha1.Approval {
	t.Helper()
	var list v1alpha1.ApprovalList
	if err := f.client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in testdata/%s (-want +got):\n%s\ngot in full:\n%s", name, diff, got)
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got the error %v, want one that has %q", err, want)
	}
}
