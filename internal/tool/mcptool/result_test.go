// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
	"github.com/interlock-dev/interlock/internal/tool/mcptool"
	"github.com/interlock-dev/interlock/internal/tool/tooltest"
)

func TestExecute_readsEveryKindOfContent(t *testing.T) {
	for name, test := range map[string]struct{ result, want string }{
		"texts":                           {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b\"<"}]}`, `"a\nb\"\u003c"`},
		"structured beside its text":      {`{"content":[{"type":"text","text":"{}"}],"structuredContent":{"n":1.50}}`, `{"n":1.50}`},
		"structured null":                 {`{"content":[{"type":"text","text":"a"}],"structuredContent":null}`, `"a"`},
		"a structured value":              {`{"content":[],"structuredContent":[1,"x"]}`, `[1,"x"]`},
		"nothing":                         {`{"content":[]}`, `""`},
		"an image":                        {`{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}`, `"[image image/png, 53 bytes, not shown]"`},
		"a kind that we do not know":      {`{"content":[{"type":"<script>","x":1}]}`, `"[content , 25 bytes, not shown]"`},
		"said to be complete":             {`{"resultType":"complete","content":[],"structuredContent":1}`, `1`},
		"several kinds":                   {`{"content":[{"type":"text","text":"a"},{"type":"audio","data":"AA","mimeType":"audio/wav\u001b"},{"type":"text","text":"b"}]}`, `"a\n[audio audio/wav, 57 bytes, not shown]\nb"`},
		"a link":                          {`{"content":[{"type":"resource_link","uri":"file:///etc/passwd","name":"n"}]}`, `"[content , 62 bytes, not shown]"`},
		"a resource":                      {`{"content":[{"type":"resource","resource":{"uri":"a:b","text":"hidden"}}]}`, `"[resource , 60 bytes, not shown]"`},
		"content that is null":            {`{"content":null}`, `""`},
		"no content field":                {`{}`, `""`},
		"false":                           {`{"content":[],"structuredContent":false}`, `false`},
		"a number beyond floats":          {`{"content":[],"structuredContent":{"n":1e400}}`, `{"n":1e400}`},
		"a number that floats would lose": {`{"content":[],"structuredContent":9007199254740993}`, `9007199254740993`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := answered(t, test.result); err != nil || got != test.want {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestExecute_aResultOfAnotherKindIsNoSuccess(t *testing.T) {
	for _, kind := range []string{"task", "input_required", "something_new"} {
		_, err := answered(t, `{"resultType":"`+kind+`","taskId":"1","content":[]}`)
		tooltest.WantError(t, err, "UnsupportedResult", tool.InDoubt, false)
	}
}

func TestExecute_aResultThatIsNoneIsMalformed(t *testing.T) {
	for _, result := range []string{`null`, `1`, `[]`, `{"content":1}`, `{"content":[],"isError":"no"}`, `{"content":[],"resultType":1}`} {
		_, err := answered(t, result)
		tooltest.WantError(t, err, tool.CodeMalformedResult, tool.InDoubt, false)
	}
}

func TestExecute_anErrorOfTheToolSaysWhatItCan(t *testing.T) {
	for name, test := range map[string]struct {
		result, code, message string
		retryable             bool
	}{
		"structured":              {`{"isError":true,"content":[],"structuredContent":{"code":"Busy","message":"later","retryable":true}}`, "Busy", "later", true},
		"JSON in a text":          {`{"isError":true,"content":[{"type":"text","text":"{\"code\":\"Busy\",\"message\":\"later\",\"retryable\":true}"}]}`, "Busy", "later", true},
		"both, and only one code": {`{"isError":true,"content":[{"type":"text","text":"{\"code\":\"Busy\",\"message\":\"later\"}"}],"structuredContent":{"x":1}}`, "Busy", "later", false},
		"words":                   {`{"isError":true,"content":[{"type":"text","text":"no \u202eluck\u001b[0m"}]}`, tool.CodeToolError, "no luck[0m", false},
		"a picture":               {`{"isError":true,"content":[{"type":"image","data":"A","mimeType":"image/png"}]}`, tool.CodeToolError, "[image image/png, 50 bytes, not shown]", false},
		"nothing":                 {`{"isError":true,"content":[]}`, tool.CodeToolError, "The tool failed and did not say why.", false},
		"nothing that is visible": {`{"isError":true,"content":[{"type":"text","text":"\u200b"}]}`, tool.CodeToolError, "The tool failed and did not say why.", false},
		"a code that is none":     {`{"isError":true,"content":[],"structuredContent":{"code":"<b>","message":"m"}}`, tool.CodeToolError, "m", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := answered(t, test.result)
			if e := tooltest.WantError(t, err, test.code, tool.Refused, test.retryable); e.Message != test.message {
				t.Errorf("got %q, want %q", e.Message, test.message)
			}
		})
	}
}

func TestExecute_whatTheServerSaysOfItsDataIsKeptWithinBounds(t *testing.T) {
	sources := strings.Repeat(`{"id":"s","title":"T\u202e","url":"u"},`, 100) + `{"title":"none"}`
	server, _ := tooltest.Open(t, mcptool.New, instead(peer{stateless: true}, "tools/call", says(200, "application/json",
		`{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":1,"_meta":{"interlock.dev/observedAt":"2026-01-02T03:04:05Z",`+
			`"interlock.dev/sourceVersion":"`+strings.Repeat("v", 1000)+`","interlock.dev/sources":[`+sources+`]}}}`)))
	got, err := server.Execute(t.Context(), tooltest.Call(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if !got.ObservedAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || len(got.SourceVersion) != 256 || len(got.Sources) != run.MaxSources || got.Sources[0].Title != "T" {
		t.Errorf("got %s, %d bytes of version, %d sources", got.ObservedAt, len(got.SourceVersion), len(got.Sources))
	}
}

// TestExecute_readsStreams: a stream of events holds the answer among other things, and may not end.
func TestExecute_readsStreams(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":9007199254740993}}`
	for name, test := range map[string]struct {
		stream string
		want   string
		code   string
	}{
		"an answer":                         {"data: " + answer + "\n\n", "9007199254740993", ""},
		"an event with a name":              {"event: message\r\nid: 7\r\ndata: " + answer + "\r\n\r\n", "9007199254740993", ""},
		"an answer over several lines":      {"data: " + strings.Replace(answer, ",", ",\ndata: ", 1) + "\n\n", "9007199254740993", ""},
		"an answer after notifications":     {": ping\n\n" + `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}` + "\n\ndata: " + answer + "\n\n", "9007199254740993", ""},
		"an answer after that to another":   {`data: {"jsonrpc":"2.0","id":99999,"result":{"content":[],"structuredContent":"stolen"}}` + "\n\ndata: " + answer + "\n\n", "9007199254740993", ""},
		"an answer after a question to us":  {`data: {"jsonrpc":"2.0","id":$ID,"method":"roots/list"}` + "\n\ndata: " + answer + "\n\n", "9007199254740993", ""},
		"an error":                          {`data: {"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no"}}` + "\n\n", "", "InvalidParams"},
		"no answer":                         {": ping\n\n", "", tool.CodeMalformedResult},
		"no answer, and an event to resume": {"id: 1\ndata:\n\n", "", tool.CodeMalformedResult},
		"only that to another":              {`data: {"jsonrpc":"2.0","id":99999,"result":{"content":[]}}` + "\n\n", "", tool.CodeMalformedResult},
		"words":                             {"data: hello\n\n", "", tool.CodeMalformedResult},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range []peer{{stateless: true}, {}} {
				server, _ := tooltest.Open(t, mcptool.New, instead(p, "tools/call", says(200, "text/event-stream", test.stream)))
				got, err := server.Execute(t.Context(), tooltest.Call(`{}`))
				if test.code == "" && (err != nil || string(got.Data) != test.want) {
					t.Errorf("%+v: got %s, %v", p, got.Data, err)
				} else if test.code != "" {
					tooltest.WantError(t, err, test.code, "", false)
				}
			}
		})
	}
}

