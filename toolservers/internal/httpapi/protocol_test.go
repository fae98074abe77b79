// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/interlock-dev/interlock/toolservers/internal/httpapi/httpapitest"
)

// The document also describes requests: what the server takes and refuses by itself, the document does as well.
func TestProtocol_describesRequests(t *testing.T) {
	document := httpapitest.Protocol(t)
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
			route, parameters := httpapitest.Find(document, r)
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
