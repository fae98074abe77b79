// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tooltest

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/internal/tool"
)

// canary is in what a server says and nobody may repeat.
const canary = "canary-7f3a"

// Run holds an adapter against the contract of the port, and against what any HTTP server can do to it.
func Run(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	RunPort(t, func(t *testing.T, b Behaviour) tool.Server { t.Helper(); return behaving(t, newServer, p, b) })
	for name, test := range map[string]func(*testing.T, tool.Factory, Peer){
		"exactly the arguments and the operation ID arrive":        exactly,
		"an answer without end is not read to its end":             endless,
		"an answer that stops half-way is given up in time":        stalled,
		"a redirect leads nowhere":                                 redirected,
		"advice on when to come back is read":                      advised,
		"a call is sent once, though the connection had been kept": once,
		"a refused call leaves those under way alone":              refusedBeside,
		"a server that was down is called again":                   back,
		"nothing is left after closing":                            clean,
	} {
		t.Run(name, func(t *testing.T) { test(t, newServer, p) })
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, r *http.Request, _ http.Handler) { fault.handler(w, r) }))
			_, err := server.Execute(t.Context(), Call(`{}`))
			WantError(t, err, fault.code, fault.outcome, fault.retryable)
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error repeats what the server said: %v", err)
			}
		})
	}
}

// behaving gives an adapter for a peer that behaves as b says.
func behaving(t *testing.T, newServer tool.Factory, p Peer, b Behaviour) tool.Server {
	t.Helper()
	handler := p.Answer(b.Data)
	switch {
	case b.Fail != nil:
		handler = p.Fail(b.Fail.Code, b.Fail.Message, b.Fail.Retryable)
	case b.Hang != nil:
		handler = during(p, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { b.Hang(); <-r.Context().Done() })
	}
	server, peer := Open(t, newServer, handler)
	if b.Gone {
		peer.Close()
	}
	return server
}

func saying(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Www-Authenticate", `Bearer realm="`+canary+`"`)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// faults are what any HTTP server can do wrong while it is called.
var faults = map[string]struct {
	handler   http.HandlerFunc
	code      string
	outcome   tool.Outcome
	retryable bool
}{
	"a page instead of an answer":     {saying(200, "text/html", "<html>"+canary+"</html>"), tool.CodeMalformedResult, tool.InDoubt, false},
	"a page that is said to be JSON":  {saying(200, "application/json", "<html>"+canary+"</html>"), tool.CodeMalformedResult, tool.InDoubt, false},
	"nothing at all":                  {saying(200, "application/json", ""), tool.CodeMalformedResult, tool.InDoubt, false},
	"JSON that is no answer":          {saying(200, "application/json", `{"secret":"`+canary+`"}`), tool.CodeMalformedResult, tool.InDoubt, false},
	"JSON that nests without end":     {saying(200, "application/json", strings.Repeat("[", 1<<20)), tool.CodeMalformedResult, tool.InDoubt, false},
	"accepted, and no answer":         {saying(202, "application/json", ""), tool.CodeMalformedResult, tool.InDoubt, false},
	"an error page":                   {saying(500, "text/plain", "goroutine 1 [running]: "+canary), tool.CodeUnavailable, tool.InDoubt, true},
	"a gateway's error page":          {saying(502, "text/html", "<html>"+canary), tool.CodeUnavailable, tool.InDoubt, true},
	"too many requests":               {saying(429, "text/plain", canary), tool.CodeUnavailable, tool.Refused, true},
	"a caller that is not known":      {saying(401, "text/plain", canary), tool.CodeUnauthorized, tool.Refused, false},
	"a caller that may not":           {saying(403, "application/json", `{"detail":"`+canary+`"}`), tool.CodeUnauthorized, tool.Refused, false},
	"a request that is found wanting": {saying(418, "application/json", `{"token":"`+canary+`"}`), "", tool.Refused, false},
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
	"a small answer that unpacks to a large one": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed())
	}, tool.CodeMalformedResult, tool.InDoubt, false},
}

// packed is more white space than may be read, in few bytes.
var packed = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(bytes.Repeat([]byte(" "), 2*tool.MaxBodyBytes))
	_ = w.Close()
	return b.Bytes()
})

// during lets the protocol go its way until a call comes, which h answers, or lets go on.
func during(p Peer, h func(w http.ResponseWriter, r *http.Request, next http.Handler)) http.Handler {
	return watching(p, func(w http.ResponseWriter, r *http.Request, next http.Handler, _ Seen) { h(w, r, next) })
}

func watching(p Peer, h func(w http.ResponseWriter, r *http.Request, next http.Handler, seen Seen)) http.Handler {
	protocol := p.Answer(nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if seen, isCall := p.Seen(r, body); isCall {
			h(w, r, protocol, seen)
			return
		}
		protocol.ServeHTTP(w, r)
	})
}