func TestExecute_doesNotWaitForAStreamToEnd(t *testing.T) {
	gone := make(chan struct{})
	server, _ := tooltest.Open(t, mcptool.New, instead(peer{stateless: true}, "tools/call", func(w http.ResponseWriter, r *http.Request, id string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", id)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	if _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Error("the connection is kept for a stream that nobody reads")
	}
}

func TestExecute_aStreamWithoutEndIsNotReadToItsEnd(t *testing.T) {
	for name, piece := range map[string]string{"comments": ": ping\n\n", "one event": "data: xxxxxxxxxxxx\n", "one line": "xxxxxxxx"} {
		server, _ := tooltest.Open(t, mcptool.New, instead(peer{stateless: true}, "tools/call", func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			chunk := strings.Repeat(piece, 8192)
			for {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := server.Execute(ctx, tooltest.Call(`{}`))
		cancel()
		if e := tooltest.WantError(t, err, tool.CodeMalformedResult, tool.InDoubt, false); e.Message != "The answer is too long." {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestExecute_sortsErrorsOfTheProtocol(t *testing.T) {
	for name, test := range map[string]struct {
		status    int
		error     string
		code      string
		outcome   tool.Outcome
		retryable bool
		message   string
	}{
		"parameters":                {200, `{"code":-32602,"message":"bad \u202ename"}`, "InvalidParams", tool.Refused, false, "bad name"},
		"parameters, with a status": {400, `{"code":-32602,"message":"m"}`, "InvalidParams", tool.Refused, false, "m"},
		"parameters, without words": {200, `{"code":-32602,"message":""}`, "InvalidParams", tool.Refused, false, "The MCP server answered with error -32602."},
		"method":                    {200, `{"code":-32601,"message":"canary"}`, tool.CodeUnknownTool, tool.Refused, false, "The MCP server has no tools."},
		"method, with a status":     {404, `{"code":-32601,"message":"canary"}`, tool.CodeUnknownTool, tool.Refused, false, "The MCP server has no tools."},
		"headers":                   {400, `{"code":-32020,"message":"canary"}`, tool.CodeToolError, tool.Refused, false, "The MCP server answered with error -32020."},
		"inside":                    {200, `{"code":-32603,"message":"canary: panic"}`, tool.CodeToolError, tool.InDoubt, false, "The MCP server answered with error -32603."},
		"what the SDK says itself":  {200, `{"code":-32005,"message":"canary"}`, tool.CodeToolError, tool.InDoubt, false, "The MCP server answered with error -32005."},
		"a status that says more":   {503, `{"code":-32602,"message":"canary"}`, tool.CodeUnavailable, tool.InDoubt, true, "The MCP server answered with status 503."},
		"somebody else":             {401, `{"code":-32602,"message":"canary"}`, tool.CodeUnauthorized, tool.Refused, false, "The MCP server answered with status 401."},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := tooltest.Open(t, mcptool.New, instead(peer{stateless: true}, "tools/call", says(test.status, "application/json", `{"jsonrpc":"2.0","id":$ID,"error":`+test.error+`}`)))
			_, err := server.Execute(t.Context(), tooltest.Call(`{}`))
			if e := tooltest.WantError(t, err, test.code, test.outcome, test.retryable); e.Message != test.message {
				t.Errorf("got %q", e.Message)
			}
		})
	}
}
