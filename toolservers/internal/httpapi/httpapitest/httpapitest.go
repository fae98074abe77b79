// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpapitest calls tool servers in tests, and holds every answer to toolservers/openapi.yaml.
package httpapitest

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// A Client calls one server.
type Client struct {
	// URL is the server's, without a path.
	URL      string
	protocol *openapi3.T
}

// NewClient makes a Client of the server there.
func NewClient(t *testing.T, url string) *Client {
	t.Helper()
	return &Client{url, Protocol(t)}
}

// A Reply is what came back.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send gives the reply. It fails the test if they break the protocol, or if the protocol does not know the
// request's path and method and the response is not one for that.
func (c *Client) Send(t *testing.T, method, path, body string, header http.Header) Reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}

	route, parameters := Find(c.protocol, r)
	if route == nil {
		if s := response.StatusCode; s != http.StatusNotFound && s != http.StatusMethodNotAllowed {
			t.Errorf("%s %s is not described, and gets %d", method, path, s)
		}
		return Reply{response.StatusCode, response.Header, raw}
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, Route: route, PathParams: parameters},
		Status:                 response.StatusCode,
		Header:                 response.Header,
		Body:                   io.NopCloser(bytes.NewReader(raw)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		t.Errorf("%s %s breaks the protocol: %v", method, path, err)
	}
	return Reply{response.StatusCode, response.Header, raw}
}

// Protocol reads openapi.yaml from a directory above the test's, and fails the test if it is no valid OpenAPI document.
func Protocol(t *testing.T) *openapi3.T {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for filepath.Base(dir) != "toolservers" && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	raw, err := fs.ReadFile(os.DirFS(dir), "openapi.yaml")
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

// Find gives the operation that describes the request and what its path's template takes for variables; nil if there is
// none. The library's own router wants a whole segment for a variable, and ours has a verb behind it.
func Find(document *openapi3.T, r *http.Request) (*routers.Route, map[string]string) {
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
