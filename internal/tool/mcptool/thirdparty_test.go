// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	thirdparty "github.com/mark3labs/mcp-go/mcp"
	thirdpartyserver "github.com/mark3labs/mcp-go/server"

	"github.com/interlock-dev/interlock/internal/tool"
	"github.com/interlock-dev/interlock/internal/tool/mcptool"
	"github.com/interlock-dev/interlock/internal/tool/tooltest"
)

// A thirdPeer is a server of another implementation than the SDK's.
type thirdPeer struct{ peer }

func (thirdPeer) serve(answer func(arguments json.RawMessage) *thirdparty.CallToolResult) http.Handler {
	s := thirdpartyserver.NewMCPServer("third", "1")
	s.AddTool(thirdparty.NewTool("lookup"), func(_ context.Context, r thirdparty.CallToolRequest) (*thirdparty.CallToolResult, error) {
		return answer(r.Params.RawArguments), nil
	})
	return thirdpartyserver.NewStreamableHTTPServer(s)
}

func (p thirdPeer) Answer(data json.RawMessage) http.Handler {
	return p.serve(func(arguments json.RawMessage) *thirdparty.CallToolResult {
		if data == nil {
			return &thirdparty.CallToolResult{StructuredContent: arguments}
		}
		return &thirdparty.CallToolResult{StructuredContent: data}
	})
}

func (p thirdPeer) Fail(code, message string, retryable bool) http.Handler {
	return p.serve(func(json.RawMessage) *thirdparty.CallToolResult {
		return &thirdparty.CallToolResult{IsError: true, StructuredContent: map[string]any{"code": code, "message": message, "retryable": retryable}}
	})
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
