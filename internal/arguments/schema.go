// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package arguments

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/interlock-dev/interlock/internal/text"
)

// Bounds on schemas and on what is said of a violation.
const (
	maxSchemaBytes = 64 << 10
	maxSchemaDepth = 32
	maxViolations  = 5
	maxMessage     = 200
)

// location is what a schema is called while it is compiled; it is never fetched.
const location = "urn:interlock:arguments"

// A Schema checks arguments. It is safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
}

// Compile makes a Schema of a JSON Schema document: 2020-12, or the dialect that its $schema names. Its root must be an
// object type; references to other documents are refused. Objects that list their properties and do not say what else
// they take, take nothing else. The error says where the document is wrong.
func Compile(document []byte) (*Schema, error) {
	if len(document) > maxSchemaBytes {
		return nil, fmt.Errorf("the schema has %d bytes, and %d are allowed", len(document), maxSchemaBytes)
	}
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	root, ok := decoded.(map[string]any)
	if !ok || root["type"] != "object" {
		return nil, errors.New(`the schema's root must be an object that has "type": "object"`)
	}
	if tooDeep(root, maxSchemaDepth) {
		return nil, fmt.Errorf("the schema is nested deeper than %d", maxSchemaDepth)
	}
	closeObject(root, closingKeyword(root), true)

	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if err := c.AddResource(location, root); err != nil {
		return nil, fmt.Errorf("the schema can't be read: %w", err)
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, fmt.Errorf("the schema doesn't compile: %w", compileError(err))
	}
	return &Schema{compiled}, nil
}

// compileError says where a schema breaks the rules of its dialect, if that is what is wrong with it.
func compileError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var violation *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &violation) {
		return violations(violation)
	}
	return errors.New(shorten(strings.ReplaceAll(err.Error(), location, "")))
}

// noLoader refuses every document but the schema at hand (and the dialects, which are built in).
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("references to other documents are not followed: %s", url)
}

func tooDeep(v any, left int) bool {
	if left < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if tooDeep(e, left-1) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if tooDeep(e, left-1) {
				return true
			}
		}
	}
	return false
}

// closingKeyword is the one that refuses what an object's schema does not name. Only the newer dialects have the one that
// sees through allOf and $ref.
func closingKeyword(root map[string]any) string {
	dialect, _ := root["$schema"].(string)
	if dialect == "" || strings.Contains(dialect, "2020-12") || strings.Contains(dialect, "2019-09") {
		return "unevaluatedProperties"
	}
	return "additionalProperties"
}

// closeObject closes s and the objects in its properties and items. What is put together with allOf and the like is left
// to its author: closing a part would refuse what another part allows.
func closeObject(s map[string]any, keyword string, isRoot bool) {
	_, lists := s["properties"]
	if (lists || isRoot) && !saysWhatElse(s) && (keyword == "unevaluatedProperties" || !composed(s)) {
		s[keyword] = false
	}
	properties, _ := s["properties"].(map[string]any)
	for _, p := range properties {
		if p, ok := p.(map[string]any); ok {
			closeObject(p, keyword, false)
		}
	}
	if items, ok := s["items"].(map[string]any); ok {
		closeObject(items, keyword, false)
	}
}

func saysWhatElse(s map[string]any) bool {
	return hasAny(s, "additionalProperties", "unevaluatedProperties", "patternProperties")
}

func composed(s map[string]any) bool { return hasAny(s, "$ref", "allOf", "anyOf", "oneOf", "if") }

func hasAny(s map[string]any, keywords ...string) bool {
	for _, k := range keywords {
		if _, ok := s[k]; ok {
			return true
		}
	}
	return false
}

// Check says where canonical arguments break the schema, in words for the model; nil if they do not. It never repeats more
// than a little of what the arguments hold.
func (s *Schema) Check(canonical []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(canonical))
	if err != nil {
		return errors.New("they are not JSON")
	}
	err = s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var violation *jsonschema.ValidationError
	if !errors.As(err, &violation) {
		return errors.New("they can't be checked")
	}
	return violations(violation)
}

// violations says the first few things that are wrong.
func violations(v *jsonschema.ValidationError) error {
	var texts []string
	collect(v, &texts)
	more := ""
	if n := len(texts) - maxViolations; n > 0 {
		texts, more = texts[:maxViolations], fmt.Sprintf("; and %d more", n)
	}
	return errors.New(strings.Join(texts, "; ") + more)
}

var english = message.NewPrinter(language.English)

// collect gathers what the leaves of a violation say: the rest only says that something below is wrong.
func collect(v *jsonschema.ValidationError, texts *[]string) {
	if len(v.Causes) == 0 {
		path, _ := json.Marshal("/" + strings.Join(v.InstanceLocation, "/"))
		*texts = append(*texts, fmt.Sprintf("at %s: %s", shorten(string(path)), shorten(v.ErrorKind.LocalizedString(english))))
		return
	}
	for _, cause := range v.Causes {
		collect(cause, texts)
	}
}

// shorten makes a piece of what a model or a schema's author wrote fit to be shown.
func shorten(s string) string {
	s = text.Clean(s)
	if len(s) <= maxMessage {
		return s
	}
	return text.Clip(s, maxMessage) + "…"
}
