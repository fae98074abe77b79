// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/approval"
	"github.com/interlock-dev/interlock/internal/arguments"
)

// A request is a call that people are asked about: what the operator says of it, and the bytes that its digests stand for.
type request struct {
	run   *v1alpha1.AgentRun
	asked v1alpha1.PendingApproval
	// call is the call in status.calls; it has only its ID if there is no such call.
	call v1alpha1.CallStatus
	// arguments are the exact bytes that would be sent.
	arguments string
	// preview is nil if the tool has none.
	preview *preview
}

// pick gives the call that waits under callID, or the only one if callID is empty.
func pick(run *v1alpha1.AgentRun, callID string) (v1alpha1.PendingApproval, error) {
	var waiting []string
	for _, asked := range run.Status.PendingApprovals {
		if asked.CallID == callID || (callID == "" && len(run.Status.PendingApprovals) == 1) {
			return asked, nil
		}
		waiting = append(waiting, asked.CallID)
	}
	switch {
	case len(waiting) == 0:
		return v1alpha1.PendingApproval{}, fmt.Errorf("no call of AgentRun %s waits for approval: its phase is %s", run.Name, orUnknown(string(run.Status.Phase)))
	case callID == "":
		return v1alpha1.PendingApproval{}, fmt.Errorf("name one of the calls that wait for approval: %s", strings.Join(waiting, ", "))
	}
	return v1alpha1.PendingApproval{}, fmt.Errorf("call %s does not wait for approval; these do: %s", callID, strings.Join(waiting, ", "))
}

// readRequest gathers what there is to judge. Long arguments are in the Turn that the request names.
func readRequest(ctx context.Context, c client.Client, run *v1alpha1.AgentRun, asked v1alpha1.PendingApproval) (*request, error) {
	r := &request{run: run, asked: asked, call: v1alpha1.CallStatus{ID: asked.CallID}, arguments: asked.FromModel.Arguments}
	if i := slices.IndexFunc(run.Status.Calls, func(c v1alpha1.CallStatus) bool { return c.ID == asked.CallID }); i >= 0 {
		r.call = run.Status.Calls[i]
	}
	if asked.FromTool != nil {
		r.preview = readPreview(asked.FromTool.Preview)
	}
	if r.arguments != "" {
		return r, nil
	}
	var turn v1alpha1.Turn
	if err := c.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: asked.FromModel.Turn}, &turn); err != nil {
		return nil, fmt.Errorf("reading the Turn that holds the arguments: %w", err)
	}
	if turn.Spec.RunUID != string(run.UID) {
		return nil, fmt.Errorf("the arguments can't be shown: Turn %s is not one of this run", turn.Name)
	}
	i := slices.IndexFunc(turn.Spec.Reply.Calls, func(c v1alpha1.TurnCall) bool { return c.ID == asked.CallID })
	if i < 0 {
		return nil, fmt.Errorf("the arguments can't be shown: Turn %s has no call %s", turn.Name, asked.CallID)
	}
	r.arguments = turn.Spec.Reply.Calls[i].Arguments
	return r, nil
}

// write is what the operator holds ready to make the call.
func (r *request) write() v1alpha1.WriteStatus {
	if r.call.Write == nil {
		return v1alpha1.WriteStatus{}
	}
	return *r.call.Write
}

// subject is what a person approves who has seen r. Whatever has a digest of its own is taken from what is shown.
func (r *request) subject() approval.Subject {
	s := approval.Subject{
		RunUID: string(r.run.UID), CallID: r.asked.CallID, Principal: r.asked.Principal,
		OperationID: arguments.OperationID(string(r.run.UID), r.asked.CallID, []byte(r.arguments)),
		BindingUID:  r.call.BindingUID, BindingGeneration: r.call.BindingGeneration,
		DefinitionDigest: r.asked.DefinitionDigest, Endpoint: r.asked.Endpoint,
		ArgumentsDigest: arguments.Digest([]byte(r.arguments)), Expires: r.asked.Expires.Time,
	}
	if r.preview != nil {
		s.PreviewDigest, s.ResourceVersion = arguments.Digest([]byte(r.preview.raw)), r.preview.resourceVersion
	}
	return s
}

// differences says where what is shown is not what is asked about. There are none if the two are the same to the byte.
func (r *request) differences() []string {
	d := new(differences)
	subject, write := r.subject(), r.write()
	canonical, err := arguments.Canonical(r.arguments)
	if err != nil || string(canonical) != r.arguments {
		d.add("the arguments are not in canonical form, so that two programs could read them differently")
	}
	d.compare("the arguments have the digest", subject.ArgumentsDigest, r.asked.FromModel.ArgumentsDigest, r.call.ArgumentsDigest)
	d.compare("the arguments make the operation ID", subject.OperationID, r.call.OperationID)
	d.compare("the tool is", r.asked.Tool, r.call.Tool)
	d.compare("the run acts as", r.asked.Principal, approval.Principal(r.run.Namespace, r.run.Spec.ServiceAccountName))
	d.compare("the run was requested by", r.asked.RequestedBy, r.run.Spec.RequestedBy)
	d.compare("the call expires at", formatTime(&r.asked.Expires), formatTime(write.Expires))
	previewed := v1alpha1.PreviewStatus{}
	if write.Preview != nil {
		previewed = *write.Preview
	}
	d.compare("the preview has the digest", subject.PreviewDigest, previewed.Digest)
	d.compare("the preview is of the resource version", subject.ResourceVersion, previewed.ResourceVersion)
	if r.preview != nil && r.preview.problem != "" {
		d.add("%s", r.preview.problem)
	}
	if len(*d) == 0 && subject.Digest() != r.asked.Digest {
		d.add("the endpoint, the tool's rules or its definition are not those asked about, or the operator makes digests in another way than this plugin does")
	}
	d.compare("all that is shown has the digest", subject.Digest(), r.asked.Digest, write.Digest)
	return *d
}

// differences are sentences.
type differences []string

func (d *differences) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// compare adds a sentence for the first of the values asked for that is not the one shown.
func (d *differences) compare(what, shown string, askedFor ...string) {
	for _, asked := range askedFor {
		if asked != shown {
			d.add("%s %s, and asked for is %s", what, orNone(shown), orNone(asked))
			return
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