func exactly(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	calls := make(chan Seen, 1)
	server, _ := Open(t, newServer, watching(p, func(w http.ResponseWriter, r *http.Request, next http.Handler, seen Seen) {
		calls <- seen
		next.ServeHTTP(w, r)
	}))
	for _, arguments := range []string{`{"b":9007199254740993,"a":[1.50,-0,1e300,"é\u0001\u00e9","<&>\u2028"],"c":null,"":{"z":1,"y":2}}`, `{}`} {
		if _, err := server.Execute(t.Context(), Call(arguments)); err != nil {
			t.Errorf("with %s: %v", arguments, err)
		}
		if got, want := <-calls, (Seen{Tool: "lookup", OperationID: "op-1", Arguments: arguments}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func endless(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	var written atomic.Int64
	server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		chunk := bytes.Repeat([]byte(" "), 1<<16)
		for written.Load() < 200<<20 {
			n, err := w.Write(chunk)
			if err != nil {
				return
			}
			written.Add(int64(n))
		}
	}))
	_, err := server.Execute(t.Context(), Call(`{}`))
	WantError(t, err, tool.CodeMalformedResult, tool.InDoubt, false)
	// Beside what is read, the kernel takes some megabytes.
	if got := written.Load(); got > 64<<20 {
		t.Errorf("the server could send %d bytes", got)
	}
}

func stalled(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"`)
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	}))
	begin := time.Now()
	_, err := server.Execute(ctx, Call(`{}`))
	WantError(t, err, tool.CodeTimeout, tool.InDoubt, true)
	if took := time.Since(begin); took > soon {
		t.Errorf("it took %s", took)
	}
}

func redirected(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	var visits atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer elsewhere.Close()
	for status, outcome := range map[int]tool.Outcome{301: tool.InDoubt, 302: tool.InDoubt, 303: tool.InDoubt, 307: tool.Refused, 308: tool.Refused} {
		server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			http.Redirect(w, r, elsewhere.URL+"/"+canary, status)
		}))
		_, err := server.Execute(t.Context(), Call(`{}`))
		if e := WantError(t, err, tool.CodeUnavailable, outcome, false); strings.Contains(e.Message, canary) {
			t.Errorf("the error repeats what the server said: %v", err)
		}
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("the other host was asked %d times", n)
	}
}

func advised(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	const now = "Fri, 02 Jan 2026 00:00:00 GMT"
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "Fri, 02 Jan 2026 00:01:00 GMT": time.Minute, "Thu, 01 Jan 2026 00:00:00 GMT": 0, "-5": 0, "soon": 0, "": 0,
		"99999999999999999999": 7 * 24 * time.Hour, "Fri, 02 Jan 2099 00:00:00 GMT": 7 * 24 * time.Hour,
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.Header()["Date"], w.Header()["Retry-After"] = []string{now}, []string{value}
				w.WriteHeader(status)
			}))
			_, err := server.Execute(t.Context(), Call(`{}`))
			if e := WantError(t, err, tool.CodeUnavailable, "", true); e.RetryAfter != want {
				t.Errorf("%d with %q: wait %s, want %s", status, value, e.RetryAfter, want)
			}
		}
	}
}

func once(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	var calls atomic.Int64
	server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if calls.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	}))
	if _, err := server.Execute(t.Context(), Call(`{}`)); err != nil {
		t.Fatal(err)
	}
	_, err := server.Execute(t.Context(), Call(`{}`))
	WantError(t, err, tool.CodeUnavailable, tool.InDoubt, true)
	if n := calls.Load(); n != 2 {
		t.Errorf("two calls arrived as %d", n)
	}
}

func refusedBeside(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	// What the server says to the calls beside; each is a way for a client to lose its head.
	sayings := []http.HandlerFunc{
		saying(400, "text/plain", "no"), saying(401, "text/plain", "no"), saying(403, "text/plain", "no"), saying(422, "application/json", `{}`), saying(503, "", ""),
		saying(200, "application/json", "{"), saying(200, "text/html", "<html>"), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	waiting, release := make(chan struct{}), make(chan struct{})
	var next atomic.Int64
	server, _ := Open(t, newServer, watching(p, func(w http.ResponseWriter, r *http.Request, protocol http.Handler, seen Seen) {
		if seen.Arguments == `{"slow":true}` {
			close(waiting)
			<-release
			protocol.ServeHTTP(w, r)
			return
		}
		sayings[next.Add(1)-1](w, r)
	}))
	slow := make(chan error, 1)
	go func() { _, err := server.Execute(t.Context(), Call(`{"slow":true}`)); slow <- err }()
	<-waiting
	for range sayings {
		if _, err := server.Execute(t.Context(), Call(`{}`)); err == nil {
			t.Error("a call that was refused succeeded")
		}
	}
	close(release)
	if err := <-slow; err != nil {
		t.Errorf("the call under way: %v", err)
	}
}

func back(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	for name, fault := range faults {
		var calls atomic.Int64
		server, _ := Open(t, newServer, during(p, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if calls.Add(1) == 1 {
				fault.handler(w, r)
				return
			}
			next.ServeHTTP(w, r)
		}))
		if _, err := server.Execute(t.Context(), Call(`{}`)); err == nil {
			t.Errorf("%s: it succeeded", name)
		}
		if result, err := server.Execute(t.Context(), Call(`{}`)); err != nil || string(result.Data) != `{}` {
			t.Errorf("after %s: got %s, %v", name, result.Data, err)
		}
	}
}

func clean(t *testing.T, newServer tool.Factory, p Peer) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	var calls atomic.Int64
	peer := httptest.NewServer(during(p, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch calls.Add(1) % 3 {
		case 0:
			<-r.Context().Done()
		case 1:
			next.ServeHTTP(w, r)
		case 2:
			panic(http.ErrAbortHandler)
		}
	}))
	server, err := newServer(tool.Config{URL: peer.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, _ = server.Execute(ctx, Call(`{}`))
		cancel()
	}
	server.Close()
	peer.Close()
	goleak.VerifyNone(t, before)
}
