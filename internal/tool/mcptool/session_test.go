// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-dev/interlock/internal/tool"
	"github.com/interlock-dev/interlock/internal/tool/mcptool"
	"github.com/interlock-dev/interlock/internal/tool/tooltest"
)

// TestExchange_aForgottenSessionIsMadeAnew: however the server says it, and whoever hears it first.
func TestExchange_aForgottenSessionIsMadeAnew(t *testing.T) {
	for name, forgotten := range map[string]http.HandlerFunc{
		"404":               func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "session not found", http.StatusNotFound) },
		"404 with an error": always(404, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`),
		"400 with an error": always(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID provided"}}`),
		"400 with words":    always(400, "application/json", "no session"),
	} {
		t.Run(name, func(t *testing.T) {
			var lost atomic.Value
			protocol := peer{}.Answer(json.RawMessage(`"x"`))
			server, _ := tooltest.Open(t, mcptool.New, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id := r.Header.Get("Mcp-Session-Id")
				if id != "" && r.Method == http.MethodPost {
					if lost.CompareAndSwap("", id) || lost.Load() == id {
						forgotten(w, r)
						return
					}
				}
				protocol.ServeHTTP(w, r)
			}))
			lost.Store("none")
			if _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil {
				t.Fatal(err)
			}
			for what, again := range map[string]func() error{
				"a call":    func() error { _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); return err },
				"discovery": func() error { _, err := server.(tool.Discoverer).Discover(t.Context(), "lookup"); return err },
			} {
				lost.Store("")
				tooltest.WantError(t, again(), "", tool.Refused, true)
				if err := again(); err != nil {
					t.Errorf("%s after the session was forgotten: %v", what, err)
				}
			}
		})
	}
}

func always(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestConnect_isSharedByThoseWhoCallFirst(t *testing.T) {
	for _, p := range []peer{{stateless: true}, {}} {
		var opened, closed atomic.Int64
		protocol := p.Answer(nil)
		server, _ := tooltest.Open(t, mcptool.New, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch method := r.Header.Get("Mcp-Method"); {
			case method == "server/discover":
				opened.Add(1)
			case r.Method == http.MethodDelete:
				closed.Add(1)
			}
			protocol.ServeHTTP(w, r)
		}))
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				if _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		server.Close()
		if opened.Load() != 1 || (!p.stateless && closed.Load() != 1) {
			t.Errorf("%+v: opened %d times, closed %d times", p, opened.Load(), closed.Load())
		}
	}
}

// mute answers nothing but calls.
func mute(arrived chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	})
}

func TestConnect_aServerThatNeverAnswersHasNotSeenTheCall(t *testing.T) {
	server, _ := tooltest.Open(t, mcptool.New, mute(make(chan struct{}, 100)))
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := server.Execute(ctx, tooltest.Call(`{}`))
		cancel()
		tooltest.WantError(t, err, tool.CodeTimeout, tool.NotSent, true)
	}
}

func TestConnect_endsWithClose(t *testing.T) {
	arrived := make(chan struct{}, 100)
	server, _ := tooltest.Open(t, mcptool.New, mute(arrived))
	failed := make(chan error, 1)
	go func() { _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); failed <- err }()
	<-arrived
	begin := time.Now()
	server.Close()
	tooltest.WantError(t, <-failed, "", tool.NotSent, true)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("closing took %s", took)
	}
}

func TestConnect_whatGoesWrongHasNotSentTheCall(t *testing.T) {
	for name, test := range map[string]struct {
		status    int
		kind      string
		body      string
		code      string
		retryable bool
	}{
		"somebody else":     {401, "text/plain", "canary", tool.CodeUnauthorized, false},
		"too many requests": {429, "", "", tool.CodeUnavailable, true},
		"an error page":     {500, "text/html", "<html>canary", tool.CodeUnavailable, true},
		"no such path":      {404, "text/plain", "canary", tool.CodeUnavailable, false},
		"a page":            {200, "text/html", "<html>canary", tool.CodeMalformedResult, false},
		"another protocol":  {200, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":1}`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := tooltest.Open(t, mcptool.New, always(test.status, test.kind, test.body))
			_, err := server.Execute(t.Context(), tooltest.Call(`{}`))
			tooltest.WantError(t, err, test.code, tool.NotSent, test.retryable)
		})
	}
}

