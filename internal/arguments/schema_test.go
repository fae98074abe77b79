// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package arguments_test

import (
	"strings"
	"testing"

	"github.com/interlock-dev/interlock/internal/arguments"
)

func TestSchema_unknownArgumentsAreRefusedUnlessTheSchemaAsksOtherwise(t *testing.T) {
	const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`
	for name, test := range map[string]struct {
		schema, arguments, want string
	}{
		"a known one":                        {`{"type":"object","properties":{"q":{"type":"string"}}}`, `{"q":"x"}`, ""},
		"an unknown one":                     {`{"type":"object","properties":{"q":{"type":"string"}}}`, `{"q":"x","z":1}`, "z"},
		"an unknown one in draft-07":         {`{` + draft7 + `"type":"object","properties":{"q":{}}}`, `{"z":1}`, "z"},
		"no properties at all":               {`{"type":"object"}`, `{"z":1}`, "z"},
		"the schema allows others":           {`{"type":"object","properties":{},"additionalProperties":true}`, `{"z":1}`, ""},
		"the schema allows others by name":   {`{"type":"object","patternProperties":{"^x-":{}}}`, `{"x-a":1}`, ""},
		"further in":                         {`{"type":"object","properties":{"o":{"type":"object","properties":{"a":{}}}}}`, `{"o":{"b":1}}`, "/o"},
		"in the items of an array":           {`{"type":"object","properties":{"o":{"type":"array","items":{"type":"object","properties":{"a":{}}}}}}`, `{"o":[{"a":1},{"b":1}]}`, "/o/1"},
		"a free object further in":           {`{"type":"object","properties":{"labels":{"type":"object"}}}`, `{"labels":{"any":"thing"}}`, ""},
		"known through allOf":                {`{"type":"object","allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, `{"a":1,"b":2}`, ""},
		"unknown beside allOf":               {`{"type":"object","allOf":[{"properties":{"a":{}}}]}`, `{"z":2}`, "z"},
		"known through a reference":          {`{"type":"object","$ref":"#/$defs/x","$defs":{"x":{"properties":{"a":{}}}}}`, `{"a":1}`, ""},
		"a missing one":                      {`{"type":"object","properties":{"q":{}},"required":["q"]}`, `{}`, "q"},
		"null is not missing":                {`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`, `{"q":null}`, "/q"},
		"a wrong type":                       {`{"type":"object","properties":{"q":{"type":"integer"}}}`, `{"q":"1"}`, "/q"},
		"a format is checked":                {`{"type":"object","properties":{"d":{"type":"string","format":"date"}}}`, `{"d":"2026-02-30"}`, "/d"},
		"a large integer is checked exactly": {`{"type":"object","properties":{"n":{"maximum":9007199254740991}}}`, `{"n":9007199254740992}`, "/n"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := arguments.Compile([]byte(test.schema))
			if err != nil {
				t.Fatal(err)
			}
			err = s.Check([]byte(test.arguments))
			if test.want == "" && err != nil {
				t.Errorf("got %v, want it accepted", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want an error that names %q", err, test.want)
			}
		})
	}
}

func TestSchema_saysAFewThingsNotAll(t *testing.T) {
	s, err := arguments.Compile([]byte(`{"type":"object","properties":{"n":{"type":"array","items":{"type":"integer"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Check([]byte(`{"n":["` + strings.Repeat("x", 5000) + `"` + strings.Repeat(`,"x"`, 100) + `]}`))
	if err == nil || !strings.Contains(err.Error(), "and 96 more") || len(err.Error()) > 5*500 {
		t.Errorf("got %v", err)
	}
}

func TestCompile_refusesWhatItCannotCheck(t *testing.T) {
	for name, test := range map[string]struct{ schema, want string }{
		"not JSON":              {`{`, "not JSON"},
		"not an object":         {`true`, `"type": "object"`},
		"another root type":     {`{"type":"array"}`, `"type": "object"`},
		"no root type":          {`{"properties":{}}`, `"type": "object"`},
		"a wrong keyword value": {`{"type":"object","properties":{"a":{"type":"strin"}}}`, "/properties/a/type"},
		"another document":      {`{"type":"object","$ref":"https://example.com/s.json"}`, "not followed"},
		"a file":                {`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "not followed"},
		"an unknown dialect":    {`{"$schema":"https://example.com/dialect","type":"object"}`, "not followed"},
		"a bad pattern":         {`{"type":"object","properties":{"a":{"pattern":"("}}}`, "/properties/a"},
		"too deep":              {`{"type":"object","properties":` + strings.Repeat(`{"a":{"properties":`, 40) + `{}` + strings.Repeat(`}}`, 40) + `}`, "nested deeper"},
		"too long":              {`{"type":"object","description":"` + strings.Repeat("x", 70000) + `"}`, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := arguments.Compile([]byte(test.schema))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that has %q", err, test.want)
			}
		})
	}
}
