// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/toolservers/catalog/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A counter is a server under test. Every answer that passes over it is held to openapi.yaml.
type counter struct {
	url      string
	log      *lockedBuffer
	protocol *openapi3.T
}

// openCounter serves one tool, "echo", which does what run does. It is ready unless notReady says why not.
func openCounter(t *testing.T, run func(context.Context, json.RawMessage) (tool.Answer, error), notReady error) *counter {
	t.Helper()
	c := &counter{log: &lockedBuffer{}, protocol: protocol(t)}
	log := slog.New(slog.NewJSONHandler(c.log, nil))
	runner, err := tool.NewRunner("words@1", time.Now, log, tool.Tool{
		Name:        "echo",
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"word":{"type":"string"}}}`),
		Run:         run,
	})
	if err != nil {
		t.Fatal(err)
	}
	ready := func(context.Context) error { return notReady }
	server := httptest.NewServer(New(runner, ready, http.NotFoundHandler(), time.Now, log))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func echo(_ context.Context, arguments json.RawMessage) (tool.Answer, error) {
	return tool.Answer{Data: arguments, Sources: []tool.Source{{ID: "s", Title: "S", URL: "https://example.com/s"}}}, nil
}

// A reply is what came back.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// send gives the reply. It fails the test if they break the protocol, or if the protocol does not know the
// request's path and method and the response is not one for that.
func (c *counter) send(t *testing.T, method, path, body string, header http.Header) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
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

	route, parameters := find(c.protocol, r)
	if route == nil {
		if s := response.StatusCode; s != http.StatusNotFound && s != http.StatusMethodNotAllowed {
			t.Errorf("%s %s is not described, and gets %d", method, path, s)
		}
		return reply{response.StatusCode, response.Header, raw}
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
	return reply{response.StatusCode, response.Header, raw}
}

// lockedBuffer is a log that a test may read while the server writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
