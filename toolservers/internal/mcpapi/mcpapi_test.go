// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const (
	input = `{"type":"object","additionalProperties":false,"required":["word"],"properties":{"word":{"type":"string"}}}`
	// Every answer of echo fits it, and no failure does.
	output = `{"type":"object","additionalProperties":false,"required":["heard"],"properties":{"heard":{"type":"string"}}}`
)

// open serves "echo", and gives its address; its other tool, "carve", writes. The words "missing" and "broken" are told as failures.
func open(t *testing.T) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	runner, err := tool.NewRunner("words@1", func() time.Time { return noon }, log, tool.Tool{
		Name: "echo", Title: "Echo", Description: "Say it again.",
		InputSchema: json.RawMessage(input), OutputSchema: json.RawMessage(output),
		Call: func(_ context.Context, op tool.Operation) (tool.Answer, error) {
			switch {
			case strings.Contains(string(op.Arguments), "missing"):
				return tool.Answer{}, tool.Errorf(tool.NotFound, "there is no such word")
			case strings.Contains(string(op.Arguments), "broken"):
				return tool.Answer{}, errors.New("secret")
			}
			return tool.Answer{Data: map[string]string{"heard": string(op.Arguments)}, Sources: []tool.Source{{ID: "s", Title: "S", URL: "https://example.com/s"}}}, nil
		},
	}, tool.Tool{
		Name: "carve", InputSchema: json.RawMessage(input), OutputSchema: json.RawMessage(output),
		Write: func(context.Context, tool.Operation) (*tool.Result, error) { panic("it is not to be written") },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(New("parrot", "1", runner, log))
	t.Cleanup(server.Close)
	return server.URL
}

func connect(t *testing.T, url string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func TestTools_areDescribed(t *testing.T) {
	session := connect(t, open(t))
	if got := session.InitializeResult().ServerInfo; got.Name != "parrot" || got.Version != "1" {
		t.Errorf("the server is %+v", got)
	}
	if got := session.InitializeResult().ProtocolVersion; got != "2026-07-28" {
		t.Errorf("protocol version %s", got)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != 1 {
		t.Fatalf("%d tools", len(list.Tools))
	}
	got := list.Tools[0]
	if got.Name != "echo" || got.Title != "Echo" || got.Description != "Say it again." {
		t.Errorf("echo is %+v", got)
	}
	want := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: new(false), OpenWorldHint: new(false)}
	if diff := cmp.Diff(want, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	for name, pair := range map[string][2]any{"input": {input, got.InputSchema}, "output": {output, got.OutputSchema}} {
		var want any
		if err := json.Unmarshal([]byte(pair[0].(string)), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, pair[1]); diff != "" {
			t.Errorf("%s schema (-want +got):\n%s", name, diff)
		}
	}
}

func TestCall_doesNotWrite(t *testing.T) {
	session := connect(t, open(t))
	if got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "carve", Arguments: json.RawMessage(`{"word":"a"}`)}); err == nil {
		t.Errorf("it is called: %+v", got)
	}
}

func TestCall_answers(t *testing.T) {
	session := connect(t, open(t))
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: json.RawMessage(`{"word":"<b>"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got.IsError {
		t.Error("isError")
	}
	if diff := cmp.Diff(map[string]any{"heard": `{"word":"<b>"}`}, got.StructuredContent); diff != "" {
		t.Errorf("structured content (-want +got):\n%s", diff)
	}
	if want := `{"heard":"{\"word\":\"<b>\"}"}`; text(t, got) != want {
		t.Errorf("text: %s, want %s", text(t, got), want)
	}
	for key, want := range map[string]any{
		MetaSources:       []any{map[string]any{"id": "s", "title": "S", "url": "https://example.com/s"}},
		MetaObservedAt:    "2026-01-02T12:00:00Z",
		MetaSourceVersion: "words@1",
	} {
		if diff := cmp.Diff(want, got.Meta[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

func TestCall_tellsFailures(t *testing.T) {
	session := connect(t, open(t))
	for name, tt := range map[string]struct {
		arguments string
		want      callError
	}{
		"the tool's":      {`{"word":"missing"}`, callError{tool.NotFound, "there is no such word", false}},
		"a bug":           {`{"word":"broken"}`, callError{tool.Internal, "the tool server failed", false}},
		"an argument":     {`{"word":1}`, callError{tool.InvalidArguments, "at /word: got number, want string", false}},
		"none, which {}":  {`{}`, callError{tool.InvalidArguments, "at /: missing property 'word'", false}},
		"a key too many":  {`{"word":"a","more":1}`, callError{tool.InvalidArguments, "at /: additional properties 'more' not allowed", false}},
		"no object there": {`["word"]`, callError{tool.InvalidArguments, "at /: got array, want object", false}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: json.RawMessage(tt.arguments)})
			if err != nil {
				t.Fatal(err)
			}
			if !got.IsError || got.StructuredContent != nil {
				t.Errorf("isError = %v, structured content %v", got.IsError, got.StructuredContent)
			}
			var told callError
			if err := json.Unmarshal([]byte(text(t, got)), &told); err != nil {
				t.Fatal(err)
			}
			if told != tt.want {
				t.Errorf("%+v, want %+v", told, tt.want)
			}
			inMeta := map[string]any{"code": string(tt.want.Code), "message": tt.want.Message, "retryable": tt.want.Retryable}
			if diff := cmp.Diff(inMeta, got.Meta[MetaError]); diff != "" {
				t.Errorf("_meta (-want +got):\n%s", diff)
			}
		})
	}
}

func text(t *testing.T, result *mcp.CallToolResult) string {
	t.Helper()
	if len(result.Content) != 1 {
		t.Fatalf("%d pieces of content", len(result.Content))
	}
	content, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("content: %T", result.Content[0])
	}
	return content.Text
}

func TestCall_ofAnotherToolIsAnError(t *testing.T) {
	session := connect(t, open(t))
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "shout", Arguments: json.RawMessage(`{}`)}); err == nil {
		t.Error("no error")
	}
}

// post sends one message as clients of an older protocol version do.
func post(t *testing.T, url, message string) (status int, header http.Header, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, body
}

func TestServer_needsNoSession(t *testing.T) {
	url := open(t)
	_, header, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"word":"a"}}}`)
	var got struct {
		Result struct {
			StructuredContent map[string]string
		}
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if want := `{"word":"a"}`; got.Result.StructuredContent["heard"] != want {
		t.Errorf("without initialize: %v", got)
	}
	if id := header.Get("Mcp-Session-Id"); id != "" {
		t.Errorf("session %s", id)
	}
}

func TestServer_boundsBodies(t *testing.T) {
	message := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"word":"` + strings.Repeat("a", n) + `"}}}`
	}
	url := open(t)
	if got, _, _ := post(t, url, message(tool.MaxArgumentBytes)); got != http.StatusOK {
		t.Errorf("the longest arguments: %d", got)
	}
	if got, _, _ := post(t, url, message(maxBodyBytes)); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a body too long: %d", got)
	}
}
