// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Bounds on what is said of arguments that break the schema.
const (
	maxViolations = 5
	maxText       = 200
)

// location is what a schema is called while it is compiled; it is never fetched.
const location = "urn:interlock:schema"

var english = message.NewPrinter(language.English)

// compile makes a schema that checks formats too, and refuses references to other documents.
func compile(document json.RawMessage) (*jsonschema.Schema, error) {
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource(location, decoded); err != nil {
		return nil, err
	}
	return c.Compile(location)
}

// checkArguments says how arguments break the schema. They must be one JSON object that every parser reads alike: no
// duplicate keys, no invalid UTF-8, nothing after it. What is checked is then what the tool decodes.
func checkArguments(schema *jsonschema.Schema, arguments json.RawMessage) *Error {
	if !jsontext.Value(arguments).IsValid() {
		return Errorf(MalformedRequest, "the arguments are not one JSON value in UTF-8 with unique keys")
	}
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return Errorf(MalformedRequest, "the arguments are not JSON")
	}
	err = schema.Validate(decoded)
	if err == nil {
		return nil
	}
	violation, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return Errorf(InvalidArguments, "the arguments can't be checked")
	}
	var texts []string
	collect(violation, &texts)
	more := ""
	if n := len(texts) - maxViolations; n > 0 {
		texts, more = texts[:maxViolations], fmt.Sprintf("; and %d more", n)
	}
	return Errorf(InvalidArguments, "%s%s", strings.Join(texts, "; "), more)
}

// collect gathers what the leaves of a violation say: the rest only says that something below is wrong.
func collect(v *jsonschema.ValidationError, texts *[]string) {
	if len(v.Causes) == 0 {
		path := "/" + strings.Join(v.InstanceLocation, "/")
		*texts = append(*texts, fmt.Sprintf("at %s: %s", shorten(path), shorten(v.ErrorKind.LocalizedString(english))))
		return
	}
	for _, cause := range v.Causes {
		collect(cause, texts)
	}
}

// shorten bounds a text that may repeat some of the arguments, and takes out what would break a line or a terminal.
func shorten(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}
