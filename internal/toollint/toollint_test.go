// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package toollint_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/internal/toollint"
)

func TestLint_namesWhatASchemaLeavesOpen(t *testing.T) {
	for name, test := range map[string]struct{ properties, want string }{
		"text":                             {`"a":{"type":"string"}`, "/properties/a: text"},
		"text with a length":               {`"a":{"type":"string","maxLength":9}`, ""},
		"text from a list":                 {`"a":{"type":"string","enum":["x"]}`, ""},
		"one text":                         {`"a":{"const":"x"}`, ""},
		"text of a pattern":                {`"a":{"type":"string","pattern":"^x$"}`, ""},
		"text of a format":                 {`"a":{"type":"string","format":"date"}`, ""},
		"a format that nobody checks":      {`"a":{"type":"string","format":"iban"}`, "/properties/a: text"},
		"text or null":                     {`"a":{"type":["string","null"]}`, "/properties/a: text"},
		"no type":                          {`"a":{"description":"x"}`, "/properties/a: anything"},
		"true":                             {`"a":true`, "/properties/a: anything"},
		"false":                            {`"a":false`, ""},
		"a list":                           {`"a":{"type":"array","items":{"type":"boolean"}}`, "/properties/a: a list without end"},
		"a list of anything":               {`"a":{"type":"array","maxItems":3}`, "/properties/a: a list of anything"},
		"a list of true":                   {`"a":{"type":"array","maxItems":3,"items":true}`, "/properties/a: a list of anything"},
		"a list with an end":               {`"a":{"type":"array","maxItems":3,"items":{"type":"boolean"}}`, ""},
		"a pair":                           {`"a":{"type":"array","prefixItems":[{"type":"boolean"},{"type":"string"}],"items":false}`, "/properties/a/prefixItems/1: text"},
		"what is in a list":                {`"a":{"type":"array","maxItems":3,"items":{"type":"string"}}`, "/properties/a/items: text"},
		"an object":                        {`"a":{"type":"object"}`, "/properties/a: an object with any keys"},
		"an object that takes more":        {`"a":{"type":"object","properties":{},"additionalProperties":true}`, "/properties/a: an object with any keys"},
		"an object that takes {}":          {`"a":{"type":"object","additionalProperties":{}}`, "/properties/a: an object with any keys"},
		"an object that takes nothing":     {`"a":{"type":"object","additionalProperties":false}`, ""},
		"an object of bounded values":      {`"a":{"type":"object","additionalProperties":{"type":"boolean"}}`, ""},
		"an object of text":                {`"a":{"type":"object","additionalProperties":{"type":"string"}}`, "/properties/a/additionalProperties: text"},
		"keys by pattern":                  {`"a":{"type":"object","patternProperties":{"^a/b~":{"type":"string"}}}`, "/properties/a/patternProperties/^a~1b~0: text"},
		"further in":                       {`"a":{"type":"object","properties":{"b":{"type":"string"}}}`, "/properties/a/properties/b: text"},
		"a number in a call that reads":    {`"a":{"type":"number"}`, ""},
		"a reference":                      {`"a":{"$ref":"#/$defs/text"}`, "/properties/a: text"},
		"a reference that is bounded here": {`"a":{"$ref":"#/$defs/text","maxLength":5}`, ""},
		"a reference to itself":            {`"a":{"$ref":"#/$defs/tree"}`, "/properties/a/properties/label: text"},
		"parts that bound one another":     {`"a":{"allOf":[{"type":"string"},{"maxLength":5}]}`, ""},
		"a part that stands twice":         {`"a":{"allOf":[{"$ref":"#/$defs/text"},{"$ref":"#/$defs/text"}]}`, "/properties/a: text"},
		"alternatives":                     {`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`, "/properties/a/anyOf/0: text"},
		"alternatives with a common bound": {`"a":{"maxLength":3,"oneOf":[{"type":"string"},{"type":"null"}]}`, ""},
		"an SQL statement":                 {`"sql":{"type":"string","maxLength":100}`, "/properties/sql: by its name it is an SQL statement"},
		"a query":                          {`"query":{"type":"string","maxLength":100}`, ""},
		"a command":                        {`"shellCommand":{"type":"string","maxLength":100}`, "/properties/shellCommand: by its name it is a program"},
		"an address":                       {`"targetURL":{"type":"string","format":"uri"}`, "/properties/targetURL: by its name it is an address"},
		"a path":                           {`"file_path":{"type":"string","maxLength":100}`, "/properties/file_path: by its name it is a file path"},
		"several paths":                    {`"paths":{"type":"array","maxItems":3,"items":{"type":"string","maxLength":9}}`, "/properties/paths/items: by its name it is a file path"},
		"a path of a pattern":              {`"path":{"type":"string","pattern":"^/srv/"}`, ""},
		"a path from a list":               {`"path":{"type":"string","enum":["/srv"]}`, ""},
		"a profile is no file":             {`"profile":{"type":"string","maxLength":9}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			schema := `{"type":"object","properties":{` + test.properties + `},"$defs":{"text":{"type":"string"},
				"tree":{"type":"object","properties":{"label":{"type":"string"},"next":{"$ref":"#/$defs/tree"}}}}}`
			checkOne(t, toollint.Lint(toollint.Tool{Effect: "ReadOnly", Schema: json.RawMessage(schema)}), test.want)
		})
	}
}

// checkOne wants one finding that begins with want, below the schema; or none.
func checkOne(t *testing.T, got []toollint.Finding, want string) {
	t.Helper()
	if want == "" && len(got) != 0 {
		t.Errorf("got %v, want no finding", got)
	}
	if want != "" && (len(got) != 1 || !strings.HasPrefix(got[0].String(), "/inputSchema"+want)) {
		t.Errorf("got %v, want one finding that begins with /inputSchema%s", got, want)
	}
}

func TestLint_writesAreHeldToMore(t *testing.T) {
	careful := toollint.Tool{
		Effect: "Write", Protocol: "PreviewCommit", Idempotency: "Key",
		Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":0,"exclusiveMaximum":9}}}`),
	}
	for name, test := range map[string]struct {
		change    func(*toollint.Tool)
		wantPaths []string
	}{
		"a careful write":       {func(*toollint.Tool) {}, nil},
		"no preview":            {func(t *toollint.Tool) { t.Protocol = "" }, []string{"/protocol"}},
		"no record":             {func(t *toollint.Tool) { t.Idempotency = "None" }, []string{"/idempotency"}},
		"nobody is asked":       {func(t *toollint.Tool) { t.Approval = "Never" }, []string{"/approval/policy"}},
		"reading needs nothing": {func(t *toollint.Tool) { *t = toollint.Tool{Effect: "ReadOnly", Approval: "Never"} }, nil},
		"a number without an end": {func(t *toollint.Tool) {
			t.Schema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":0}}}`)
		}, []string{"/inputSchema/properties/n"}},
		"a schema that is none": {func(t *toollint.Tool) { t.Schema = json.RawMessage(`[]`) }, []string{"/inputSchema"}},
		"an open root": {func(t *toollint.Tool) {
			t.Schema = json.RawMessage(`{"type":"object","additionalProperties":true}`)
		}, []string{"/inputSchema"}},
		"no arguments": {func(t *toollint.Tool) { t.Schema = json.RawMessage(`{"type":"object"}`) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tool := careful
			test.change(&tool)
			var paths []string
			for _, finding := range toollint.Lint(tool) {
				paths = append(paths, finding.Path)
			}
			if diff := cmp.Diff(test.wantPaths, paths); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLint_endsOnASchemaThatUnfoldsWithoutEnd(t *testing.T) {
	for name, format := range map[string]string{
		"in its properties": `{"type":"object","properties":{"l":{"$ref":"#/$defs/NEXT"},"r":{"$ref":"#/$defs/NEXT"}}}`,
		"in its parts":      `{"allOf":[{"$ref":"#/$defs/NEXT"},{"$ref":"#/$defs/NEXT"}]}`,
		"in alternatives":   `{"anyOf":[{"$ref":"#/$defs/NEXT"},{"$ref":"#/$defs/NEXT"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var defs strings.Builder
			for level := range 26 {
				next := string(rune('a' + level + 1))
				defs.WriteString(`"` + string(rune('a'+level)) + `":` + strings.ReplaceAll(format, "NEXT", next) + ",")
			}
			schema := `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{` + defs.String() + `"{":{"type":"boolean"}}}`
			got := toollint.Lint(toollint.Tool{Effect: "ReadOnly", Schema: json.RawMessage(schema)})
			if len(got) == 0 || !strings.Contains(got[len(got)-1].Message, "too large") {
				t.Errorf("got %v, want a finding that says that the schema is too large", got)
			}
		})
	}
}
