// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mcpapi serves tools by the Model Context Protocol, over Streamable HTTP and without sessions, so that any replica
// answers any request.
//
// A tool's data is the structured content; what it rests on travels in the result's _meta. A tool's failure is a result
// too (isError), so that the model sees it.
//
// Tools that write are not offered: a call by MCP has no operation ID, so it could not be told from its repetition.
package mcpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// The keys of a result's _meta.
const (
	MetaSources       = "interlock.dev/sources"
	MetaObservedAt    = "interlock.dev/observedAt"
	MetaSourceVersion = "interlock.dev/sourceVersion"
	MetaError         = "interlock.dev/error"
)

// maxBodyBytes leaves room for the envelope around the longest arguments.
const maxBodyBytes = tool.MaxArgumentBytes + 16<<10

// New serves the runner's tools that read under the name and version of this server.
func New(name, version string, runner *tool.Runner, log *slog.Logger) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: version}, &mcp.ServerOptions{
		// The tools never change while the server runs, and it sends no logs to clients.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for _, t := range runner.Tools() {
		if !t.Reads() {
			continue
		}
		server.AddTool(describe(t), handler(runner, t.Name, log))
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		JSONResponse:                 true,
		MaxRequestBodyBytes:          maxBodyBytes,
		PropagateRequestCancellation: true,
	})
}

func describe(t tool.Tool) *mcp.Tool {
	return &mcp.Tool{
		Name:         t.Name,
		Title:        t.Title,
		Description:  t.Description,
		InputSchema:  t.InputSchema,
		OutputSchema: t.OutputSchema,
		Annotations: &mcp.ToolAnnotations{
			ReadOnlyHint:    true,
			IdempotentHint:  true,
			DestructiveHint: new(false),
			OpenWorldHint:   new(false),
		},
	}
}

func handler(runner *tool.Runner, name string, log *slog.Logger) mcp.ToolHandler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := runner.Call(ctx, name, tool.Operation{Arguments: r.Params.Arguments})
		if err != nil {
			log.InfoContext(ctx, "mcp call", "tool", name, "code", err.Code)
			return failure(err)
		}
		log.InfoContext(ctx, "mcp call", "tool", name)
		return &mcp.CallToolResult{
			Meta: mcp.Meta{
				MetaSources:       result.Sources,
				MetaObservedAt:    result.ObservedAt.Format(time.RFC3339Nano),
				MetaSourceVersion: result.SourceVersion,
			},
			// Clients that know no structured content find the same as text.
			Content:           []mcp.Content{&mcp.TextContent{Text: string(result.Data)}},
			StructuredContent: result.Data,
		}, nil
	}
}

// callError is how a failure is told.
type callError struct {
	Code      tool.Code `json:"code"`
	Message   string    `json:"message"`
	Retryable bool      `json:"retryable"`
}

// failure tells the error as JSON text and in _meta. It is no structured content: some clients hold that to the tool's
// output schema even in an error, and then drop the error for one of their own.
func failure(err *tool.Error) (*mcp.CallToolResult, error) {
	told := callError{err.Code, err.Message, err.Code.Retryable()}
	text, encodeErr := json.Marshal(told)
	if encodeErr != nil {
		return nil, fmt.Errorf("encoding a failure: %w", encodeErr)
	}
	return &mcp.CallToolResult{
		Meta:    mcp.Meta{MetaError: told},
		Content: []mcp.Content{&mcp.TextContent{Text: string(text)}},
		IsError: true,
	}, nil
}
