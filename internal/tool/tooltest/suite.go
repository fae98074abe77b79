// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-dev/interlock/internal/tool"
)

const canary = "canary-7f3a"

// Run holds an adapter against the contract of the port.
func Run(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	t.Run("exactly the arguments and the operation ID arrive", func(t *testing.T) { exactly(t, newServer, p) })
	t.Run("numbers come back as they are", func(t *testing.T) { numbers(t, newServer, p) })
	t.Run("a result is cut to its bound", func(t *testing.T) { cut(t, newServer, p) })
	t.Run("an error of the tool keeps its code and loses what is unsafe", func(t *testing.T) { coded(t, newServer, p) })
	t.Run("a server that is not there has not seen the call", func(t *testing.T) { dead(t, newServer, p) })
	t.Run("a call that gets no answer in time is in doubt", func(t *testing.T) { silent(t, newServer, p) })
	t.Run("calls side by side get their own answers", func(t *testing.T) { sideBySide(t, newServer, p) })
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, r *http.Request, _ http.Handler) { fault.handler(w, r) }))
			_, err := server.Execute(t.Context(), Call(`{}`))
			WantError(t, err, fault.code, fault.outcome, fault.retryable)
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error repeats what the server said: %v", err)
			}
		})
	}
	t.Run("a server that was down is called again", func(t *testing.T) {
		var calls int
		var mu sync.Mutex
		server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == 1 {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		}))
		_, err := server.Execute(t.Context(), Call(`{}`))
		WantError(t, err, tool.CodeUnauthorized, tool.Refused, false)
		if result, err := server.Execute(t.Context(), Call(`{}`)); err != nil || string(result.Data) != `{}` {
			t.Errorf("got %s, %v", result.Data, err)
		}
	})
}

// faults are what any HTTP server can do wrong while it is called.
var faults = map[string]struct {
	handler   http.HandlerFunc
	code      string
	outcome   tool.Outcome
	retryable bool
}{
	"a page instead of an answer": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "<html>"+canary+"</html>")
	}, "", tool.InDoubt, false},
	"an error page": {func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "goroutine 1 [running]: "+canary, http.StatusInternalServerError)
	}, tool.CodeUnavailable, tool.InDoubt, true},
	"too many requests": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}, tool.CodeUnavailable, tool.Refused, true},
	"a redirect": {func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/"+canary, http.StatusTemporaryRedirect)
	}, tool.CodeUnavailable, tool.Refused, false},
	"a connection that breaks before the answer": {func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}, tool.CodeUnavailable, tool.InDoubt, true},
	"a connection that breaks within the answer": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"`+canary)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}, tool.CodeUnavailable, tool.InDoubt, true},
	"an answer without end": {func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := bytes.Repeat([]byte(" "), 1<<16)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}, tool.CodeMalformedResult, tool.InDoubt, false},
}

// during lets the protocol go its way until a call comes, which h answers, or lets go on.
func during(p Peer, h func(w http.ResponseWriter, r *http.Request, next http.Handler)) http.Handler {
	protocol := p.Answer(nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if _, isCall := p.Seen(r, body); isCall {
			h(w, r, protocol)
			return
		}
		protocol.ServeHTTP(w, r)
	})
}

func exactly(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	seen := make(chan Seen, 1)
	server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s, _ := p.Seen(r, body)
		seen <- s
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	}))
	const arguments = `{"b":9007199254740992,"a":[1.5,"é\u0001","<&>"],"c":null}`
	if _, err := server.Execute(t.Context(), Call(arguments)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-seen, (Seen{Tool: "lookup", OperationID: "op-1", Arguments: arguments}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func numbers(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	const data = `{"big":9007199254740993,"bigger":123456789012345678901234567890,"small":1e-400}`
	server, _ := Open(t, newServer, p.Answer(json.RawMessage(data)))
	result, err := server.Execute(t.Context(), Call(`{}`))
	if err != nil || string(result.Data) != data || result.Truncated || result.Size != int64(len(data)) {
		t.Errorf("got %s, size %d, truncated %t, %v", result.Data, result.Size, result.Truncated, err)
	}
}

func cut(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	data := `{"text":"` + strings.Repeat(`é\"`, 10_000) + `"}`
	server, _ := Open(t, newServer, p.Answer(json.RawMessage(data)))
	call := Call(`{}`)
	call.MaxResultBytes = 1000
	result, err := server.Execute(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	var beginning string
	if err := json.Unmarshal(result.Data, &beginning); err != nil || !strings.HasPrefix(data, beginning) {
		t.Errorf("the data is not a string that holds the beginning: %.60s, %v", result.Data, err)
	}
	if !result.Truncated || len(result.Data) > 1000 || len(result.Data) < 800 || result.Size != int64(len(data)) {
		t.Errorf("got %d bytes of %d, truncated %t", len(result.Data), result.Size, result.Truncated)
	}
}

func coded(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	server, _ := Open(t, newServer, p.Fail("OutOfStock", "sold \x1b[31mout\u202e "+strings.Repeat("x", 5000), true))
	_, err := server.Execute(t.Context(), Call(`{}`))
	e := WantError(t, err, "OutOfStock", tool.Refused, true)
	if !strings.HasPrefix(e.Message, "sold [31mout x") || len(e.Message) > tool.MaxMessageBytes {
		t.Errorf("the message is %.40q of %d bytes", e.Message, len(e.Message))
	}
	server, _ = Open(t, newServer, p.Fail("not a code!", "no", false))
	_, err = server.Execute(t.Context(), Call(`{}`))
	WantError(t, err, tool.CodeToolError, tool.Refused, false)
}

func dead(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	gone := httptest.NewServer(p.Answer(json.RawMessage(`"x"`)))
	gone.Close()
	server, err := newServer(tool.Config{URL: gone.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, err = server.Execute(t.Context(), Call(`{}`))
	WantError(t, err, tool.CodeUnavailable, tool.NotSent, true)
}

func silent(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	server, _ := Open(t, newServer, during(p, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }))
	// The session, if there is one, is open before the time begins.
	warm, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	_, err := server.Execute(warm, Call(`{}`))
	cancel()
	WantError(t, err, tool.CodeTimeout, "", true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = server.Execute(ctx, Call(`{}`))
	WantError(t, err, tool.CodeTimeout, tool.InDoubt, true)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = server.Execute(over, Call(`{}`))
	WantError(t, err, tool.CodeTimeout, "", true)
}

func sideBySide(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	server, _ := Open(t, newServer, p.Answer(nil))
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			arguments := fmt.Sprintf(`{"n":%d}`, i)
			result, err := server.Execute(t.Context(), Call(arguments))
			if err != nil || string(result.Data) != arguments {
				t.Errorf("got %s, %v, want %s", result.Data, err, arguments)
			}
		})
	}
	calls.Wait()
}

// WantError checks an error of the port and gives it. An empty code or outcome is any.
func WantError(t *testing.T, err error, code string, outcome tool.Outcome, retryable bool) tool.Error {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want a *tool.Error", err, err)
	}
	if (code != "" && e.Code != code) || (outcome != "" && e.Outcome != outcome) || e.Retryable != retryable || e.Message == "" {
		t.Errorf("got %+v, want code %q, outcome %q, retryable %t and a message", *e, code, outcome, retryable)
	}
	return *e
}
