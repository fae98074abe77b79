// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"

	"github.com/interlock-dev/interlock/internal/approval"
)

// A preview is what a tool server says a call would do: its words, none of which the operator can check.
type preview struct {
	// raw are the exact bytes that were approved if the preview is.
	raw string
	// summary, changes, resources and cost are what it says in the members that the protocol has.
	summary, changes, cost, resourceVersion, expiresAt string
	resources                                          []string
	// rest is what it says beyond them, as JSON; empty if nothing.
	rest string
	// problem is a sentence that says why the bytes can't be shown as they will be understood; empty if they can.
	problem string
}

// readPreview takes a preview apart. Members are looked up by their exact names: encoding/json alone would take "Summary" for
// "summary", and so show something else than another program reads.
func readPreview(raw string) *preview {
	p := &preview{raw: raw}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &members); err != nil || members == nil {
		p.problem, p.rest = "the preview is no JSON object", raw
		return p
	}
	canonical, err := approval.Canonical(json.RawMessage(raw))
	if err != nil || string(canonical) != raw {
		p.problem = "the preview is not in canonical form, so that two programs could read it differently"
	}
	take := func(name string, into any) {
		// What has another type stays among the rest, and is shown there.
		if json.Unmarshal(members[name], into) == nil {
			delete(members, name)
		}
	}
	take("summary", &p.summary)
	take("changes", &p.changes)
	take("resources", &p.resources)
	take("cost", &p.cost)
	take("resourceVersion", &p.resourceVersion)
	take("expiresAt", &p.expiresAt)
	delete(members, "id")
	if rest, err := json.MarshalIndent(members, "", "  "); err == nil && len(members) > 0 {
		p.rest = string(rest)
	}
	return p
}
