// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package toollint says where a tool leaves a model more room than it should: arguments of any length or shape, arguments that
// look like programs for somebody else's interpreter, and writes that are made without a preview, a record or a person.
//
// A finding keeps nobody from using the tool. The operator reports findings in the condition WeakSchema, and
// `kubectl interlock lint` prints them. Lint looks at the schema alone: it never asks the tool's server, and it does not say
// whether the schema is valid. Its main type is Tool.
package toollint

import (
	"encoding/json"
	"fmt"
)

// A Tool is what a ToolBinding says of a tool, in the API's words; an empty one stands for the API's default.
type Tool struct {
	Effect, Protocol, Idempotency, Approval string
	// Schema is the JSON Schema of the arguments; empty if it is not known, and then not looked at.
	Schema json.RawMessage
}

// A Finding is one thing that a tool leaves too open.
type Finding struct {
	// Path is a JSON Pointer into the binding's spec. Whoever wrote the schema chose the names in it.
	Path string
	// Message says what is open and what closes it, in words of ours alone.
	Message string
}

func (f Finding) String() string { return f.Path + ": " + f.Message }

// Lint gives the findings on t: first those on its rules, then those on its schema in the order of its property names.
func Lint(t Tool) []Finding {
	findings := lintRules(t)
	if len(t.Schema) == 0 {
		return findings
	}
	var root map[string]any
	if err := json.Unmarshal(t.Schema, &root); err != nil {
		return append(findings, Finding{schemaPath, "it is no JSON object, so nothing can be said of it"})
	}
	w := walk{root: root, isWrite: t.Effect == "Write", left: maxNodes}
	w.look(node{path: schemaPath, schema: root, isRoot: true})
	if w.left < 0 {
		w.findings = append(w.findings, Finding{schemaPath, "it is too large to be looked through in full"})
	}
	return append(findings, w.findings...)
}

// lintRules looks at how the calls of a tool that writes are made.
func lintRules(t Tool) []Finding {
	if t.Effect != "Write" {
		return nil
	}
	var findings []Finding
	add := func(path, format string, args ...any) {
		findings = append(findings, Finding{path, fmt.Sprintf(format, args...)})
	}
	if t.Protocol != "PreviewCommit" {
		add("/protocol", "people approve this write without seeing what it would do: with PreviewCommit they see it, and exactly that is done")
	}
	if t.Idempotency == "None" {
		add("/idempotency", "when the answer to this write is lost, a person has to find out whether it was done: with Key the server says so")
	}
	if t.Approval == "Never" {
		add("/approval/policy", "this write is made without asking anybody")
	}
	return findings
}
