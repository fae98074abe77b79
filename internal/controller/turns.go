// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// A turnStore keeps Turns in the API server, past the cache: a Turn is read once, by name, and can be large.
type turnStore struct {
	client client.Client
	reader client.Reader
}

// NewTurnStore makes a journal's Store. Reader reads from the API server itself.
func NewTurnStore(c client.Client, reader client.Reader) journal.Store { return turnStore{c, reader} }

// Read implements journal.Store. A Turn of another run, whatever its name, is none.
func (s turnStore) Read(ctx context.Context, ref journal.RunRef, step int) (journal.Turn, bool, error) {
	var t v1alpha1.Turn
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: journal.TurnName(ref.UID, step)}, &t)
	switch {
	case apierrors.IsNotFound(err):
		return journal.Turn{}, false, nil
	case err != nil:
		return journal.Turn{}, false, fmt.Errorf("reading the Turn: %w", err)
	case t.Spec.RunUID != ref.UID || int(t.Spec.Step) != step:
		return journal.Turn{}, false, nil
	}
	return turnOf(&t), true, nil
}

// Create implements journal.Store.
func (s turnStore) Create(ctx context.Context, ref journal.RunRef, t journal.Turn) (journal.Turn, error) {
	object := turnObject(ref, t)
	err := s.client.Create(ctx, object, client.DisableReadYourWritesConsistency)
	switch {
	case apierrors.IsAlreadyExists(err):
		return journal.Turn{}, journal.ErrExists
	case err != nil:
		return journal.Turn{}, fmt.Errorf("creating the Turn: %w", err)
	}
	return turnOf(object), nil
}

// Append implements journal.Store. It sends only what is new, so that what is there is never written again, and a step's
// last result costs what its first one did.
func (s turnStore) Append(ctx context.Context, ref journal.RunRef, t journal.Turn, results []journal.Result) (journal.Turn, error) {
	operations := []patchOperation{{"replace", "/metadata/resourceVersion", t.Version}}
	if len(t.Results) == 0 {
		operations = append(operations, patchOperation{"add", "/spec/results", []v1alpha1.TurnResult{}})
	}
	for _, r := range results {
		operations = append(operations, patchOperation{"add", "/spec/results/-", resultObject(r)})
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return journal.Turn{}, fmt.Errorf("writing the patch: %w", err)
	}
	object := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: journal.TurnName(ref.UID, t.Step)}}
	err = s.client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch), client.DisableReadYourWritesConsistency)
	switch {
	case apierrors.IsConflict(err):
		return journal.Turn{}, journal.ErrConflict
	case apierrors.IsNotFound(err):
		return journal.Turn{}, journal.ErrMissing
	case err != nil:
		return journal.Turn{}, fmt.Errorf("adding to the Turn: %w", err)
	}
	return turnOf(object), nil
}

// A patchOperation is one of RFC 6902.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// turnObject writes a Turn into the form that the API has. The run owns it, so that it goes when the run goes.
func turnObject(ref journal.RunRef, t journal.Turn) *v1alpha1.Turn {
	object := &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ref.Namespace, Name: journal.TurnName(ref.UID, t.Step),
			Labels:          map[string]string{v1alpha1.LabelRunName: ref.Name, v1alpha1.LabelRunUID: ref.UID},
			OwnerReferences: []metav1.OwnerReference{ownerOf(ref.Name, types.UID(ref.UID))},
		},
		Spec: v1alpha1.TurnSpec{
			RunName: ref.Name, RunUID: ref.UID, Step: int32(t.Step), //nolint:gosec // bounded by limits.maxSteps
			Reply: v1alpha1.TurnReply{
				Time: metav1.NewMicroTime(t.At), Text: t.Reply.Text, Finish: v1alpha1.ReplyFinish(t.Reply.Finish),
				Model: t.Reply.Model, RequestID: t.Reply.RequestID, Usage: turnUsage(t.Reply.Usage),
			},
		},
	}
	if t.Route {
		object.Spec.Purpose = v1alpha1.TurnRoute
	}
	for _, c := range t.Reply.Calls {
		object.Spec.Reply.Calls = append(object.Spec.Reply.Calls, v1alpha1.TurnCall(c))
	}
	for _, r := range t.Results {
		object.Spec.Results = append(object.Spec.Results, resultObject(r))
	}
	return object
}

