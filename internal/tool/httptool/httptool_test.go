// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httptool_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
	"github.com/interlock-dev/interlock/internal/tool/httptool"
	"github.com/interlock-dev/interlock/internal/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer speaks the HTTP tool protocol as toolservers/openapi.yaml has it.
type peer struct{}

func (peer) Answer(data json.RawMessage) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		data := data
		if data == nil {
			data, _ = io.ReadAll(r.Body)
		}
		_, _ = io.WriteString(w, `{"operationId":"`+r.Header.Get("Idempotency-Key")+`","data":`+string(data)+`}`)
	})
}

func (peer) Fail(code, message string, retryable bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(map[string]any{"title": "x", "detail": message, "code": code, "retryable": retryable})
	})
}

func (peer) Seen(r *http.Request, body []byte) (tooltest.Seen, bool) {
	name, ok := strings.CutPrefix(r.URL.Path, "/v1/tools/")
	return tooltest.Seen{
		Tool: strings.TrimSuffix(name, ":invoke"), OperationID: r.Header.Get("Idempotency-Key"), Arguments: string(body),
	}, ok
}

func TestContract(t *testing.T) { tooltest.Run(t, httptool.New, peer{}) }

func TestExecute_sendsWhatTheProtocolAsksFor(t *testing.T) {
	requests := make(chan *http.Request, 1)
	server, _ := tooltest.Open(t, httptool.New, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		peer{}.Answer(json.RawMessage(`1`)).ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
	defer cancel()
	call := tooltest.Call(`{}`)
	call.Tool = "odd/name ?#"
	if _, err := server.Execute(ctx, call); err != nil {
		t.Fatal(err)
	}
	r := <-requests
	if r.Method != http.MethodPost || r.URL.Path != "/v1/tools/odd/name ?#:invoke" || r.URL.EscapedPath() != "/v1/tools/odd%2Fname%20%3F%23:invoke" {
		t.Errorf("got %s %s", r.Method, r.URL.EscapedPath())
	}
	deadline, err := time.Parse(time.RFC3339Nano, r.Header.Get("Interlock-Deadline"))
	want, _ := ctx.Deadline()
	if err != nil || !deadline.Equal(want.Truncate(0)) {
		t.Errorf("the deadline is %q, want %s", r.Header.Get("Interlock-Deadline"), want)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("the content type is %q", got)
	}
}

func TestExecute_anAnswerForAnotherOperationIsNotTaken(t *testing.T) {
	server, _ := tooltest.Open(t, httptool.New, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"operationId":"op-2","data":"somebody else's"}`)
	}))
	_, err := server.Execute(t.Context(), tooltest.Call(`{}`))
	tooltest.WantError(t, err, tool.CodeMalformedResult, tool.InDoubt, false)
}

func TestExecute_keepsWhereTheDataIsFromWithinBounds(t *testing.T) {
	sources := []map[string]string{{"id": "a:1", "title": "A\u202e\x1b", "url": "https://example.com"}, {"title": "can't be cited"}, {"id": strings.Repeat("x", 1000)}}
	for range 100 {
		sources = append(sources, map[string]string{"id": "more"})
	}
	server, _ := tooltest.Open(t, httptool.New, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"operationId": "op-1", "data": 1, "observedAt": "2026-01-02T03:04:05Z", "sourceVersion": strings.Repeat("v", 1000), "sources": sources,
		})
	}))
	result, err := server.Execute(t.Context(), tooltest.Call(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if !result.ObservedAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || len(result.SourceVersion) != 256 || len(result.Sources) != run.MaxSources {
		t.Errorf("got %s, %d bytes of version, %d sources", result.ObservedAt, len(result.SourceVersion), len(result.Sources))
	}
	want := []run.Source{{ID: "a:1", Title: "A", URL: "https://example.com"}, {ID: strings.Repeat("x", 256)}}
	if diff := cmp.Diff(want, result.Sources[:2]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestExecute_sortsWhatAServerSaysInStatusAndProblem(t *testing.T) {
	for name, test := range map[string]struct {
		status         int
		kind, body     string
		code, message  string
		outcome        tool.Outcome
		retryable      bool
		header         http.Header
		wantRetryAfter time.Duration
	}{
		"a problem without a word on retrying":  {422, "application/problem+json", `{"code":"Bad","detail":"d"}`, "Bad", "d", tool.Refused, false, nil, 0},
		"a passing problem":                     {503, "application/problem+json", `{"code":"Busy","detail":"d"}`, "Busy", "d", tool.InDoubt, true, nil, 0},
		"a server error that will not pass":     {500, "application/problem+json", `{"code":"Bug","detail":"d","retryable":false}`, "Bug", "d", tool.InDoubt, false, nil, 0},
		"a problem of another type":             {422, "application/json", `{"code":"Bad","detail":"secret"}`, tool.CodeToolError, "The tool server answered with status 422.", tool.Refused, false, nil, 0},
		"a problem that is none":                {422, "application/problem+json", `[`, tool.CodeToolError, "The tool server answered with status 422.", tool.Refused, false, nil, 0},
		"an unknown tool":                       {404, "", "", tool.CodeUnknownTool, "The tool server answered with status 404.", tool.Refused, false, nil, 0},
		"somebody else":                         {403, "", "", tool.CodeUnauthorized, "The tool server answered with status 403.", tool.Refused, false, nil, 0},
		"a pause in seconds":                    {429, "", "", tool.CodeUnavailable, "The tool server answered with status 429.", tool.Refused, true, http.Header{"Retry-After": {"90"}}, 90 * time.Second},
		"a problem in capitals":                 {422, "Application/Problem+JSON; charset=UTF-8", `{"code":"Bad","detail":"d","retryable":true}`, "Bad", "d", tool.Refused, true, nil, 0},
		"a problem with another's code":         {422, "application/problem+json", `{"code":"no such code","detail":"d"}`, tool.CodeToolError, "d", tool.Refused, false, nil, 0},
		"a problem without a word":              {422, "application/problem+json", `{"code":"Bad","detail":"\u202e\u0000"}`, "Bad", "The tool server answered with status 422.", tool.Refused, false, nil, 0},
		"a problem that is retryable, perhaps":  {422, "application/problem+json", `{"code":"Bad","detail":"d","retryable":"yes"}`, tool.CodeToolError, "The tool server answered with status 422.", tool.Refused, false, nil, 0},
		"a problem that is null":                {422, "application/problem+json", `null`, tool.CodeToolError, "The tool server answered with status 422.", tool.Refused, false, nil, 0},
		"a redirect to nowhere":                 {307, "", "", tool.CodeMalformedResult, "The tool server answered with status 307.", tool.InDoubt, false, nil, 0},
		"a pause until a date":                  {503, "", "", tool.CodeUnavailable, "The tool server answered with status 503.", tool.InDoubt, true, http.Header{"Retry-After": {"Fri, 02 Jan 2026 00:01:00 GMT"}, "Date": {"Fri, 02 Jan 2026 00:00:00 GMT"}}, time.Minute},
		"a pause that is over":                  {503, "", "", tool.CodeUnavailable, "The tool server answered with status 503.", tool.InDoubt, true, http.Header{"Retry-After": {"Thu, 01 Jan 2026 00:00:00 GMT"}, "Date": {"Fri, 02 Jan 2026 00:00:00 GMT"}}, 0},
		"a pause that is no time":               {503, "", "", tool.CodeUnavailable, "The tool server answered with status 503.", tool.InDoubt, true, http.Header{"Retry-After": {"-5"}}, 0},
		"success without the body of a success": {204, "", "", tool.CodeMalformedResult, "The tool server answered with status 204.", tool.InDoubt, false, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := tooltest.Open(t, httptool.New, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), test.header)
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(test.status)
				if test.body != "" {
					_, _ = io.WriteString(w, test.body)
				}
			}))
			_, err := server.Execute(t.Context(), tooltest.Call(`{}`))
			e := tooltest.WantError(t, err, test.code, test.outcome, test.retryable)
			if e.Message != test.message || e.RetryAfter != test.wantRetryAfter {
				t.Errorf("got %q after %s, want %q after %s", e.Message, e.RetryAfter, test.message, test.wantRetryAfter)
			}
		})
	}
}

func TestExecute_sendsTheBytesItIsGiven(t *testing.T) {
	bodies := make(chan string, 1)
	server, _ := tooltest.Open(t, httptool.New, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		_, _ = io.WriteString(w, `{"operationId":"op-1","data":1}`)
	}))
	const arguments = "{ \"b\" : 1e400,\n\t\"a\":9007199254740993 , \"a\":1 }\n"
	if _, err := server.Execute(t.Context(), tooltest.Call(arguments)); err != nil {
		t.Fatal(err)
	}
	if got := <-bodies; got != arguments {
		t.Errorf("got %q", got)
	}
}

func TestExecute_aToolsNameIsOneSegmentOfThePath(t *testing.T) {
	paths := make(chan string, 1)
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.RequestURI
		peer{}.Answer(json.RawMessage(`1`)).ServeHTTP(w, r)
	}))
	defer peer.Close()
	server, err := httptool.New(tool.Config{URL: peer.URL + "/base/?k=v#f"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, want := range map[string]string{
		"..": "..", "../../admin": "..%2F..%2Fadmin", "%2e%2e%2f": "%252e%252e%252f", "a?b=c": "a%3Fb=c", "é": "%C3%A9", "a\r\nHost: x": "a%0D%0AHost:%20x", `a\b`: "a%5Cb",
	} {
		call := tooltest.Call(`{}`)
		call.Tool = name
		if _, err := server.Execute(t.Context(), call); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if got := <-paths; got != "/base/v1/tools/"+want+":invoke?k=v" {
			t.Errorf("%q is asked for as %s", name, got)
		}
	}
}

func TestExecute_whatCanNotBeSentIsNotInDoubt(t *testing.T) {
	server, _ := tooltest.Open(t, httptool.New, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	call := tooltest.Call(`{}`)
	call.OperationID = "a\r\nb: c"
	_, err := server.Execute(t.Context(), call)
	tooltest.WantError(t, err, tool.CodeUnavailable, tool.NotSent, true)
}

func TestExecute_dataIsMadeValidText(t *testing.T) {
	server, _ := tooltest.Open(t, httptool.New, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"operationId":"op-1","data":"a`+"\xff"+`b"}`)
	}))
	if result, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil || string(result.Data) != "\"a\ufffdb\"" {
		t.Errorf("got %q, %v", result.Data, err)
	}
}

