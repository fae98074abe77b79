// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httptool_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
	"github.com/interlock-dev/interlock/internal/tool/httptool"
	"github.com/interlock-dev/interlock/internal/tool/tooltest"
)

// aWriter is the adapter before a server that answers with a status and a body, and what that server is sent.
func aWriter(t *testing.T, status int, body string) (tool.Writer, <-chan *http.Request) {
	t.Helper()
	requests := make(chan *http.Request, 1)
	server, _ := tooltest.Open(t, httptool.New, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(sent)))
		requests <- r
		if status >= http.StatusBadRequest {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	writer, ok := server.(tool.Writer)
	if !ok {
		t.Fatal("it is no Writer")
	}
	return writer, requests
}

const aPreview = `{"operationId":"op-1","preview":{"summary":"Scale \u001b[1mweb\u202e to 5.","id":"pv-1","resourceVersion":"7","expiresAt":"2026-01-02T03:04:05Z","changes":"-2\n+5"}}`

func TestPreview_givesWhatPeopleSeeAndWhatIsHashed(t *testing.T) {
	server, requests := aWriter(t, http.StatusOK, aPreview)
	got, err := server.Preview(t.Context(), tooltest.Call(`{"n":5}`))
	if err != nil {
		t.Fatal(err)
	}
	want := run.ToolPreview{
		ID: "pv-1", ResourceVersion: "7", Summary: "Scale [1mweb to 5.", Changes: "-2\n+5", Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Canonical: []byte("{\"changes\":\"-2\\n+5\",\"expiresAt\":\"2026-01-02T03:04:05Z\",\"id\":\"pv-1\",\"resourceVersion\":\"7\"," +
			"\"summary\":\"Scale \\u001b[1mweb\u202e to 5.\"}"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	r := <-requests
	if body, _ := io.ReadAll(r.Body); !strings.HasSuffix(r.URL.Path, ":preview") || string(body) != `{"n":5}` || r.Header.Get("Idempotency-Key") != "op-1" {
		t.Errorf("sent %s %s %s", r.URL.Path, body, r.Header)
	}
}

func TestPreview_whatIsNoPreviewIsNotTaken(t *testing.T) {
	for name, test := range map[string]struct{ body, code string }{
		"another operation's":    {strings.Replace(aPreview, "op-1", "op-2", 1), tool.CodeMalformedResult},
		"no summary":             {`{"operationId":"op-1","preview":{"id":"p","resourceVersion":"7"}}`, tool.CodeMalformedResult},
		"a version in quotes":    {strings.Replace(aPreview, `"7"`, `"\"7\""`, 1), tool.CodeMalformedResult},
		"a name with a new line": {strings.Replace(aPreview, "pv-1", `pv\n1`, 1), tool.CodeMalformedResult},
		"a key that stands twice, so that people see one and sign the other": {
			strings.Replace(aPreview, `"id"`, `"summary":"Nothing.","id"`, 1), tool.CodeMalformedResult,
		},
		"more than people can be shown": {strings.Replace(aPreview, `"-2`, `"`+strings.Repeat("x", 8192), 1), tool.CodePreviewTooLarge},
		"far more than that":            {strings.Replace(aPreview, `"-2`, `"`+strings.Repeat("x", 1<<20), 1), tool.CodePreviewTooLarge},
		"5 MB":                          {strings.Replace(aPreview, `"-2`, `"`+strings.Repeat("x", 5<<20), 1), tool.CodeMalformedResult},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := aWriter(t, http.StatusOK, test.body)
			_, err := server.Preview(t.Context(), tooltest.Call(`{}`))
			outcome := tool.InDoubt
			if test.code == tool.CodePreviewTooLarge {
				outcome = tool.Refused
			}
			tooltest.WantError(t, err, test.code, outcome, false)
		})
	}
}

func TestExecute_commitsWhatWasPreviewed(t *testing.T) {
	server, requests := aWriter(t, http.StatusOK, `{"operationId":"op-1","data":1}`)
	call := tooltest.Call(`{}`)
	call.Preview = &run.Preview{ID: "pv-1", ResourceVersion: "7"}
	call.Credential = func() string { return "token-1" }
	if _, err := server.Execute(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	r := <-requests
	got := []string{r.Header.Get("If-Match"), r.Header.Get("Interlock-Preview"), r.Header.Get("Authorization")}
	if diff := cmp.Diff([]string{`"7"`, "pv-1", "Bearer token-1"}, got); diff != "" || !strings.HasSuffix(r.URL.Path, ":commit") {
		t.Errorf("%s (-want +got)\n%s", r.URL.Path, diff)
	}
}

// A token stays where it is used, whatever prints the call.
func TestCredential_isNotPrinted(t *testing.T) {
	call := tooltest.Call(`{}`)
	call.Credential = func() string { return "token-1" }
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if printed := fmt.Sprintf(verb, call); strings.Contains(printed, "token-1") {
			t.Errorf("%s prints it", verb)
		}
	}
}