// TestConnect_fallsBack: what an older server says to a method that it does not know must not end the attempt.
func TestConnect_fallsBack(t *testing.T) {
	for name, old := range map[string]func(http.ResponseWriter, *http.Request, string){
		"an error":                       says(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}`),
		"a status":                       says(400, "text/plain", "bad"),
		"a page":                         says(200, "text/html", "<html>"),
		"JSON that is said to be a text": says(200, "text/plain", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}`),
		"not allowed":                    says(405, "", ""),
		"broken":                         func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := tooltest.Open(t, mcptool.New, instead(peer{}, "server/discover", old))
			if got, err := server.Execute(t.Context(), tooltest.Call(`{"n":1}`)); err != nil || string(got.Data) != `{"n":1}` {
				t.Errorf("got %s, %v", got.Data, err)
			}
		})
	}
}

// TestClose_isNotHeldUp: by calls under way, nor by a server that does not let go of its session.
func TestClose_isNotHeldUp(t *testing.T) {
	arrived := make(chan struct{}, 1)
	protocol := instead(peer{}, "tools/call", func(_ http.ResponseWriter, r *http.Request, _ string) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			<-r.Context().Done()
			return
		}
		protocol.ServeHTTP(w, r)
	}))
	defer peer.Close()
	server, err := mcptool.New(tool.Config{URL: peer.URL})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); failed <- err }()
	<-arrived
	begin := time.Now()
	server.Close()
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("closing took %s", took)
	}
	tooltest.WantError(t, <-failed, tool.CodeTimeout, tool.InDoubt, true)
}

// TestExchange_aBrokenSessionIsMadeAnewBeforeTheNextCall: the SDK takes a stream that it can't read for the end of everything.
func TestExchange_aBrokenSessionIsMadeAnewBeforeTheNextCall(t *testing.T) {
	for _, p := range []peer{{stateless: true}, {}} {
		var calls atomic.Int64
		server, _ := tooltest.Open(t, mcptool.New, instead(p, "tools/call", func(w http.ResponseWriter, r *http.Request, id string) {
			if calls.Add(1) == 1 {
				says(200, "text/event-stream", "data: words\n\n")(w, r, id)
				return
			}
			says(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":1}}`)(w, r, id)
		}))
		_, err := server.Execute(t.Context(), tooltest.Call(`{}`))
		tooltest.WantError(t, err, tool.CodeMalformedResult, tool.InDoubt, false)
		if got, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil || string(got.Data) != `1` || calls.Load() != 2 {
			t.Errorf("%+v: got %s, %v with %d calls", p, got.Data, err, calls.Load())
		}
	}
}

// TestExchange_aNotificationThatIsRefusedDisturbsNobody: the SDK sends one for each call that is given up.
func TestExchange_aNotificationThatIsRefusedDisturbsNobody(t *testing.T) {
	arrived, refused, release := make(chan struct{}, 2), make(chan struct{}, 1), make(chan struct{})
	notified := instead(peer{}, "notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.WriteHeader(http.StatusUnauthorized)
		refused <- struct{}{}
	})
	called := instead(peer{}, "tools/call", func(w http.ResponseWriter, r *http.Request, id string) {
		arrived <- struct{}{}
		select {
		case <-release:
			says(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":1}}`)(w, r, id)
		case <-r.Context().Done():
		}
	})
	var sessions atomic.Int64
	server, _ := tooltest.Open(t, mcptool.New, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"initialize"`)) {
			sessions.Add(1)
		}
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			called.ServeHTTP(w, r)
			return
		}
		notified.ServeHTTP(w, r)
	}))
	stays := make(chan error, 1)
	go func() { _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); stays <- err }()
	<-arrived
	ctx, giveUp := context.WithCancel(t.Context())
	leaves := make(chan error, 1)
	go func() { _, err := server.Execute(ctx, tooltest.Call(`{}`)); leaves <- err }()
	<-arrived
	giveUp()
	tooltest.WantError(t, <-leaves, tool.CodeTimeout, tool.InDoubt, true)
	<-refused
	// The answer to the notification is on its way: give it the time to do harm.
	time.Sleep(50 * time.Millisecond)
	close(release)
	if err := <-stays; err != nil {
		t.Errorf("the other call: %v", err)
	}
	if _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil || sessions.Load() != 1 {
		t.Errorf("the next call: %v, in session %d, want the first", err, sessions.Load())
	}
}
