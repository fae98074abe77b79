// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// protocol reads openapi.yaml, and fails the test if it is no valid OpenAPI document.
func protocol(t *testing.T) *openapi3.T {
	t.Helper()
	raw, err := os.ReadFile("../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return document
}

var templateVariable = regexp.MustCompile(`\\{(\w+)\\}`)

// find gives the operation that describes the request and what its path's template takes for variables; nil if there is
// none. The library's own router wants a whole segment for a variable, and ours has a verb behind it.
func find(document *openapi3.T, r *http.Request) (*routers.Route, map[string]string) {
	for path, item := range document.Paths.Map() {
		pattern := regexp.MustCompile("^" + templateVariable.ReplaceAllString(regexp.QuoteMeta(path), `(?P<$1>[^/]+)`) + "$")
		found := pattern.FindStringSubmatch(r.URL.Path)
		operation := item.GetOperation(r.Method)
		if found == nil || operation == nil {
			continue
		}
		parameters := map[string]string{}
		for i, name := range pattern.SubexpNames()[1:] {
			parameters[name] = found[i+1]
		}
		return &routers.Route{Spec: document, Path: path, PathItem: item, Method: r.Method, Operation: operation}, parameters
	}
	return nil, nil
}

// The document also describes requests: what the server takes and refuses by itself, the document does as well.
func TestProtocol_describesRequests(t *testing.T) {
	document := protocol(t)
	tests := map[string]struct {
		body   string
		header http.Header
		fits   bool
	}{
		"a proper call":        {`{"word":"a"}`, headers(), true},
		"with a deadline":      {`{}`, headers("Interlock-Deadline", "2026-01-02T15:04:05.5Z"), true},
		"no key":               {`{}`, headers("Idempotency-Key", ""), false},
		"a key with a space":   {`{}`, headers("Idempotency-Key", "a b"), false},
		"a deadline in words":  {`{}`, headers("Interlock-Deadline", "soon"), false},
		"a deadline elsewhere": {`{}`, headers("Interlock-Deadline", "2026-01-02T15:04:05+02:00"), false},
		"a list":               {`[]`, headers(), false},
		"nothing":              {``, headers(), false},
		"another content type": {`{}`, headers("Content-Type", "text/plain"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, echoPath, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = tt.header
			route, parameters := find(document, r)
			if route == nil {
				t.Fatal("the document does not know the path")
			}
			err = openapi3filter.ValidateRequest(t.Context(), &openapi3filter.RequestValidationInput{
				Request: r, Route: route, PathParams: parameters,
				Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
			})
			if (err == nil) != tt.fits {
				t.Errorf("the document says %v", err)
			}
		})
	}
}
