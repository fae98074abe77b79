// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpapi serves tools by the HTTP tool protocol, which toolservers/openapi.yaml describes, with health checks and
// an access log.
//
// What is logged of a request is its route, its operation ID, who sent it, and how it ended: never arguments, results, query strings or
// headers that could hold a credential.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// A Handler is everything that the server serves.
type Handler struct {
	runner        *tool.Runner
	authenticator Authenticator
	ledger        tool.Ledger
	now           func() time.Time
	log           *slog.Logger
	mux           *http.ServeMux
}

// An Option adds to what a Handler serves.
type Option func(*Handler)

// WithMCP serves MCP at /mcp, to the same callers. A tool that is called that way does not learn who they are.
func WithMCP(mcp http.Handler) Option {
	return func(h *Handler) {
		h.mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
			if _, err := h.authenticate(r); err != nil {
				WriteError(w, r, err)
				return
			}
			mcp.ServeHTTP(w, r)
		})
	}
}

// WithAuthenticator lets in only those whom it knows. Probes stay open to all.
func WithAuthenticator(a Authenticator) Option {
	return func(h *Handler) { h.authenticator = a }
}

// WithLedger answers what became of operations. A server whose tools write has one.
func WithLedger(l tool.Ledger) Option {
	return func(h *Handler) {
		h.ledger = l
		h.mux.HandleFunc("/v1/operations/{id}", h.operation)
	}
}

// New makes a Handler of the runner's tools. ready says whether they can answer.
func New(runner *tool.Runner, ready func(context.Context) error, now func() time.Time, log *slog.Logger, options ...Option) *Handler {
	h := &Handler{runner: runner, now: now, log: log, mux: http.NewServeMux()}
	h.mux.HandleFunc("/v1/tools/{call}", h.call)
	h.mux.HandleFunc("/healthz", health(func(context.Context) error { return nil }))
	h.mux.HandleFunc("/readyz", health(ready))
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, codeUnknownPath, "nothing is served here")
	})
	for _, o := range options {
		o(h)
	}
	return h
}

// ServeHTTP serves the request and logs that it did.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.logged(h.mux).ServeHTTP(w, r)
}

// health answers for people and probes alike: the status is what counts.
func health(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeProblem(w, codeMethodNotAllowed, "health is only read")
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		text := "ok\n"
		if check(r.Context()) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = "not ready\n"
		}
		_, _ = w.Write([]byte(text))
	}
}
