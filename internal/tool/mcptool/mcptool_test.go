// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	thirdparty "github.com/mark3labs/mcp-go/mcp"
	thirdpartyserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/internal/tool"
	"github.com/interlock-dev/interlock/internal/tool/mcptool"
	"github.com/interlock-dev/interlock/internal/tool/tooltest"
)

// What is left of a session that broke is the peer's: the SDK's server keeps it until it is closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"))
}

// A peer is the official SDK's server, with or without sessions.
type peer struct{ stateless bool }

// serve serves one tool named lookup.
func (p peer) serve(answer func(arguments json.RawMessage) *mcp.CallToolResult) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "lookup", Description: "Looks up.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return answer(r.Params.Arguments), nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: p.stateless})
}

func (p peer) Answer(data json.RawMessage) http.Handler {
	return p.serve(func(arguments json.RawMessage) *mcp.CallToolResult {
		if data == nil {
			return &mcp.CallToolResult{StructuredContent: arguments}
		}
		return &mcp.CallToolResult{StructuredContent: data}
	})
}

func (p peer) Fail(code, message string, retryable bool) http.Handler {
	return p.serve(func(json.RawMessage) *mcp.CallToolResult {
		text, err := json.Marshal(map[string]any{"code": code, "message": message, "retryable": retryable})
		if err != nil {
			panic(err)
		}
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}
	})
}

func (peer) Seen(_ *http.Request, body []byte) (tooltest.Seen, bool) {
	var m struct {
		Method string `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Meta      map[string]any  `json:"_meta"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
		return tooltest.Seen{}, false
	}
	id, _ := m.Params.Meta["interlock.dev/operationId"].(string)
	return tooltest.Seen{Tool: m.Params.Name, OperationID: id, Arguments: string(m.Params.Arguments)}, true
}

func TestContract_stateless(t *testing.T) { tooltest.Run(t, mcptool.New, peer{stateless: true}) }

func TestContract_withSessions(t *testing.T) { tooltest.Run(t, mcptool.New, peer{}) }

// answered gives what the adapter makes of the result of a call, as raw JSON of the protocol.
func answered(t *testing.T, result string) (string, error) {
	t.Helper()
	p := peer{stateless: true}
	protocol := p.Answer(json.RawMessage(`"x"`))
	server, _ := tooltest.Open(t, mcptool.New, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if _, ok := p.Seen(r, body); !ok {
			protocol.ServeHTTP(w, r)
			return
		}
		var request struct {
			ID json.RawMessage `json:"id"`
		}
		if err := json.Unmarshal(body, &request); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, result)
	}))
	got, err := server.Execute(t.Context(), tooltest.Call(`{}`))
	return string(got.Data), err
}

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

func TestExecute_aForgottenSessionIsMadeAnew(t *testing.T) {
	var forget atomic.Bool
	protocol := peer{}.Answer(json.RawMessage(`"x"`))
	var fresh sync.Once
	server, _ := tooltest.Open(t, mcptool.New, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forget.Load() && r.Header.Get("Mcp-Session-Id") != "" {
			fresh.Do(func() { forget.Store(false) })
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		protocol.ServeHTTP(w, r)
	}))
	if _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil {
		t.Fatal(err)
	}
	forget.Store(true)
	_, err := server.Execute(t.Context(), tooltest.Call(`{}`))
	tooltest.WantError(t, err, "", "", true)
	forget.Store(false)
	if _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil {
		t.Errorf("after the session was forgotten: %v", err)
	}
}

func TestExecute_oneWhoGivesUpDoesNotFailTheOthers(t *testing.T) {
	open := make(chan struct{})
	arrived := make(chan struct{}, 10)
	protocol := peer{stateless: true}.Answer(json.RawMessage(`"x"`))
	server, _ := tooltest.Open(t, mcptool.New, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-open:
			protocol.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	first, giveUp := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := server.Execute(first, tooltest.Call(`{}`))
		tooltest.WantError(t, err, tool.CodeTimeout, tool.NotSent, true)
	})
	<-arrived
	calls.Go(func() {
		if _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil {
			t.Errorf("the second call: %v", err)
		}
	})
	giveUp()
	close(open)
	calls.Wait()
}

func TestDiscover_findsATool(t *testing.T) {
	server, _ := tooltest.Open(t, mcptool.New, peer{stateless: true}.Answer(json.RawMessage(`1`)))
	d, ok := server.(tool.Discoverer)
	if !ok {
		t.Fatal("the server can't discover")
	}
	got, err := d.Discover(t.Context(), "lookup")
	if err != nil || got.Description != "Looks up." || string(got.InputSchema) != `{"type":"object"}` || len(got.Digest) != 71 {
		t.Errorf("got %+v, %v", got, err)
	}
	again, err := d.Discover(t.Context(), "lookup")
	if err != nil || again.Digest != got.Digest {
		t.Errorf("the digest of the same tool was %s and is %s, %v", got.Digest, again.Digest, err)
	}
	_, err = d.Discover(t.Context(), "other")
	tooltest.WantError(t, err, tool.CodeUnknownTool, tool.Refused, false)
}

func TestDiscover_anotherDefinitionHasAnotherDigest(t *testing.T) {
	base := mcp.Tool{Name: "lookup", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)}
	digest := func(change func(*mcp.Tool)) string {
		definition := base
		change(&definition)
		s := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
		s.AddTool(&definition, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
		server, _ := tooltest.Open(t, mcptool.New, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
		d, err := server.(tool.Discoverer).Discover(t.Context(), definition.Name)
		if err != nil {
			t.Fatal(err)
		}
		return d.Digest
	}
	seen := map[string]string{digest(func(*mcp.Tool) {}): "nothing"}
	for name, change := range map[string]func(*mcp.Tool){
		"the name":          func(d *mcp.Tool) { d.Name = "lookup2" },
		"the description":   func(d *mcp.Tool) { d.Description = "d." },
		"the input schema":  func(d *mcp.Tool) { d.InputSchema = json.RawMessage(`{"type":"object","properties":{"a":{}}}`) },
		"the output schema": func(d *mcp.Tool) { d.OutputSchema = json.RawMessage(`{"type":"object"}`) },
		"the annotations":   func(d *mcp.Tool) { d.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: true} },
	} {
		got := digest(change)
		if other, ok := seen[got]; ok {
			t.Errorf("changing %s gives the digest of changing %s", name, other)
		}
		seen[got] = name
	}
}

// TestThirdParty: a server of another implementation than the SDK's.
func TestThirdParty(t *testing.T) {
	s := thirdpartyserver.NewMCPServer("third", "1")
	for i := range 120 {
		s.AddTool(thirdparty.NewTool(fmt.Sprint("tool", i), thirdparty.WithString("q")),
			func(_ context.Context, r thirdparty.CallToolRequest) (*thirdparty.CallToolResult, error) {
				return thirdparty.NewToolResultText("got " + r.GetString("q", "")), nil
			})
	}
	server, _ := tooltest.Open(t, mcptool.New, thirdpartyserver.NewStreamableHTTPServer(s))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if d, err := server.(tool.Discoverer).Discover(ctx, "tool119"); err != nil || !strings.Contains(string(d.InputSchema), `"q"`) {
		t.Errorf("got %+v, %v", d, err)
	}
	call := tooltest.Call(`{"q":"it"}`)
	call.Tool = "tool7"
	if result, err := server.Execute(ctx, call); err != nil || string(result.Data) != `"got it"` {
		t.Errorf("got %s, %v", result.Data, err)
	}
	call.Tool = "none"
	_, err := server.Execute(ctx, call)
	tooltest.WantError(t, err, "", "", false)
}