func turnUsage(u run.TokenUsage) *v1alpha1.TurnUsage {
	if !u.Reported {
		return nil
	}
	return &v1alpha1.TurnUsage{InputTokens: &u.Input, CachedInputTokens: &u.CachedInput, OutputTokens: &u.Output, ReasoningTokens: &u.Reasoning}
}

func resultObject(r journal.Result) v1alpha1.TurnResult {
	out := v1alpha1.TurnResult{
		CallID: r.CallID, State: v1alpha1.CallState(r.State), Time: metav1.NewMicroTime(r.At), Attempts: count(r.Attempts),
		Code: text.Clip(r.Code, maxCode), Message: journal.FitMessage(r.Message),
		OperationID: r.OperationID, ApprovalDigest: r.ApprovalDigest, ApprovedBy: approvedBy(r.ApprovedBy),
	}
	if r.State != run.CallSucceeded {
		return out
	}
	a := r.Answer
	out.Data, out.Size, out.SourceVersion, out.Completeness = string(a.Data), new(a.Size), a.SourceVersion, v1alpha1.Complete
	if a.Truncated {
		out.Completeness = v1alpha1.Truncated
	}
	out.ObservedAt = timePointer(a.ObservedAt)
	for _, s := range a.Sources {
		out.Sources = append(out.Sources, v1alpha1.TurnSource(s))
	}
	return out
}

// turnOf reads a Turn out of its object.
func turnOf(object *v1alpha1.Turn) journal.Turn {
	reply := object.Spec.Reply
	t := journal.Turn{
		Step: int(object.Spec.Step), Route: object.Spec.Purpose == v1alpha1.TurnRoute, At: reply.Time.Time, Version: object.ResourceVersion,
		Reply: journal.Reply{Text: reply.Text, Finish: run.Finish(reply.Finish), Model: reply.Model, RequestID: reply.RequestID},
	}
	if u := reply.Usage; u != nil {
		t.Reply.Usage = run.TokenUsage{
			Input: value(u.InputTokens), CachedInput: value(u.CachedInputTokens), Output: value(u.OutputTokens),
			Reasoning: value(u.ReasoningTokens), Reported: true,
		}
	}
	for _, c := range reply.Calls {
		t.Reply.Calls = append(t.Reply.Calls, journal.Call(c))
	}
	for _, r := range object.Spec.Results {
		t.Results = append(t.Results, resultOf(r))
	}
	return t
}

func resultOf(r v1alpha1.TurnResult) journal.Result {
	out := journal.Result{
		CallResult: run.CallResult{CallID: r.CallID, State: run.CallState(r.State), Code: r.Code, Message: r.Message, Attempts: int(value(r.Attempts))},
		At:         r.Time.Time, OperationID: r.OperationID, ApprovalDigest: r.ApprovalDigest,
	}
	for _, a := range r.ApprovedBy {
		out.ApprovedBy = append(out.ApprovedBy, run.Consent{Approval: a.UID, By: a.Approver})
	}
	if out.State != run.CallSucceeded {
		return out
	}
	out.Answer = run.ToolResult{
		Data: json.RawMessage(r.Data), Size: value(r.Size), SourceVersion: r.SourceVersion,
		Truncated: r.Completeness == v1alpha1.Truncated, ObservedAt: timeOf(r.ObservedAt),
	}
	for _, s := range r.Sources {
		out.Answer.Sources = append(out.Answer.Sources, run.Source(s))
	}
	return out
}

// ownerOf names the run that an object goes with.
func ownerOf(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AgentRun", Name: name, UID: uid, Controller: new(true)}
}
