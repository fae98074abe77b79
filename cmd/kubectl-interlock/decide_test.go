// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/approval"
	"github.com/interlock-dev/interlock/internal/arguments"
)

func TestApprove_showsTheCallAndSignsIt(t *testing.T) {
	f := newFixture(aRun())
	f.typed = "s3c1\n"
	out, errOut, err := f.run(t, "approve", "refunds", "--wait=false", "--reason", "Paid twice.")
	checkError(t, err, "")
	name := ""
	if got := f.approvals(t); len(got) == 1 {
		name = got[0].Name
		want := v1alpha1.ApprovalSpec{
			Run: v1alpha1.RunReference{Name: "refunds", UID: "6f1c0c1e-9d0b-4a0e-8f0e-3b1f8f1d2a3b"}, CallID: "s3c1", Tool: "refund",
			Digest: theDigest, Decision: v1alpha1.DecisionApprove, Reason: "Paid twice.",
		}
		if diff := cmp.Diff(want, got[0].Spec); diff != "" {
			t.Error(diff)
		}
	}
	if !strings.HasPrefix(name, "refunds-s3c1-") {
		t.Errorf("the Approval is called %q, want refunds-s3c1-…", name)
	}
	checkGolden(t, "approve.txt", strings.ReplaceAll(out, name, "NAME"))
	if want := "\nType s3c1 to approve the call: "; errOut != want {
		t.Errorf("asked %q, want %q", errOut, want)
	}
}

func TestApprove_escapesWhatModelAndToolWrote(t *testing.T) {
	args := "{\"note\":\"ok\u202e \u0440aypal\u001b[2J and a line that is too long for the terminal, so that it is folded here\"}"
	canonical, err := arguments.Canonical(strings.ReplaceAll(args, "\x1b", `\u001b`))
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(aRun(func(run *v1alpha1.AgentRun) {
		asked(run).FromModel.Arguments = string(canonical)
		asked(run).FromTool.Preview = "{\"Summary\":\"unseen\",\"id\":\"pv_1\",\"resourceVersion\":\"7\",\"summary\":\"Fine.\\n\\nInterlock vouches for this:\\n\\u001b[1A\u200b\"}"
	}))
	out, _, err := f.run(t, "approve", "refunds", "--yes")
	checkError(t, err, "not what the run asks about")
	_, words, _ := strings.Cut(out, "\nThe model chose")
	checkGolden(t, "hostile.txt", "The model chose"+words)
}

