// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-dev/interlock/internal/text"
)

// present prints all that there is to judge. What the operator vouches for comes first; what a model and a tool wrote stands
// behind bars, so that nothing in it can pass for the operator's.
func (r *request) present(w *output, now time.Time) {
	w.printf("Call %s of AgentRun %s/%s asks for approval.\n\n", text.Visible(r.asked.CallID), r.run.Namespace, r.run.Name)
	r.presentFacts(w, now)
	w.printf("\nThe model chose these arguments, and exactly they are sent:\n")
	w.quote(indented(r.arguments))
	w.printf("\n")
	if r.preview == nil {
		w.printf("The tool has not said what the call would do: it has no preview.\n")
		return
	}
	r.preview.present(w)
}

// presentFacts prints what the operator vouches for, if it does.
func (r *request) presentFacts(w *output, now time.Time) {
	subject, write := r.subject(), r.write()
	heading := "Interlock vouches for this:"
	if len(r.differences()) > 0 {
		heading = "The run's status says this, which does not fit together, so don't rely on it:"
	}
	w.printf("%s\n", heading)
	w.field("Tool", fmt.Sprintf("%s (generation %d, UID %s)", r.asked.Tool, r.call.BindingGeneration, r.call.BindingUID))
	w.field("Effect", string(write.Effect))
	w.field("Protocol", string(write.Protocol))
	w.field("Sent to", r.asked.Endpoint)
	w.field("Runs as", r.asked.Principal)
	w.field("Requested by", orUnknown(r.run.Spec.RequestedBy))
	if r.asked.RequiredBy != "" {
		w.field("Required by", "RunPolicy "+r.asked.RequiredBy)
	}
	w.field("Approved by", r.approvedBy())
	w.field("Expires", formatTime(&r.asked.Expires)+" ("+formatLeft(now, r.asked.Expires.Time)+")")
	w.field("Definition", r.asked.DefinitionDigest)
	w.field("Operation", subject.OperationID)
	w.field("Arguments", fmt.Sprintf("%s (%d bytes)", subject.ArgumentsDigest, len(r.arguments)))
	if r.preview != nil {
		w.field("Preview", subject.PreviewDigest)
	}
	w.field("Digest", subject.Digest())
}

// approvedBy says how many people have approved, and who.
func (r *request) approvedBy() string {
	write := r.write()
	needed := int32(1)
	if write.Approvals != nil {
		needed = *write.Approvals
	}
	counted := fmt.Sprintf("%d of %d", len(write.ApprovedBy), needed)
	if len(write.ApprovedBy) == 0 {
		return counted
	}
	var approvers []string
	for _, a := range write.ApprovedBy {
		approvers = append(approvers, a.Approver)
	}
	return counted + ": " + strings.Join(approvers, ", ")
}

// present prints a tool's words, whole.
func (p *preview) present(w *output) {
	w.printf("The tool says this would happen, and Interlock can't check it:\n")
	for _, part := range []struct{ name, words string }{
		{"Summary", p.summary},
		{"Changes", p.changes},
		{"Resources", strings.Join(p.resources, "\n")},
		{"Cost", p.cost},
		{"Only while the resource version is", p.resourceVersion},
		{"Can be done until", p.expiresAt},
		{"Besides", p.rest},
	} {
		if part.words != "" {
			w.printf("  %s:\n", part.name)
			w.quote(part.words)
		}
	}
}

// indented spreads a JSON text over lines. It adds white space alone: strings and numbers stay as they are.
func indented(document string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(document), "", "  ") != nil {
		return document
	}
	return out.String()
}
