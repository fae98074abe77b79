// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// callFrom reads a call out of a run's status.
func callFrom(c v1alpha1.CallStatus) run.Call {
	call := run.Call{
		ID: c.ID, Tool: c.Tool, State: run.CallState(c.State), Attempt: int(c.Attempt), Failures: int(c.Failures),
		NotBefore: microTimeOf(c.NotBefore), Code: c.Code, OperationID: c.OperationID, ArgumentsDigest: c.ArgumentsDigest,
		Binding: run.Binding{UID: c.BindingUID, Generation: c.BindingGeneration},
	}
	call.Grant, call.Child = grantFrom(c.Grant), c.ChildUID
	w := c.Write
	if w == nil {
		return call
	}
	call.Rules = run.Rules{
		Write: w.Effect == v1alpha1.EffectWrite, Preview: w.Protocol == v1alpha1.ProtocolPreviewCommit,
		LookUp: w.Idempotency == v1alpha1.IdempotencyKey, Approvals: int(value(w.Approvals)), Timeout: time.Duration(w.TimeoutSeconds) * time.Second,
	}
	if p := w.Preview; p != nil {
		call.Preview = &run.Preview{ID: p.ID, Digest: p.Digest, ResourceVersion: p.ResourceVersion}
	}
	if w.Digest != "" {
		call.Ask = &run.Ask{Digest: w.Digest, Expires: timeOf(w.Expires)}
		for _, a := range w.ApprovedBy {
			call.Ask.Consents = append(call.Ask.Consents, run.Consent{Approval: a.UID, By: a.Approver})
		}
	}
	return call
}

// callStatus writes a call into the form that the API has.
func callStatus(c run.Call, of *v1alpha1.AgentRun) v1alpha1.CallStatus {
	out := v1alpha1.CallStatus{
		ID: c.ID, Tool: c.Tool, State: v1alpha1.CallState(c.State), Attempt: int32(c.Attempt), Failures: int32(c.Failures), //nolint:gosec // counts requests
		NotBefore: microTimePointer(c.NotBefore), Code: text.Clip(c.Code, maxCode),
		OperationID: c.OperationID, ArgumentsDigest: c.ArgumentsDigest, BindingUID: c.Binding.UID, BindingGeneration: c.Binding.Generation,
	}
	if c.Grant != nil {
		out.Child, out.ChildUID, out.Grant = childName(of, c.ID), c.Child, grantStatus(*c.Grant)
	}
	if c.Rules == (run.Rules{}) {
		return out
	}
	w := &v1alpha1.WriteStatus{
		Effect: v1alpha1.EffectReadOnly, Protocol: v1alpha1.ProtocolDirect, TimeoutSeconds: int32(c.Rules.Timeout / time.Second), //nolint:gosec // at most 600
		Approvals: count(c.Rules.Approvals),
	}
	if c.Rules.Write {
		w.Effect, w.Idempotency = v1alpha1.EffectWrite, v1alpha1.IdempotencyNone
	}
	if c.Rules.LookUp {
		w.Idempotency = v1alpha1.IdempotencyKey
	}
	if c.Rules.Preview {
		w.Protocol = v1alpha1.ProtocolPreviewCommit
	}
	if p := c.Preview; p != nil {
		w.Preview = &v1alpha1.PreviewStatus{ID: p.ID, Digest: p.Digest, ResourceVersion: p.ResourceVersion}
	}
	if a := c.Ask; a != nil {
		w.Digest, w.Expires, w.ApprovedBy = a.Digest, timePointer(a.Expires), approvedBy(a.Consents)
	}
	out.Write = w
	return out
}

func approvedBy(consents []run.Consent) []v1alpha1.ApprovedBy {
	var by []v1alpha1.ApprovedBy
	for _, c := range consents {
		by = append(by, v1alpha1.ApprovedBy{Approver: c.By, UID: c.Approval})
	}
	return by
}

// rulesOf gives what a binding asks of a call. A tool that reads and that nobody is asked about has none.
func rulesOf(b *v1alpha1.ToolBinding) run.Rules {
	write := b.Spec.Effect == v1alpha1.EffectWrite
	rules := run.Rules{
		Write: write, Preview: b.Spec.Protocol == v1alpha1.ProtocolPreviewCommit, LookUp: b.Spec.Idempotency == v1alpha1.IdempotencyKey,
	}
	switch a := b.Spec.Approval; {
	case a == nil && write:
		rules.Approvals = 1
	case a != nil && a.Policy == v1alpha1.ApprovalAlways:
		rules.Approvals = int(a.Quorum)
	}
	if rules != (run.Rules{}) {
		rules.Timeout = time.Duration(b.Spec.TimeoutSeconds) * time.Second
	}
	return rules
}

// approvalTime is how long people have to answer.
func approvalTime(b *v1alpha1.ToolBinding) time.Duration {
	const byDefault = time.Hour
	if b.Spec.Approval == nil {
		return byDefault
	}
	return time.Duration(b.Spec.Approval.TTLSeconds) * time.Second
}
