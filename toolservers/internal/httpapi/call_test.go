// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/toolservers/internal/httpapi/httpapitest"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

const echoPath = "/v1/tools/echo:invoke"

// headers gives those of a proper call, changed: a name and a value each, and no value takes the header away.
func headers(changes ...string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Idempotency-Key", "op-1")
	for i := 0; i < len(changes); i += 2 {
		h.Del(changes[i])
		if changes[i+1] != "" {
			h.Set(changes[i], changes[i+1])
		}
	}
	return h
}

func TestInvoke_answers(t *testing.T) {
	c := openCounter(t, echo, nil)
	future := time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)
	for name, header := range map[string]http.Header{
		"with what it needs": headers(),
		"with all there is":  headers("Interlock-Deadline", future, "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Authorization", "Bearer t"),
		"with a charset":     headers("Content-Type", "application/json; charset=utf-8"),
	} {
		t.Run(name, func(t *testing.T) {
			r := c.Send(t, http.MethodPost, echoPath, `{"word":"<a&b>"}`, header)
			if r.Status != http.StatusOK || r.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("%d %v: %s", r.Status, r.Header, r.Body)
			}
			var got invocation
			if err := json.Unmarshal(r.Body, &got); err != nil {
				t.Fatal(err)
			}
			if age := time.Since(got.ObservedAt); age < 0 || age > time.Minute {
				t.Errorf("observed at %s", got.ObservedAt)
			}
			got.ObservedAt = time.Time{}
			want := invocation{"op-1", tool.Result{
				SourceVersion: "words@1",
				Data:          json.RawMessage(`{"word":"<a&b>"}`),
				Sources:       []tool.Source{{ID: "s", Title: "S", URL: "https://example.com/s"}},
			}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvoke_refuses(t *testing.T) {
	past := time.Now().Add(-time.Second).UTC().Format(time.RFC3339)
	post, get := http.MethodPost, http.MethodGet
	tests := map[string]struct {
		method, path, body string
		header             http.Header
		want               int
		code               tool.Code
	}{
		"no key":                  {post, echoPath, `{}`, headers("Idempotency-Key", ""), 400, codeMissingIdempotencyKey},
		"a key with a space":      {post, echoPath, `{}`, headers("Idempotency-Key", "a b"), 400, tool.MalformedRequest},
		"a key too long":          {post, echoPath, `{}`, headers("Idempotency-Key", strings.Repeat("k", 129)), 400, tool.MalformedRequest},
		"no JSON":                 {post, echoPath, `{"word":`, headers(), 400, tool.MalformedRequest},
		"a key twice in the JSON": {post, echoPath, `{"word":"a","word":"b"}`, headers(), 400, tool.MalformedRequest},
		"nothing":                 {post, echoPath, ``, headers(), 400, tool.MalformedRequest},
		"a deadline in words":     {post, echoPath, `{}`, headers("Interlock-Deadline", "soon"), 400, tool.MalformedRequest},
		"a deadline elsewhere":    {post, echoPath, `{}`, headers("Interlock-Deadline", "2999-01-01T00:00:00+02:00"), 400, tool.MalformedRequest},
		"a deadline that passed":  {post, echoPath, `{}`, headers("Interlock-Deadline", past), 504, tool.DeadlineExceeded},
		"another tool":            {post, "/v1/tools/shout:invoke", `{}`, headers(), 404, tool.UnknownTool},
		"a hostile tool":          {post, "/v1/tools/..%2f%00:invoke", `{}`, headers(), 404, tool.UnknownTool},
		"a preview":               {post, "/v1/tools/echo:preview", `{}`, headers(), 404, codeUnknownPath},
		"no verb":                 {post, "/v1/tools/echo", `{}`, headers(), 404, codeUnknownPath},
		"another path":            {get, "/v1/operations/op-1", ``, headers(), 404, codeUnknownPath},
		"another method":          {get, echoPath, ``, headers(), 405, codeMethodNotAllowed},
		"another method, health":  {post, "/healthz", ``, headers(), 405, codeMethodNotAllowed},
		"too many bytes":          {post, echoPath, `{"word":"` + strings.Repeat("a", tool.MaxArgumentBytes) + `"}`, headers(), 413, codePayloadTooLarge},
		"no content type":         {post, echoPath, `{}`, headers("Content-Type", ""), 415, codeUnsupportedMediaType},
		"another content type":    {post, echoPath, `{}`, headers("Content-Type", "text/plain"), 415, codeUnsupportedMediaType},
		"a list":                  {post, echoPath, `[]`, headers(), 422, tool.InvalidArguments},
		"an argument too many":    {post, echoPath, `{"more":1}`, headers(), 422, tool.InvalidArguments},
	}
	c := openCounter(t, echo, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := c.Send(t, tt.method, tt.path, tt.body, tt.header)
			checkProblem(t, got, tt.want, tt.code)
		})
	}
}

// checkProblem fails the test unless the reply is a problem with that status and code.
func checkProblem(t *testing.T, r httpapitest.Reply, status int, code tool.Code) {
	t.Helper()
	var got problem
	if err := json.Unmarshal(r.Body, &got); err != nil {
		t.Fatalf("%d: %s", r.Status, r.Body)
	}
	want := problem{"urn:interlock:problem:" + string(code), got.Title, status, got.Detail, code, code.Retryable()}
	if diff := cmp.Diff(want, got); diff != "" || got.Title == "" || got.Detail == "" {
		t.Errorf("(-want +got):\n%s%s", diff, r.Body)
	}
	if r.Status != status || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", r.Status, r.Header)
	}
}

