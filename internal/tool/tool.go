// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tool is the port to tool servers: one interface, its errors and its limits. An adapter for each protocol lives in
// a folder beneath it, and package tooltest holds the contract that all of them pass.
//
// An adapter never retries (the run's state machine does), sends exactly the argument bytes it is given, reads every answer
// through a bound, and never follows a redirect to another host.
package tool

import (
	"context"
	"encoding/json"

	"github.com/interlock-dev/interlock/internal/run"
)

// MaxBodyBytes bounds the bytes read of one answer, whatever the server sends.
const MaxBodyBytes = 4 << 20

// A Server executes calls at one endpoint.
//
// Implementations are safe for concurrent use, return when ctx is done, and return nil or an *Error.
type Server interface {
	// Execute performs call. The server may see two calls with one OperationID.
	Execute(ctx context.Context, call run.ToolCall) (run.ToolResult, error)
	// Close drops what the adapter keeps open. Calls under way may fail.
	Close()
}

// A Writer is a Server whose tools may write: it can say what a call would do, and what became of one.
type Writer interface {
	Server
	// Preview says what call would do. It changes nothing.
	Preview(ctx context.Context, call run.ToolCall) (run.ToolPreview, error)
	// LookUp says what became of the operation that call was sent as: its result, or an *Error whose Outcome is the operation's.
	// Refused means that nothing was done, with CodeUnknownOperation if the server has never heard of it; all else is InDoubt.
	LookUp(ctx context.Context, call run.ToolCall) (run.ToolResult, error)
}

// A Discoverer is a Server that can say what its tools look like.
type Discoverer interface {
	Server
	// Discover describes the tool that the server knows by name. A server that has no such tool is an *Error with
	// CodeUnknownTool.
	Discover(ctx context.Context, name string) (Definition, error)
}

// A Definition is a tool as its server describes it: a claim, trusted only once its digest is pinned.
type Definition struct {
	Description string
	InputSchema json.RawMessage
	// Digest is "sha256:" and the hexadecimal SHA-256 of the RFC 8785 form of the definition with its name and annotations.
	Digest string
}

// A Config is what an adapter needs to know of one endpoint.
type Config struct {
	// URL is the server's base address (HTTP tool protocol) or its MCP endpoint.
	URL string
	// CABundle holds PEM certificates to trust instead of the system's; empty means the system's.
	CABundle []byte
}

// A Factory makes a Server of a Config. It does no I/O; an error means that the config can never work.
type Factory func(Config) (Server, error)
