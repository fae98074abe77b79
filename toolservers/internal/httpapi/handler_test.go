// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/toolservers/internal/httpapi/httpapitest"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A counter is a server under test. Every answer that passes over it is held to openapi.yaml.
type counter struct {
	*httpapitest.Client
	log *lockedBuffer
}

// openCounter serves one tool, "echo", which does what run does. It is ready unless notReady says why not.
func openCounter(t *testing.T, run func(context.Context, tool.Operation) (tool.Answer, error), notReady error) *counter {
	t.Helper()
	return open(t, notReady, []tool.Tool{{Name: "echo", InputSchema: json.RawMessage(input), Call: run}}, WithMCP(http.NotFoundHandler()))
}

const input = `{"type":"object","additionalProperties":false,"properties":{"word":{"type":"string"}}}`

// open serves the tools.
func open(t *testing.T, notReady error, tools []tool.Tool, options ...Option) *counter {
	t.Helper()
	c := &counter{log: &lockedBuffer{}}
	log := slog.New(slog.NewJSONHandler(c.log, nil))
	runner, err := tool.NewRunner("words@1", time.Now, log, tools...)
	if err != nil {
		t.Fatal(err)
	}
	ready := func(context.Context) error { return notReady }
	server := httptest.NewServer(New(runner, ready, time.Now, log, options...))
	t.Cleanup(server.Close)
	c.Client = httpapitest.NewClient(t, server.URL)
	return c
}

func echo(_ context.Context, op tool.Operation) (tool.Answer, error) {
	return tool.Answer{Data: op.Arguments, Sources: []tool.Source{{ID: "s", Title: "S", URL: "https://example.com/s"}}}, nil
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