func TestExecute_saysWhetherAPreviewStillHolds(t *testing.T) {
	for code, changed := range map[string]bool{"ResourceChanged": true, "PreviewExpired": true, "RefundExceedsPayment": false} {
		status := http.StatusConflict
		if changed {
			status = http.StatusPreconditionFailed
		}
		server, _ := aWriter(t, status, `{"code":"`+code+`","detail":"d","retryable":false}`)
		_, err := server.Execute(t.Context(), tooltest.Call(`{}`))
		if e := tooltest.WantError(t, err, code, tool.Refused, false); e.Changed != changed {
			t.Errorf("%s: changed %t", code, e.Changed)
		}
	}
}

// The same operation is on its way: that it was refused this time does not mean that it will not be done.
func TestExecute_anOperationUnderWayIsInDoubt(t *testing.T) {
	server, _ := aWriter(t, http.StatusConflict, `{"code":"OperationInProgress","detail":"d","retryable":true}`)
	_, err := server.Execute(t.Context(), tooltest.Call(`{}`))
	tooltest.WantError(t, err, tool.CodeOperationInProgress, tool.InDoubt, true)
}

func TestLookUp_saysWhatBecameOfAnOperation(t *testing.T) {
	for name, test := range map[string]struct {
		status    int
		body      string
		code      string
		outcome   tool.Outcome
		retryable bool
	}{
		"it is not known":           {404, `{"code":"UnknownOperation","detail":"d","retryable":false}`, "UnknownOperation", tool.Refused, false},
		"it is under way":           {200, `{"operationId":"op-1","state":"InProgress"}`, tool.CodeOperationInProgress, tool.InDoubt, true},
		"it failed":                 {200, `{"operationId":"op-1","state":"Failed","problem":{"code":"NoFunds","detail":"d"}}`, "NoFunds", tool.Refused, false},
		"it failed without a word":  {200, `{"operationId":"op-1","state":"Failed"}`, tool.CodeMalformedResult, tool.InDoubt, false},
		"it succeeded with nothing": {200, `{"operationId":"op-1","state":"Succeeded"}`, tool.CodeMalformedResult, tool.InDoubt, false},
		"another's":                 {200, `{"operationId":"op-2","state":"Failed","problem":{"code":"NoFunds"}}`, tool.CodeMalformedResult, tool.InDoubt, false},
		"another's result": {
			200, `{"operationId":"op-1","state":"Succeeded","result":{"operationId":"op-2","data":1}}`, tool.CodeMalformedResult, tool.InDoubt, false,
		},
		// A server that can't be asked has not said that nothing was done.
		"nobody serves that path": {404, `{"code":"UnknownPath","detail":"d","retryable":false}`, "UnknownPath", tool.InDoubt, true},
		"a gateway's 404":         {404, `not found`, tool.CodeUnknownTool, tool.InDoubt, true},
		"we may not ask":          {403, ``, tool.CodeUnauthorized, tool.InDoubt, true},
		"it is down":              {503, ``, tool.CodeUnavailable, tool.InDoubt, true},
	} {
		t.Run(name, func(t *testing.T) {
			server, requests := aWriter(t, test.status, test.body)
			_, err := server.LookUp(t.Context(), tooltest.Call(`{}`))
			tooltest.WantError(t, err, test.code, test.outcome, test.retryable)
			if r := <-requests; r.Method != http.MethodGet || r.URL.Path != "/v1/operations/op-1" {
				t.Errorf("asked %s %s", r.Method, r.URL.Path)
			}
		})
	}
	server, _ := aWriter(t, http.StatusOK, `{"operationId":"op-1","state":"Succeeded","result":{"operationId":"op-1","data":{"done":true}}}`)
	if result, err := server.LookUp(t.Context(), tooltest.Call(`{}`)); err != nil || string(result.Data) != `{"done":true}` {
		t.Errorf("got %s, %v", result.Data, err)
	}
}

func TestLookUp_aServerThatIsNotThereHasSaidNothing(t *testing.T) {
	server, peer := tooltest.Open(t, httptool.New, http.NotFoundHandler())
	peer.Close()
	_, err := server.(tool.Writer).LookUp(t.Context(), tooltest.Call(`{}`))
	tooltest.WantError(t, err, tool.CodeUnavailable, tool.InDoubt, true)
}
