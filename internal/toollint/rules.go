// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package toollint

import (
	"slices"
	"strings"
	"unicode"
)

// What is said of more than one place.
const (
	anything = "anything at all: say its type"
	anyText  = "text of any kind and length: set maxLength, enum, const, format or pattern"
	anyItems = "a list without end: set maxItems"
	anyKeys  = "an object with any keys: list its properties, or set additionalProperties to a schema or to false"
	anyItem  = "a list of anything at all: set items"
	noBounds = "a number without bounds in a call that writes: set minimum and maximum, or enum"
)

// check applies the rules to one schema, which is flat.
func (w *walk) check(n node, s map[string]any) {
	if hasAny(s, "enum", "const") {
		return
	}
	types := typesOf(s)
	if len(types) == 0 {
		w.add(n, anything)
	}
	for _, t := range types {
		switch t {
		case "string":
			w.checkString(n, s)
		case "array":
			w.checkArray(n, s)
		case "object":
			w.checkObject(n, s)
		case "number", "integer":
			if w.isWrite && !isBounded(s) {
				w.add(n, noBounds)
			}
		}
	}
}

// checkString says one thing of a string: what makes a program harmless bounds it as well.
func (w *walk) checkString(n node, s map[string]any) {
	if what := looksLike(n.name); what != "" && !hasAny(s, "pattern") {
		w.add(n, "by its name it is %s, and it can be any: set enum or pattern", what)
		return
	}
	format, _ := s["format"].(string)
	if !hasAny(s, "maxLength", "pattern") && !slices.Contains(checkedFormats, format) {
		w.add(n, anyText)
	}
}

func (w *walk) checkArray(n node, s map[string]any) {
	// A list that names each of its items has an end.
	if hasAny(s, "prefixItems") && s["items"] == false {
		return
	}
	if !hasAny(s, "maxItems") {
		w.add(n, anyItems)
	}
	if takesAnything(s["items"]) || !hasAny(s, "items", "prefixItems") {
		w.add(n, anyItem)
	}
}

func (w *walk) checkObject(n node, s map[string]any) {
	isOpen := takesAnything(s["additionalProperties"]) || takesAnything(s["unevaluatedProperties"])
	isBare := !hasAny(s, "properties", "patternProperties", "additionalProperties", "unevaluatedProperties")
	if isOpen || (isBare && !n.isRoot) {
		w.add(n, anyKeys)
	}
}

// takesAnything reports whether a schema that is there refuses nothing.
func takesAnything(schema any) bool {
	object, ok := schema.(map[string]any)
	return schema == true || (ok && len(object) == 0)
}

func isBounded(s map[string]any) bool {
	return hasAny(s, "minimum", "exclusiveMinimum") && hasAny(s, "maximum", "exclusiveMaximum")
}

func hasAny(s map[string]any, keywords ...string) bool {
	return slices.ContainsFunc(keywords, func(k string) bool { _, ok := s[k]; return ok })
}

// typesOf are the types that s allows.
func typesOf(s map[string]any) []string {
	if t, ok := s["type"].(string); ok {
		return []string{t}
	}
	var types []string
	for _, t := range list(s["type"]) {
		if t, ok := t.(string); ok {
			types = append(types, t)
		}
	}
	return types
}

// checkedFormats are those that Interlock holds arguments against; any other says nothing.
var checkedFormats = []string{
	"date", "date-time", "time", "duration", "period", "uuid", "email", "hostname", "ipv4", "ipv6", "uri", "iri", "uri-reference",
	"iri-reference", "uri-template", "json-pointer", "relative-json-pointer", "semver", "regex",
}

// looksLike says what an argument is by its name, if that is something which another program would follow: a model that was
// misled can put anything there. A "query" is not among them: that is what a search takes.
func looksLike(name string) string {
	for _, word := range words(name) {
		switch strings.TrimSuffix(word, "s") {
		case "sql":
			return "an SQL statement"
		case "command", "cmd", "shell", "bash", "script", "exec", "eval":
			return "a program"
		case "url", "uri", "href", "webhook":
			return "an address"
		case "path", "filepath", "file", "filename", "dir", "directory", "folder":
			return "a file path"
		}
	}
	return ""
}

// words splits a name as programmers write it: snake_case, kebab-case and camelCase.
func words(name string) []string {
	var spaced strings.Builder
	wasLower := false
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		if wasLower && unicode.IsUpper(r) {
			spaced.WriteByte(' ')
		}
		wasLower = unicode.IsLower(r)
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(spaced.String())
}
