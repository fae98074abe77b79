// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// notes are what a handler knows of a request and the log wants to. All of it is bounded and checked.
type notes struct {
	tool        string
	operationID string
	principal   string
	code        tool.Code
}

type notesKey struct{}

// note gives the request's notes. A request that is not logged has notes that nobody reads.
func note(r *http.Request) *notes {
	if n, ok := r.Context().Value(notesKey{}).(*notes); ok {
		return n
	}
	return &notes{}
}

// traceParent is a W3C traceparent; its first group is the trace's ID.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$`)

// logged writes one line for each request once it is done. Probes come every few seconds: one that is content is no news.
func (h *Handler) logged(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := h.now()
		n := &notes{}
		ctx := context.WithValue(r.Context(), notesKey{}, n)
		r = r.WithContext(ctx)
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		mux.ServeHTTP(rec, r)

		if isProbe := r.Pattern == "/healthz" || r.Pattern == "/readyz"; isProbe && rec.status == http.StatusOK {
			return
		}
		attrs := []slog.Attr{
			slog.String("method", r.Method),
			// The pattern and not the path: a path is the caller's text.
			slog.String("route", r.Pattern),
			slog.Int("status", rec.status),
			slog.Int("bytes", rec.bytes),
			slog.Float64("durationMs", float64(h.now().Sub(start).Microseconds())/1000),
		}
		for _, a := range [][2]string{{"tool", n.tool}, {"operationId", n.operationID}, {"principal", n.principal}, {"code", string(n.code)}, {"traceId", traceID(r)}} {
			if a[1] != "" {
				attrs = append(attrs, slog.String(a[0], a[1]))
			}
		}
		h.log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
	})
}

func traceID(r *http.Request) string {
	if m := traceParent.FindStringSubmatch(r.Header.Get("traceparent")); m != nil {
		return m[1]
	}
	return ""
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	n, err := r.ResponseWriter.Write(b)
	r.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController flush streams through the recorder.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
