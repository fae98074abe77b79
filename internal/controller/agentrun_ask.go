// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/approval"
	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
)

// subjectOf gives what people approve of a call.
func subjectOf(agentRun *v1alpha1.AgentRun, b *v1alpha1.ToolBinding, t *openTool, c run.Call, expires time.Time) approval.Subject {
	s := approval.Subject{
		RunUID: string(agentRun.UID), CallID: c.ID, Principal: principalOf(agentRun).String(), OperationID: c.OperationID,
		BindingUID: c.Binding.UID, BindingGeneration: c.Binding.Generation, DefinitionDigest: t.DefinitionDigest, Endpoint: endpointOf(b),
		ArgumentsDigest: c.ArgumentsDigest, Expires: expires,
	}
	if c.Preview != nil {
		s.PreviewDigest, s.ResourceVersion = c.Preview.Digest, c.Preview.ResourceVersion
	}
	return s
}

func ask(agentRun *v1alpha1.AgentRun, b *v1alpha1.ToolBinding, t *openTool, c run.Call, expires time.Time) *run.Ask {
	return &run.Ask{Digest: subjectOf(agentRun, b, t, c, expires).Digest(), Expires: expires}
}

// expiry is until when a call can be approved, to the second, as the digest has it: the binding's time from the given moment
// on, but not beyond the preview or the run.
func expiry(p *pass, b *v1alpha1.ToolBinding, from, preview time.Time) time.Time {
	expires := from.Truncate(time.Second).Add(approvalTime(b))
	for _, limit := range []time.Time{preview, p.before.Deadline} {
		if limit = limit.Truncate(time.Second); !limit.IsZero() && limit.Before(expires) {
			expires = limit
		}
	}
	return expires.UTC()
}

// previewed makes an event of a preview: with the question to people, if they are to be asked.
func (r *AgentRunReconciler) previewed(ctx context.Context, p *pass, o *outcome) (run.Event, error) {
	e := run.Previewed{CallID: o.callID, Attempt: o.attempt, At: o.at, Preview: run.Preview{
		ID: o.preview.ID, Digest: arguments.Digest(o.preview.Canonical), ResourceVersion: o.preview.ResourceVersion,
	}}
	c, ok := p.before.Call(o.callID)
	if !ok || c.Rules.Approvals == 0 {
		return e, nil
	}
	b, _, err := r.toolBinding(ctx, p.ref.Namespace, c.Tool)
	if err != nil {
		return nil, err
	}
	if b == nil || bindingOf(b) != c.Binding {
		return run.ToolFailed{CallID: o.callID, Attempt: o.attempt, Failure: run.Failure{At: o.at, Code: codeToolChanged, Message: toolChanged}}, nil
	}
	t, err := r.Tools.Open(b)
	if err != nil {
		return nil, fmt.Errorf("opening the tool %s: %w", b.Name, err)
	}
	// People's time runs from the model's reply on or, where that has been asked before, from the new preview on.
	from := o.at
	if turn, ok, err := r.Journal.Find(ctx, p.ref, p.before.Step); err == nil && ok && c.Failures == 0 {
		from = turn.At
	}
	c.Preview = &e.Preview
	e.Ask = ask(p.run, b, t, c, expiry(p, b, from, o.preview.Expires))
	return e, nil
}

// pendingApprovals shows what people are asked. What was shown before stays as it was; what is new is made of the journal and
// of the previews of this pass.
func (r *AgentRunReconciler) pendingApprovals(ctx context.Context, p *pass) ([]v1alpha1.PendingApproval, error) {
	shown := map[string]v1alpha1.PendingApproval{}
	for _, old := range p.run.Status.PendingApprovals {
		shown[old.Digest] = old
	}
	var pending []v1alpha1.PendingApproval
	for _, c := range p.after.Calls {
		if c.State != run.CallAwaitingApproval {
			continue
		}
		entry, ok := shown[c.Ask.Digest]
		if !ok {
			made, err := r.pendingApproval(ctx, p, c)
			if err != nil {
				return nil, err
			}
			entry = made
		}
		pending = append(pending, entry)
	}
	return pending, nil
}

// maxShownArguments is how long arguments may be to be shown in the status, in bytes.
const maxShownArguments = 4096

func (r *AgentRunReconciler) pendingApproval(ctx context.Context, p *pass, c run.Call) (v1alpha1.PendingApproval, error) {
	b, why, err := r.toolBinding(ctx, p.ref.Namespace, c.Tool)
	if err != nil {
		return v1alpha1.PendingApproval{}, err
	}
	if b == nil {
		return v1alpha1.PendingApproval{}, fmt.Errorf("ToolBinding %s %s", c.Tool, why)
	}
	t, err := r.Tools.Open(b)
	if err != nil {
		return v1alpha1.PendingApproval{}, fmt.Errorf("opening the tool %s: %w", c.Tool, err)
	}
	turn, ok, err := r.Journal.Find(ctx, p.ref, p.after.Step)
	if err != nil || !ok {
		return v1alpha1.PendingApproval{}, fmt.Errorf("finding what the model asked for: %w", errorOr(err, journal.ErrMissing))
	}
	manifest, err := manifestOf(p.run, c)
	if err != nil {
		return v1alpha1.PendingApproval{}, err
	}
	entry := v1alpha1.PendingApproval{
		CallID: c.ID, Tool: c.Tool, Endpoint: endpointOf(b), RequestedBy: p.run.Spec.RequestedBy, RequiredBy: requiredBy(p.policies, b), Principal: principalOf(p.run).String(),
		Expires: metav1.NewTime(c.Ask.Expires), Digest: c.Ask.Digest, DefinitionDigest: t.DefinitionDigest, Manifest: manifest,
		FromModel: v1alpha1.ModelWords{ArgumentsDigest: c.ArgumentsDigest, Turn: journal.TurnName(p.ref.UID, p.after.Step)},
	}
	if proposed, _ := turn.Call(c.ID); len(proposed.Arguments) <= maxShownArguments {
		entry.FromModel.Arguments = proposed.Arguments
	}
	for _, o := range p.outcomes {
		if o.preview != nil && o.callID == c.ID {
			entry.FromTool = &v1alpha1.ToolWords{Preview: string(o.preview.Canonical), Summary: o.preview.Summary, Changes: o.preview.Changes}
		}
	}
	return entry, nil
}

// manifestOf writes the Approval that would let a call through.
func manifestOf(agentRun *v1alpha1.AgentRun, c run.Call) (string, error) {
	spec, err := json.Marshal(v1alpha1.ApprovalSpec{
		Run: v1alpha1.RunReference{Name: agentRun.Name, UID: string(agentRun.UID)}, CallID: c.ID, Tool: c.Tool, Digest: c.Ask.Digest,
		Decision: v1alpha1.DecisionApprove,
	})
	if err != nil {
		return "", fmt.Errorf("writing the manifest: %w", err)
	}
	manifest, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Approval", "spec": json.RawMessage(spec),
		"metadata": map[string]any{"namespace": agentRun.Namespace, "generateName": agentRun.Name + "-" + c.ID + "-"},
	})
	if err != nil {
		return "", fmt.Errorf("writing the manifest: %w", err)
	}
	return string(manifest), nil
}

func errorOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
