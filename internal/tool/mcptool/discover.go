// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gowebpki/jcs"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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
	session, err := s.connect(ctx)
	if err != nil {
		return tool.Definition{}, err
	}
	params := &mcp.ListToolsParams{}
	for range maxPages {
		seen := &exchange{}
		page, err := session.ListTools(context.WithValue(ctx, exchangeKey{}, seen), params)
		if err != nil {
			return tool.Definition{}, s.discoveryFailure(ctx, session, seen, err)
		}
		for _, t := range page.Tools {
			if t.Name == name {
				return definitionOf(t)
			}
		}
		if page.NextCursor == "" {
			break
		}
		params.Cursor = page.NextCursor
	}
	return tool.Definition{}, &tool.Error{
		Code: tool.CodeUnknownTool, Message: fmt.Sprintf("The MCP server has no tool %q.", name), Outcome: tool.Refused,
	}
}

func (s *server) discoveryFailure(ctx context.Context, session *mcp.ClientSession, seen *exchange, err error) *tool.Error {
	if answered, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return protocolError(answered)
	}
	return s.failure(ctx, session, seen, err)
}

// definitionOf keeps of a tool what its digest is over: a server that changes any of it has another tool.
func definitionOf(t *mcp.Tool) (tool.Definition, error) {
	whole := map[string]any{"name": t.Name, "description": t.Description, "inputSchema": t.InputSchema}
	if t.OutputSchema != nil {
		whole["outputSchema"] = t.OutputSchema
	}
	if t.Annotations != nil {
		whole["annotations"] = t.Annotations
	}
	malformed := func(err error) (tool.Definition, error) {
		return tool.Definition{}, &tool.Error{
			Code: tool.CodeMalformedResult, Message: "The MCP server's description of the tool is not what the protocol promises.", Outcome: tool.Refused, Err: err,
		}
	}
	document, err := json.Marshal(whole)
	if err != nil {
		return malformed(err)
	}
	canonical, err := jcs.Transform(document)
	if err != nil {
		return malformed(err)
	}
	input, err := json.Marshal(t.InputSchema)
	if err != nil {
		return malformed(err)
	}
	sum := sha256.Sum256(canonical)
	return tool.Definition{
		Description: text.Clip(text.Clean(t.Description), maxDescription), InputSchema: input, Digest: "sha256:" + hex.EncodeToString(sum[:]),
	}, nil
}
