// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpapi serves tools by the HTTP tool protocol, which toolservers/openapi.yaml describes, with health checks and
// an access log.
//
// What is logged of a request is its route, its operation ID, and how it ended: never arguments, results, query strings or
// headers that could hold a credential.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/interlock-dev/interlock/toolservers/catalog/tool"
)

// A Handler is everything that the server serves.
type Handler struct {
	runner *tool.Runner
	now    func() time.Time
	log    *slog.Logger
	mux    *http.ServeMux
}

// New makes a Handler of the runner's tools. ready says whether they can answer; mcp is served at /mcp.
func New(runner *tool.Runner, ready func(context.Context) error, mcp http.Handler, now func() time.Time, log *slog.Logger) *Handler {
	h := &Handler{runner: runner, now: now, log: log, mux: http.NewServeMux()}
	h.mux.HandleFunc("/v1/tools/{call}", h.invoke)
	h.mux.Handle("/mcp", mcp)
	h.mux.HandleFunc("/healthz", health(func(context.Context) error { return nil }))
	h.mux.HandleFunc("/readyz", health(ready))
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, codeUnknownPath, "nothing is served here")
	})
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
