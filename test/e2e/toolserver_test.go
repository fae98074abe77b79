// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// A toolServer speaks the HTTP tool protocol. Each tool is a function of the test; what arrives is recorded.
type toolServer struct {
	*httptest.Server

	mu    sync.Mutex
	tools map[string]func(w http.ResponseWriter, r *http.Request, c received)
	calls []received
}

// A received call is one request as it came.
type received struct {
	Tool, OperationID, Arguments string
	// N counts the requests with this operation ID, from 1.
	N int
}

func newToolServer() *toolServer {
	s := &toolServer{tools: map[string]func(http.ResponseWriter, *http.Request, received){}}
	s.Server = httptest.NewServer(s)
	return s
}

// on makes a tool of the server.
func (s *toolServer) on(tool string, do func(w http.ResponseWriter, r *http.Request, c received)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools[tool] = do
}

// answers makes a tool that always answers with data.
func (s *toolServer) answers(tool, data string) {
	s.on(tool, func(w http.ResponseWriter, _ *http.Request, c received) { answer(w, c, data) })
}

func (s *toolServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, "/v1/tools/")
	name, isInvoke := strings.CutSuffix(name, ":invoke")
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil || !ok || !isInvoke {
		problem(w, http.StatusNotFound, "UnknownTool", "there is no such tool", false)
		return
	}
	c := received{Tool: name, OperationID: r.Header.Get("Idempotency-Key"), Arguments: string(body), N: 1}
	s.mu.Lock()
	for _, old := range s.calls {
		if old.OperationID == c.OperationID {
			c.N++
		}
	}
	s.calls = append(s.calls, c)
	do := s.tools[name]
	s.mu.Unlock()
	if do == nil {
		problem(w, http.StatusNotFound, "UnknownTool", "there is no such tool", false)
		return
	}
	do(w, r, c)
}

// received gives the requests for a tool so far.
func (s *toolServer) received(tool string) []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []received
	for _, c := range s.calls {
		if c.Tool == tool {
			out = append(out, c)
		}
	}
	return out
}

func answer(w http.ResponseWriter, c received, data string) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(map[string]any{
		"operationId": c.OperationID, "observedAt": "2026-01-02T03:04:05Z", "sourceVersion": "test@1",
		"data":    json.RawMessage(data),
		"sources": []map[string]string{{"id": "test:" + c.Tool, "title": "The answer of " + c.Tool, "url": "https://example.com/" + c.Tool}},
	})
}

func problem(w http.ResponseWriter, status int, code, detail string, retryable bool) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail, "code": code, "retryable": retryable,
	})
}

// untilTheCallerLeaves never answers.
func untilTheCallerLeaves(_ http.ResponseWriter, r *http.Request, _ received) { <-r.Context().Done() }

// A barrier lets calls pass once all that are expected have arrived.
type barrier struct {
	mu      sync.Mutex
	missing int
	open    chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{missing: n, open: make(chan struct{})} }

// wait reports whether all have arrived before ctx was done.
func (b *barrier) wait(ctx context.Context) bool {
	b.mu.Lock()
	if b.missing--; b.missing == 0 {
		close(b.open)
	}
	b.mu.Unlock()
	select {
	case <-b.open:
		return true
	case <-ctx.Done():
		return false
	}
}
