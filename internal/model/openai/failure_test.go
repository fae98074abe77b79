// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/model/modeltest"
	"github.com/interlock-dev/interlock/internal/model/openai"
	"github.com/interlock-dev/interlock/test/chatserver"
)

func TestComplete_sortsBrokenConnections(t *testing.T) {
	completion := &chatserver.Completion{Text: "hello"}
	for name, tc := range map[string]struct {
		answer chatserver.Answer
		want   string
	}{
		"a reset": {chatserver.Answer{Completion: completion, Fault: chatserver.Reset}, "Unavailable: the connection was lost before an answer came"},
		"a body that is cut off": {
			chatserver.Answer{Completion: completion, Fault: chatserver.Truncate}, "Malformed: the answer was cut off",
		},
		"a body without an end": {
			chatserver.Answer{Completion: completion, Fault: chatserver.Endless}, "Malformed: the answer is longer than an answer may be",
		},
		"an error without an end": {
			chatserver.Answer{Status: http.StatusBadGateway, Fault: chatserver.Endless}, "Unavailable: the provider failed (status 502)",
		},
		"HTML": {
			chatserver.Answer{Body: "<html>", Header: http.Header{"Content-Type": {"text/html"}}},
			"Malformed: the answer is not the JSON of a chat completion",
		},
		"a header without an end": {
			chatserver.Answer{Completion: completion, Header: http.Header{"X-Long": {strings.Repeat("a", 1<<20)}}},
			"Unavailable: the connection was lost before an answer came",
		},
		"no content": {chatserver.Answer{Status: http.StatusNoContent}, "Malformed: the answer is not the JSON of a chat completion"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fails(t, tc.answer); got.Error() != tc.want {
				t.Errorf("error = %v, want %s", got, tc.want)
			}
		})
	}
}

// net/http repeats some requests by itself when a connection that it kept turns out to be dead. A completion is never one of
// them: it may have been charged.
func TestComplete_isNotRepeatedOnAConnectionThatDies(t *testing.T) {
	m, s := serving(t, chatserver.Always(chatserver.Text("ok")))
	s.Nth(2, chatserver.Answer{Completion: &chatserver.Completion{}, Fault: chatserver.Reset})
	if _, err := m.Complete(t.Context(), modeltest.Request()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Complete(t.Context(), modeltest.Request()); err == nil {
		t.Error("Complete() = nil, want the failure")
	}
	if got := s.Bill().Completions; s.Seen() != 2 || got != 2 {
		t.Errorf("asked %d times for %d completions, want 2", s.Seen(), got)
	}
}

func TestComplete_saysThatNobodyListens(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := openai.New(model.Config{BaseURL: "http://" + addr + "/v1", Model: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Complete(t.Context(), modeltest.Request())
	if err == nil || err.Error() != "Unavailable: no connection to the endpoint" || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error = %v, want Unavailable that wraps connection refused", err)
	}
}

func TestComplete_trustsNoCertificateOfAStranger(t *testing.T) {
	srv := httptest.NewUnstartedServer(chatserver.New(chatserver.Always(chatserver.Text("ok"))))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	m, err := openai.New(model.Config{BaseURL: srv.URL, Model: "m1", APIKey: model.NewSecret("k1")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Complete(t.Context(), modeltest.Request())
	if err == nil || err.Error() != "Unavailable: the endpoint's certificate was not accepted" {
		t.Errorf("error = %v", err)
	}
}

// A body of a few kilobytes that unpacks to more than may be read is refused like any other that is too long.
func TestComplete_boundsABodyAfterItIsUnpacked(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(`{"choices":[{"message":{"content":"` + strings.Repeat("a", 32<<20) + `"}}]}`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := fails(t, chatserver.Answer{Body: packed.String(), Header: http.Header{"Content-Encoding": {"gzip"}}})
	if want := "Malformed: the answer is longer than an answer may be"; packed.Len() > 1<<20 || got.Error() != want {
		t.Errorf("%d bytes packed: %v, want %s", packed.Len(), got, want)
	}
}

func TestComplete_givesUpAmidABodyWhenTimeRunsOut(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"choices":[`))
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer srv.Close()
	defer close(release)
	m, err := openai.New(model.Config{BaseURL: srv.URL, Model: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = m.Complete(ctx, modeltest.Request())
	var failed *model.Error
	if !errors.As(err, &failed) || failed.Reason != model.ReasonTimeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want a timeout", err)
	}
}
