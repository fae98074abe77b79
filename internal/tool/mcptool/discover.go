// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gowebpki/jcs"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/interlock-dev/interlock/internal/text"
	"github.com/interlock-dev/interlock/internal/tool"
)

const (
	// maxPages bounds the pages of a server's list of tools.
	maxPages       = 100
	maxDescription = 4096
)

// Discover implements tool.Discoverer.
func (s *server) Discover(ctx context.Context, name string) (tool.Definition, error) {
	params := &mcp.ListToolsParams{}
	for range maxPages {
		var page *mcp.ListToolsResult
		seen, err := s.exchange(ctx, func(ctx context.Context, session *mcp.ClientSession) (err error) {
			page, err = session.ListTools(ctx, params)
			return err
		})
		if err != nil {
			return tool.Definition{}, err
		}
		if page == nil {
			return malformedDefinition(nil)
		}
		// The SDK leaves out what has headers that it can't send.
		if slices.ContainsFunc(page.Tools, func(t *mcp.Tool) bool { return t.Name == name }) {
			return definitionIn(seen.answer(), name)
		}
		if page.NextCursor == "" {
			break
		}
		params = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
	return tool.Definition{}, &tool.Error{
		Code: tool.CodeUnknownTool, Message: fmt.Sprintf("The MCP server has no tool %q.", name), Outcome: tool.Refused,
	}
}

// withoutCache keeps the SDK from answering with a list that came before, for as long as the server pleases: a changed
// definition has to be seen. What it keeps for the headers of calls stays.
func withoutCache(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, request)
		if list, ok := result.(*mcp.ListToolsResult); ok && list != nil {
			list.TTLMs = 0
		}
		return result, err
	}
}

// definitionIn finds a tool by name in the result of tools/list, as it came.
func definitionIn(result json.RawMessage, name string) (tool.Definition, error) {
	var list struct {
		Tools []map[string]json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(result, &list); err != nil {
		return malformedDefinition(err)
	}
	for _, t := range list.Tools {
		var found string
		if json.Unmarshal(t["name"], &found) == nil && found == name {
			return definitionOf(t)
		}
	}
	return malformedDefinition(nil)
}

func malformedDefinition(err error) (tool.Definition, error) {
	return tool.Definition{}, &tool.Error{
		Code: tool.CodeMalformedResult, Message: "The MCP server's description of the tool is not what the protocol promises.", Outcome: tool.Refused, Err: err,
	}
}

// definitionOf keeps of a tool what its digest is over: a server that changes any of it has another tool.
func definitionOf(t map[string]json.RawMessage) (tool.Definition, error) {
	whole := map[string]json.RawMessage{}
	for _, field := range []string{"name", "description", "inputSchema", "outputSchema", "annotations"} {
		if value := t[field]; value != nil && string(value) != "null" {
			whole[field] = value
		}
	}
	var description string
	if d := whole["description"]; d != nil {
		if err := json.Unmarshal(d, &description); err != nil {
			return malformedDefinition(err)
		}
	}
	var input bytes.Buffer
	if err := json.Compact(&input, whole["inputSchema"]); err != nil {
		return malformedDefinition(err)
	}
	document, err := json.Marshal(whole)
	if err != nil {
		return malformedDefinition(err)
	}
	canonical, err := jcs.Transform(document)
	if err != nil {
		return malformedDefinition(err)
	}
	sum := sha256.Sum256(canonical)
	return tool.Definition{
		Description: text.Clip(text.Clean(description), maxDescription), InputSchema: input.Bytes(), Digest: "sha256:" + hex.EncodeToString(sum[:]),
	}, nil
}
