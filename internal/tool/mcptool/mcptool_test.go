// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

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

// A peer is the official SDK's server, with or without sessions, which answers with JSON or with a stream of events.
type peer struct{ stateless, json bool }

// serve serves one tool named lookup.
func (p peer) serve(answer func(arguments json.RawMessage) *mcp.CallToolResult) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "lookup", Description: "Looks up.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return answer(r.Params.Arguments), nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: p.stateless, JSONResponse: p.json})
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

func TestContract_statelessJSON(t *testing.T) {
	tooltest.Run(t, mcptool.New, peer{stateless: true, json: true})
}

func TestContract_withSessionsJSON(t *testing.T) { tooltest.Run(t, mcptool.New, peer{json: true}) }

func TestContract_thirdParty(t *testing.T) { tooltest.Run(t, mcptool.New, thirdPeer{}) }

// instead is a peer that leaves requests of one method to h, which is given their IDs.
func instead(p peer, method string, h func(w http.ResponseWriter, r *http.Request, id string)) http.Handler {
	protocol := p.Answer(nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(body, &request) != nil || request.Method != method {
			protocol.ServeHTTP(w, r)
			return
		}
		h(w, r, string(request.ID))
	})
}

// says answers with a body in which $ID stands for the request's.
func says(status int, kind, body string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, id string) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "$ID", id))
	}
}

// answered gives what the adapter makes of the result of a call, as raw JSON of the protocol.
func answered(t *testing.T, result string) (string, error) {
	t.Helper()
	server, _ := tooltest.Open(t, mcptool.New, instead(peer{stateless: true}, "tools/call", says(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":`+result+`}`)))
	got, err := server.Execute(t.Context(), tooltest.Call(`{}`))
	return string(got.Data), err
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
