// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/policy"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// +kubebuilder:rbac:groups=interlock.dev,resources=approvals,verbs=get;list;watch

// answers gives what people say about the calls that wait for them, and voids those whose tool has changed meanwhile. While
// nobody can know who wrote an Approval, none counts.
func (r *AgentRunReconciler) answers(ctx context.Context, p *pass) ([]run.Event, error) {
	var events []run.Event
	var waiting []run.Call
	for _, c := range p.before.Calls {
		if c.Done() || c.InFlight() || c.Outstanding() {
			continue
		}
		event, err := r.standing(ctx, p, c)
		switch {
		case err != nil:
			return nil, err
		case event != nil:
			events = append(events, event)
		case c.State == run.CallAwaitingApproval:
			waiting = append(waiting, c)
		}
	}
	if len(waiting) == 0 || r.Admission.Missing(ctx) != "" {
		return events, nil
	}
	approvals, err := r.approvalsOf(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, c := range waiting {
		said, err := r.consents(ctx, p, c, approvals)
		if err != nil {
			return nil, err
		}
		events = append(events, said...)
	}
	return events, nil
}

// standing says whether a call that is not in flight is still what it was: the journal may hold a refusal that the status lost,
// and its tool may have changed. Nil if it stands.
func (r *AgentRunReconciler) standing(ctx context.Context, p *pass, c run.Call) (run.Event, error) {
	turn, ok, err := r.Journal.Find(ctx, p.ref, p.before.Step)
	if err != nil {
		return nil, err
	}
	if result, recorded := turn.Result(c.ID); ok && recorded {
		return run.Recorded{CallID: c.ID, At: p.now, Verdict: policy.Verdict{Code: result.Code, Message: result.Message}}, nil
	}
	b, _, err := r.toolBinding(ctx, p.ref.Namespace, c.Tool)
	if err != nil {
		return nil, err
	}
	if b != nil && bindingOf(b) != c.Binding || b == nil && r.bindingChanged(ctx, p, c) {
		return run.Voided{CallID: c.ID, At: p.now, Verdict: policy.Verdict{Code: codeToolChanged, Message: toolChanged}}, nil
	}
	if b == nil {
		return nil, nil
	}
	if why := stricter(p.policies, b, c); why != "" {
		return run.Voided{CallID: c.ID, At: p.now, Verdict: policy.Verdict{Code: codePolicyStricter, Message: why}}, nil
	}
	return nil, nil
}

// bindingChanged reports whether a binding that can't be used now is another than the one that a call was checked by: one that
// is only out of service may come back.
func (r *AgentRunReconciler) bindingChanged(ctx context.Context, p *pass, c run.Call) bool {
	var b v1alpha1.ToolBinding
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: p.ref.Namespace, Name: c.Tool}, &b)
	return client.IgnoreNotFound(err) == nil && bindingOf(&b) != c.Binding
}

// approvalsOf lists the Approvals that speak of a run, the oldest first.
func (r *AgentRunReconciler) approvalsOf(ctx context.Context, p *pass) ([]v1alpha1.Approval, error) {
	var list v1alpha1.ApprovalList
	if err := r.Client.List(ctx, &list, client.InNamespace(p.ref.Namespace), client.MatchingFields{approvalsByRun: p.ref.UID}); err != nil {
		return nil, fmt.Errorf("listing approvals: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Approval) int {
		if byTime := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); byTime != 0 {
			return byTime
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list.Items, nil
}

// consents gives what Approvals say of one call. Denials come first: where people disagree, the call is not made.
func (r *AgentRunReconciler) consents(ctx context.Context, p *pass, c run.Call, approvals []v1alpha1.Approval) ([]run.Event, error) {
	var denials, events []run.Event
	for i := range approvals {
		a := &approvals[i]
		if a.Spec.Run.Name != p.ref.Name || a.Spec.CallID != c.ID || a.Spec.Tool != c.Tool || a.Spec.Digest != c.Ask.Digest || a.Spec.Approver == "" {
			continue
		}
		own, err := selfApproval(ctx, r.Client, p.run, a)
		if err != nil {
			return nil, err
		}
		switch {
		case own != "", a.CreationTimestamp.Time.Before(r.Admission.Since()):
		case a.Spec.Decision == v1alpha1.DecisionDeny:
			denials = append(denials, run.Denied{CallID: c.ID, Digest: a.Spec.Digest, At: p.now, Reason: text.Clean(a.Spec.Reason)})
		case a.Spec.Decision == v1alpha1.DecisionApprove:
			events = append(events, run.Approved{
				CallID: c.ID, Digest: a.Spec.Digest, At: p.now, Consent: run.Consent{Approval: string(a.UID), By: a.Spec.Approver},
			})
		}
	}
	return append(denials, events...), nil
}

// selfApproval says why an Approval is no second person's; empty if it is. Who requested the run may count, if the tool's rules
// say so; an agent never does.
func selfApproval(ctx context.Context, c client.Client, agentRun *v1alpha1.AgentRun, a *v1alpha1.Approval) (string, error) {
	approver := a.Spec.Approver
	if approver == principalOf(agentRun).String() {
		return "It was made by the ServiceAccount that the run acts as.", nil
	}
	var b v1alpha1.ToolBinding
	err := c.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Spec.Tool}, &b)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading ToolBinding %s: %w", a.Spec.Tool, err)
	}
	allowed := b.Spec.Approval != nil && b.Spec.Approval.SelfApproval == v1alpha1.SelfApprovalAllowed
	if approver == agentRun.Spec.RequestedBy && !allowed {
		return "It was made by who requested the run; somebody else has to approve.", nil
	}
	if rest, ok := strings.CutPrefix(approver, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(rest, ":")
		var runs v1alpha1.AgentRunList
		if err := c.List(ctx, &runs, client.InNamespace(namespace), client.MatchingFields{runsByPrincipal: approver}, client.Limit(1)); err != nil {
			return "", fmt.Errorf("listing the runs of %s: %w", approver, err)
		}
		if len(runs.Items) > 0 {
			return "It was made by a ServiceAccount that agents run as.", nil
		}
	}
	return "", nil
}
