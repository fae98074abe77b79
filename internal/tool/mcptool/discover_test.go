// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/interlock-dev/interlock/internal/tool"
	"github.com/interlock-dev/interlock/internal/tool/mcptool"
	"github.com/interlock-dev/interlock/internal/tool/tooltest"
)

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

// describes gives what the adapter makes of a list of tools, as raw JSON of the protocol.
func describes(t *testing.T, list string) (tool.Definition, error) {
	t.Helper()
	server, _ := tooltest.Open(t, mcptool.New, instead(peer{stateless: true}, "tools/list", says(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":`+list+`}`)))
	return server.(tool.Discoverer).Discover(t.Context(), "lookup")
}

// TestDiscover_theDigestIsOverWhatCame: not over what the SDK makes of it.
func TestDiscover_theDigestIsOverWhatCame(t *testing.T) {
	definition := func(fields string) string {
		return `{"tools":[{"name":"other","inputSchema":{}},{"name":"lookup",` + fields + `}]}`
	}
	base, err := describes(t, definition(`"description":"d","inputSchema":{"type":"object","x-rank":1.0},"annotations":{"readOnlyHint":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(base.InputSchema); got != `{"type":"object","x-rank":1.0}` {
		t.Errorf("the schema is %s", got)
	}
	for name, test := range map[string]struct {
		fields string
		same   bool
	}{
		"another order and form":          {`"annotations":{ "readOnlyHint":true },"inputSchema":{"x-rank":1,"type":"object"},"description":"\u0064","outputSchema":null`, true},
		"fields that are not part of it":  {`"description":"d","inputSchema":{"type":"object","x-rank":1},"annotations":{"readOnlyHint":true},"title":"t","_meta":{"a":1}`, true},
		"an annotation that is not known": {`"description":"d","inputSchema":{"type":"object","x-rank":1},"annotations":{"readOnlyHint":true,"paidHint":true}`, false},
		"an annotation that is a default": {`"description":"d","inputSchema":{"type":"object","x-rank":1},"annotations":{"readOnlyHint":true,"idempotentHint":false}`, false},
		"an invisible character":          {`"description":"d\u200b","inputSchema":{"type":"object","x-rank":1},"annotations":{"readOnlyHint":true}`, false},
		"an empty description":            {`"description":"","inputSchema":{"type":"object","x-rank":1},"annotations":{"readOnlyHint":true}`, false},
	} {
		got, err := describes(t, definition(test.fields))
		if err != nil || (got.Digest == base.Digest) != test.same {
			t.Errorf("%s: got %+v, %v, want the same digest: %t", name, got, err, test.same)
		}
		if strings.Contains(got.Description, "\u200b") {
			t.Errorf("%s: the description is %q", name, got.Description)
		}
	}
}

func TestDiscover_whatIsNoDefinitionIsRefused(t *testing.T) {
	for name, list := range map[string]string{
		"no schema":        `{"tools":[{"name":"lookup"}]}`,
		"a schema of null": `{"tools":[{"name":"lookup","inputSchema":null}]}`,
		"a repeated key":   `{"tools":[{"name":"lookup","inputSchema":{"type":"object","a":1,"a":2}}]}`,
		"a lone surrogate": `{"tools":[{"name":"lookup","inputSchema":{"type":"object","a":"\ud800"}}]}`,
		"no list":          `{"tools":1}`,
		"another type":     `{"tools":[{"name":"lookup","description":1,"inputSchema":{"type":"object"}}]}`,
		"an endless nest":  `{"tools":[{"name":"lookup","inputSchema":` + strings.Repeat(`[`, 1<<20) + `}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := describes(t, list)
			tooltest.WantError(t, err, tool.CodeMalformedResult, "", false)
		})
	}
	_, err := describes(t, `{"tools":[]}`)
	tooltest.WantError(t, err, tool.CodeUnknownTool, tool.Refused, false)
}

func TestDiscover_aStatusIsNotAnErrorOfTheProtocol(t *testing.T) {
	for status, retryable := range map[int]bool{429: true, 500: true, 503: true, 401: false} {
		server, _ := tooltest.Open(t, mcptool.New, instead(peer{stateless: true}, "tools/list", says(status, "text/plain", "canary")))
		_, err := server.(tool.Discoverer).Discover(t.Context(), "lookup")
		code := tool.CodeUnavailable
		if status == 401 {
			code = tool.CodeUnauthorized
		}
		tooltest.WantError(t, err, code, "", retryable)
	}
}

func TestDiscover_readsAsManyPagesAsItMust(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, &mcp.ServerOptions{PageSize: 3})
	for i := range 20 {
		s.AddTool(&mcp.Tool{Name: fmt.Sprintf("tool%02d", i), InputSchema: json.RawMessage(`{"type":"object"}`)}, nothing)
	}
	server, _ := tooltest.Open(t, mcptool.New, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	for _, name := range []string{"tool00", "tool02", "tool03", "tool19"} {
		if _, err := server.(tool.Discoverer).Discover(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDiscover_givesUpOnPagesWithoutEnd(t *testing.T) {
	var pages atomic.Int64
	server, _ := tooltest.Open(t, mcptool.New, instead(peer{stateless: true}, "tools/list", func(w http.ResponseWriter, _ *http.Request, id string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"nextCursor":"%d"}}`, id, pages.Add(1))
	}))
	_, err := server.(tool.Discoverer).Discover(t.Context(), "lookup")
	tooltest.WantError(t, err, tool.CodeUnknownTool, tool.Refused, false)
	if n := pages.Load(); n != 100 {
		t.Errorf("%d pages were read", n)
	}
}

// TestDiscover_seesAChangeAtOnce: whatever the server says on how long its list may be kept, and over connections.
func TestDiscover_seesAChangeAtOnce(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, r)
			if list, ok := result.(*mcp.ListToolsResult); ok {
				list.TTLMs = 3_600_000
			}
			return result, err
		}
	})
	define := func(description string) {
		s.AddTool(&mcp.Tool{Name: "lookup", Description: description, InputSchema: json.RawMessage(`{"type":"object"}`)}, nothing)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	server, _ := tooltest.Open(t, mcptool.New, handler)
	digest := func(server tool.Server) string {
		d, err := server.(tool.Discoverer).Discover(t.Context(), "lookup")
		if err != nil {
			t.Fatal(err)
		}
		return d.Digest
	}
	define("one")
	one := digest(server)
	define("two")
	if digest(server) == one {
		t.Error("the change is not seen")
	}
	define("one")
	other, _ := tooltest.Open(t, mcptool.New, handler)
	if digest(server) != one || digest(other) != one {
		t.Error("the same definition has another digest")
	}
}

func nothing(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{}, nil
}