func TestNew_trustsTheBundleItIsGiven(t *testing.T) {
	peer := httptest.NewUnstartedServer(peer{}.Answer(json.RawMessage(`1`)))
	peer.Config.ErrorLog = log.New(io.Discard, "", 0)
	peer.StartTLS()
	defer peer.Close()
	for name, test := range map[string]struct {
		bundle []byte
		want   string
	}{
		"the right one":           {bundle(t, peer.Certificate().Raw), ""},
		"somebody else's":         {bundle(t, selfSigned(t)), "The tool server's certificate is not trusted."},
		"the system's":            {nil, "The tool server's certificate is not trusted."},
		"the right one among two": {append(bundle(t, selfSigned(t)), bundle(t, peer.Certificate().Raw)...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := httptool.New(tool.Config{URL: peer.URL, CABundle: test.bundle})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			_, err = server.Execute(t.Context(), tooltest.Call(`{}`))
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if e := tooltest.WantError(t, err, tool.CodeUnavailable, tool.NotSent, true); e.Message != test.want {
				t.Errorf("got %q", e.Message)
			}
		})
	}
}

func TestExecute_aHandshakeThatFailsHasNotSentTheCall(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	defer plain.Close()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for address, code := range map[string]string{plain.Listener.Addr().String(): tool.CodeUnavailable, silent.Addr().String(): tool.CodeTimeout} {
		server, err := httptool.New(tool.Config{URL: "https://" + address})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err = server.Execute(ctx, tooltest.Call(`{}`))
		cancel()
		tooltest.WantError(t, err, code, tool.NotSent, true)
		server.Close()
	}
}

func bundle(t *testing.T, certificate []byte) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

func selfSigned(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestNew_refusesWhatCanNeverWork(t *testing.T) {
	for name, c := range map[string]tool.Config{
		"no address":         {URL: "catalog"},
		"another scheme":     {URL: "ftp://example.com"},
		"an empty bundle":    {URL: "https://example.com", CABundle: []byte("-----BEGIN NOTHING-----")},
		"a control sequence": {URL: "https://exa\x7fmple.com"},
	} {
		if _, err := httptool.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