func TestInvoke_takesABodyOfJustTheLimit(t *testing.T) {
	c := openCounter(t, echo, nil)
	frame := `{"word":""}`
	body := `{"word":"` + strings.Repeat("a", tool.MaxArgumentBytes-len(frame)) + `"}`
	if got := c.Send(t, http.MethodPost, echoPath, body, headers()); got.Status != http.StatusOK {
		t.Errorf("%d: %.200s", got.Status, got.Body)
	}
}

func TestInvoke_refusesTwoKeys(t *testing.T) {
	c := openCounter(t, echo, nil)
	h := headers()
	h.Add("Idempotency-Key", "op-2")
	got := c.Send(t, http.MethodPost, echoPath, `{}`, h)
	checkProblem(t, got, 400, tool.MalformedRequest)
}

func TestInvoke_stopsAtTheDeadline(t *testing.T) {
	stopped := make(chan struct{})
	c := openCounter(t, func(ctx context.Context, _ tool.Operation) (tool.Answer, error) {
		<-ctx.Done()
		close(stopped)
		return tool.Answer{}, ctx.Err()
	}, nil)
	start := time.Now()
	deadline := start.Add(100 * time.Millisecond).UTC().Format(time.RFC3339Nano)
	got := c.Send(t, http.MethodPost, echoPath, `{}`, headers("Interlock-Deadline", deadline))
	checkProblem(t, got, 504, tool.DeadlineExceeded)
	<-stopped
	// The server's own bound is ten seconds.
	if took := time.Since(start); took < 100*time.Millisecond || took > 5*time.Second {
		t.Errorf("it stopped after %s", took)
	}
}

func TestInvoke_tellsNothingOfABug(t *testing.T) {
	for name, run := range map[string]func(context.Context, tool.Operation) (tool.Answer, error){
		"an error": func(context.Context, tool.Operation) (tool.Answer, error) {
			return tool.Answer{}, errors.New("secret.go:1: secret")
		},
		"a panic": func(context.Context, tool.Operation) (tool.Answer, error) { panic("secret") },
	} {
		t.Run(name, func(t *testing.T) {
			c := openCounter(t, run, nil)
			got := c.Send(t, http.MethodPost, echoPath, `{}`, headers())
			checkProblem(t, got, 500, tool.Internal)
			if strings.Contains(string(got.Body), "secret") || strings.Contains(string(got.Body), ".go") {
				t.Errorf("the answer tells of our inside: %s", got.Body)
			}
		})
	}
}

func TestInvoke_saysWhenToComeBack(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	c := openCounter(t, func(context.Context, tool.Operation) (tool.Answer, error) {
		started <- struct{}{}
		<-release
		return tool.Answer{Data: struct{}{}, Sources: []tool.Source{}}, nil
	}, nil)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(release)
	for range tool.MaxRunning {
		calls.Go(func() { c.Send(t, http.MethodPost, echoPath, `{}`, headers()) })
	}
	for range tool.MaxRunning {
		<-started
	}
	got := c.Send(t, http.MethodPost, echoPath, `{}`, headers())
	checkProblem(t, got, 503, tool.Overloaded)
	if after := got.Header.Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After: %q", after)
	}
}
