// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package toollint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// schemaPath is where the schema stands in the spec.
const schemaPath = "/inputSchema"

// maxNodes bounds how much is looked at: a schema that refers to itself here and there can stand for a tree without end.
const maxNodes = 5000

// A walk looks through one schema.
type walk struct {
	root     map[string]any
	isWrite  bool
	left     int
	findings []Finding
}

// A node is one schema within the schema.
type node struct {
	path string
	// name is the argument's, or that of the argument which it is a part of.
	name   string
	schema any
	// isRoot: it is closed by Interlock when it doesn't say what else it takes.
	isRoot bool
	// refs are the references that were followed on the way here, so that a circle is noticed.
	refs []string
}

// below is the schema that stands at the given keys of n.
func (n node) below(schema any, keys ...string) node {
	path := []string{n.path}
	for _, key := range keys {
		path = append(path, strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return node{path: strings.Join(path, "/"), name: n.name, schema: schema, refs: n.refs}
}

func (w *walk) add(n node, format string, args ...any) {
	w.findings = append(w.findings, Finding{n.path, fmt.Sprintf(format, args...)})
}

// look applies the rules to n and to all that is below it.
func (w *walk) look(n node) {
	if w.left--; w.left < 0 {
		return
	}
	s, isObject := n.schema.(map[string]any)
	if !isObject {
		if n.schema == true {
			w.add(n, anything)
		}
		return
	}
	s, refs, ok := w.flat(s, n.refs)
	if !ok {
		return
	}
	n.refs = refs
	if w.lookAtBranches(n, s) {
		return
	}
	w.check(n, s)
	w.lookBelow(n, s)
}

// lookAtBranches looks at each alternative of s together with what holds for all of them, and reports whether there are any.
func (w *walk) lookAtBranches(n node, s map[string]any) bool {
	found := false
	for _, keyword := range []string{"anyOf", "oneOf"} {
		branches, _ := s[keyword].([]any)
		common := maps.Clone(s)
		delete(common, keyword)
		for i, branch := range branches {
			found = true
			b := n.below(branch, keyword, strconv.Itoa(i))
			b.isRoot = n.isRoot
			if branch, ok := branch.(map[string]any); ok {
				b.schema = union(maps.Clone(branch), common)
			}
			w.look(b)
		}
		if found {
			break
		}
	}
	return found
}

// lookBelow looks at the parts of an object and of an array.
func (w *walk) lookBelow(n node, s map[string]any) {
	for _, keyword := range []string{"properties", "patternProperties"} {
		parts, _ := s[keyword].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(parts)) {
			part := n.below(parts[key], keyword, key)
			if keyword == "properties" {
				part.name = key
			}
			w.look(part)
		}
	}
	// That these take anything at all has been said of the object or array itself.
	for _, keyword := range []string{"additionalProperties", "unevaluatedProperties", "items"} {
		if part, ok := s[keyword].(map[string]any); ok && len(part) > 0 {
			w.look(n.below(part, keyword))
		}
	}
	for i, part := range list(s["prefixItems"]) {
		w.look(n.below(part, "prefixItems", strconv.Itoa(i)))
	}
}

// flat is s with what it refers to, and with all that allOf adds, in one. It says no when s is within itself: then it has
// been looked at already.
func (w *walk) flat(s map[string]any, refs []string) (map[string]any, []string, bool) {
	if w.left--; w.left < 0 {
		return nil, nil, false
	}
	s = maps.Clone(s)
	if ref, ok := s["$ref"].(string); ok {
		if slices.Contains(refs, ref) {
			return nil, nil, false
		}
		refs = append(slices.Clone(refs), ref)
		delete(s, "$ref")
		target, ok := w.resolve(ref).(map[string]any)
		if ok {
			return w.flat(union(s, target), refs)
		}
	}
	parts, followed := list(s["allOf"]), refs
	delete(s, "allOf")
	for _, part := range parts {
		part, ok := part.(map[string]any)
		if !ok {
			continue
		}
		if part, deeper, ok := w.flat(part, refs); ok {
			s, followed = union(s, part), append(slices.Clone(followed), deeper...)
		}
	}
	return s, followed, true
}

// resolve follows a reference within the document; others are refused when the schema is compiled.
func (w *walk) resolve(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	var at any = w.root
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if token == "" {
			continue
		}
		object, _ := at.(map[string]any)
		at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return at
}

// union adds to a what b has beyond it. Properties and the parts of allOf add up; of all else, the nearer one is looked at.
func union(a, b map[string]any) map[string]any {
	for keyword, value := range b {
		have, exists := a[keyword]
		switch {
		case !exists:
			a[keyword] = value
		case keyword == "properties":
			mine, _ := have.(map[string]any)
			other, _ := value.(map[string]any)
			all := maps.Clone(other)
			maps.Copy(all, mine)
			a[keyword] = all
		case keyword == "allOf":
			a[keyword] = slices.Concat(list(have), list(value))
		}
	}
	return a
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