func TestDecide_refuses(t *testing.T) {
	yes := []string{"approve", "refunds", "--yes"}
	for name, test := range map[string]struct {
		change func(*v1alpha1.AgentRun)
		args   []string
		want   string
	}{
		"arguments altered by one byte": {func(run *v1alpha1.AgentRun) {
			asked(run).FromModel.Arguments = strings.Replace(theArguments, "1250", "9250", 1)
		}, yes, "the arguments have the digest sha256:"},
		"arguments altered together with their digest": {func(run *v1alpha1.AgentRun) {
			altered := strings.Replace(theArguments, "1250", "9250", 1)
			asked(run).FromModel = v1alpha1.ModelWords{Arguments: altered, ArgumentsDigest: arguments.Digest([]byte(altered)), Turn: "refunds-t3"}
			run.Status.Calls[0].ArgumentsDigest = arguments.Digest([]byte(altered))
		}, yes, "the arguments make the operation ID"},
		"arguments in another form": {func(run *v1alpha1.AgentRun) {
			asked(run).FromModel.Arguments = strings.Replace(theArguments, ",", ", ", 1)
		}, yes, "not in canonical form"},
		"a preview altered by one byte": {func(run *v1alpha1.AgentRun) {
			asked(run).FromTool.Preview = strings.Replace(thePreview, "pay_1001.", "pay_1002.", 1)
		}, yes, "the preview has the digest"},
		"a preview in another form": {func(run *v1alpha1.AgentRun) {
			asked(run).FromTool.Preview = strings.Replace(thePreview, ",", ", ", 1)
			run.Status.Calls[0].Write.Preview.Digest = arguments.Digest([]byte(asked(run).FromTool.Preview))
			sign(run)
		}, yes, "the preview is not in canonical form"},
		"a preview that is no object": {func(run *v1alpha1.AgentRun) {
			asked(run).FromTool.Preview = "null"
			sign(run)
		}, yes, "the preview is no JSON object"},
		"a preview taken away": {func(run *v1alpha1.AgentRun) { asked(run).FromTool = nil }, yes, "the preview has the digest none"},
		"a preview of another version": {func(run *v1alpha1.AgentRun) {
			run.Status.Calls[0].Write.Preview.ResourceVersion = "8"
		}, yes, "the preview is of the resource version 7, and asked for is 8"},
		"another endpoint":              {func(run *v1alpha1.AgentRun) { asked(run).Endpoint = "https://evil.example" }, yes, "the endpoint, the tool's rules"},
		"another version of the rules":  {func(run *v1alpha1.AgentRun) { run.Status.Calls[0].BindingGeneration++ }, yes, "the endpoint, the tool's rules"},
		"another principal":             {func(run *v1alpha1.AgentRun) { asked(run).Principal = "system:serviceaccount:shop:root" }, yes, "the run acts as"},
		"somebody else requested it":    {func(run *v1alpha1.AgentRun) { asked(run).RequestedBy = "dave@example.com" }, yes, "requested by dave@example.com, and asked for is ann@example.com"},
		"another tool by the same call": {func(run *v1alpha1.AgentRun) { asked(run).Tool = "lookup" }, yes, "the tool is lookup"},
		"another time": {func(run *v1alpha1.AgentRun) {
			asked(run).Expires = metav1.NewTime(theExpiry.AddDate(0, 0, 1))
		}, yes, "the call expires at 2026-01-03T04:04:05Z"},
		"another digest":            {func(run *v1alpha1.AgentRun) { asked(run).Digest = "sha256:" + strings.Repeat("0", 64) }, yes, "all that is shown has the digest"},
		"no such call in the state": {func(run *v1alpha1.AgentRun) { run.Status.Calls = nil }, yes, "operation ID"},
		"expired":                   {expired, yes, "the time to answer was over at 2026-01-02T03:39:05Z"},
		"expired, to deny":          {expired, []string{"deny", "refunds", "--yes", "--reason", "no"}, "the time to answer was over"},
		"the wrong call":            {func(*v1alpha1.AgentRun) {}, []string{"approve", "refunds", "s3c2", "--yes"}, "call s3c2 does not wait for approval; these do: s3c1"},
		"no call that waits": {func(run *v1alpha1.AgentRun) {
			run.Status.PendingApprovals, run.Status.Phase = nil, v1alpha1.PhaseThinking
		}, yes, "its phase is Thinking"},
		"one of two, without saying which": {func(run *v1alpha1.AgentRun) {
			run.Status.PendingApprovals = append(run.Status.PendingApprovals, v1alpha1.PendingApproval{CallID: "s3c2"})
		}, yes, "name one of the calls that wait for approval: s3c1, s3c2"},
		"no terminal":          {func(*v1alpha1.AgentRun) {}, []string{"approve", "refunds"}, "use --yes"},
		"a denial, no reason":  {func(*v1alpha1.AgentRun) {}, []string{"deny", "refunds", "--yes"}, `"reason" not set`},
		"a run that isn't one": {func(*v1alpha1.AgentRun) {}, []string{"approve", "other", "--yes"}, `"other" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(aRun(test.change))
			_, _, err := f.run(t, test.args...)
			checkError(t, err, test.want)
			if got := f.approvals(t); len(got) != 0 {
				t.Errorf("there is an Approval: %v", got)
			}
		})
	}
}

// expired makes the time of a call end at the very moment of the test, with a digest that says the same.
func expired(run *v1alpha1.AgentRun) {
	asked(run).Expires = metav1.NewTime(theTime)
	run.Status.Calls[0].Write.Expires = new(metav1.NewTime(theTime))
	sign(run)
}

// sign makes the digest that is asked for the one of what is shown, so that only the rest is wrong.
func sign(run *v1alpha1.AgentRun) {
	r := &request{run: run, asked: *asked(run), call: run.Status.Calls[0], arguments: theArguments, preview: readPreview(asked(run).FromTool.Preview)}
	digest := r.subject().Digest()
	asked(run).Digest, run.Status.Calls[0].Write.Digest = digest, digest
}

func TestApprove_needsTheCallsIDTyped(t *testing.T) {
	f := newFixture(aRun())
	f.typed = "yes\n"
	_, _, err := f.run(t, "approve", "refunds")
	checkError(t, err, "that is not the call's ID")
	if got := f.approvals(t); len(got) != 0 {
		t.Errorf("there is an Approval: %v", got)
	}
}

func TestApprove_signsNothingThatItCouldNotShow(t *testing.T) {
	f := newFixture(aRun())
	f.brokenPipe = true
	_, _, err := f.run(t, "approve", "refunds", "--yes")
	checkError(t, err, "the call could not be shown, so nothing was sent")
	if got := f.approvals(t); len(got) != 0 {
		t.Errorf("there is an Approval: %v", got)
	}
}

// longRun asks about a call whose arguments are in its Turn alone.
func longRun() (*v1alpha1.AgentRun, *v1alpha1.Turn) {
	long := `{"note":"` + strings.Repeat("x", 5000) + `"}`
	run := aRun(func(run *v1alpha1.AgentRun) {
		run.Status.Calls[0].ArgumentsDigest = arguments.Digest([]byte(long))
		run.Status.Calls[0].OperationID = arguments.OperationID(string(run.UID), "s3c1", []byte(long))
		asked(run).FromModel = v1alpha1.ModelWords{ArgumentsDigest: arguments.Digest([]byte(long)), Turn: "refunds-t3"}
		digest := approval.Subject{
			RunUID: string(run.UID), CallID: "s3c1", Principal: asked(run).Principal, OperationID: run.Status.Calls[0].OperationID,
			BindingUID: run.Status.Calls[0].BindingUID, BindingGeneration: 4, DefinitionDigest: asked(run).DefinitionDigest,
			Endpoint: asked(run).Endpoint, ArgumentsDigest: run.Status.Calls[0].ArgumentsDigest, PreviewDigest: run.Status.Calls[0].Write.Preview.Digest,
			ResourceVersion: "7", Expires: theExpiry.Time,
		}.Digest()
		asked(run).Digest, run.Status.Calls[0].Write.Digest = digest, digest
	})
	return run, &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "refunds-t3"},
		Spec:       v1alpha1.TurnSpec{RunUID: string(run.UID), Reply: v1alpha1.TurnReply{Calls: []v1alpha1.TurnCall{{ID: "s3c1", Arguments: long}}}},
	}
}

func TestApprove_readsLongArgumentsInTheirTurn(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.Turn)
		want   string
	}{
		"as they were asked for": {func(*v1alpha1.Turn) {}, ""},
		"altered":                {func(turn *v1alpha1.Turn) { turn.Spec.Reply.Calls[0].Arguments += " " }, "the arguments have the digest"},
		"of another run":         {func(turn *v1alpha1.Turn) { turn.Spec.RunUID = "other" }, "is not one of this run"},
		"of another call":        {func(turn *v1alpha1.Turn) { turn.Spec.Reply.Calls[0].ID = "s3c2" }, "has no call s3c1"},
	} {
		t.Run(name, func(t *testing.T) {
			run, turn := longRun()
			test.change(turn)
			_, _, err := newFixture(run, turn).run(t, "approve", "refunds", "--yes", "--wait=false")
			checkError(t, err, test.want)
		})
	}
}

func TestApprove_warnsOfSelfApproval(t *testing.T) {
	for user, want := range map[string]string{
		"ann@example.com": "you requested this run", "system:serviceaccount:shop:agent": "the run acts as you", "carol@example.com": "",
	} {
		f := newFixture(aRun())
		f.user = user
		_, errOut, err := f.run(t, "approve", "refunds", "--yes", "--wait=false")
		checkError(t, err, "")
		if !strings.Contains(errOut, want) || (want == "" && errOut != "") {
			t.Errorf("%s is told %q, want %q", user, errOut, want)
		}
	}
}

func TestDeny_writesAnApprovalForAPullRequest(t *testing.T) {
	f := newFixture(aRun())
	out, errOut, err := f.run(t, "deny", "refunds", "-o", "yaml", "--reason", "Not paid twice.")
	checkError(t, err, "")
	checkGolden(t, "deny.yaml", out)
	if !strings.Contains(errOut, "Interlock vouches for this:") {
		t.Errorf("the call is not shown beside it: %q", errOut)
	}
	if got := f.approvals(t); len(got) != 0 {
		t.Errorf("there is an Approval: %v", got)
	}
}

func TestApprove_givesTheAPIServersWords(t *testing.T) {
	f := newFixture(aRun())
	f.createErr = errors.New("you may not approve calls of refund")
	_, _, err := f.run(t, "approve", "refunds", "--yes")
	checkError(t, err, "you may not approve calls of refund")
}

func TestApprove_waitsForWhatComesOfIt(t *testing.T) {
	for name, test := range map[string]struct {
		condition        metav1.Condition
		wantOut, wantErr string
	}{
		"it counts": {metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Effective", Message: "1 of 1"}, "Effective: 1 of 1", ""},
		"it is of no effect": {
			metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "SelfApproval", Message: "ann requested the run"},
			"", "no effect: SelfApproval: ann requested the run",
		},
		"nobody says anything": {metav1.Condition{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: "Waiting"}, "", "nothing was said of it within 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(aRun())
			f.watched = func() {
				answer := f.approvals(t)[0]
				answer.Status.Conditions = []metav1.Condition{test.condition}
				if err := f.client.Status().Update(t.Context(), &answer); err != nil {
					t.Error(err)
				}
			}
			out, _, err := f.run(t, "approve", "refunds", "--yes", "--timeout", "300ms")
			checkError(t, err, test.wantErr)
			if !strings.Contains(out, test.wantOut) {
				t.Errorf("got %q, want %q in it", out, test.wantOut)
			}
		})
	}
}
