// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mcptool is the adapter for MCP servers over Streamable HTTP, through the official SDK, with its retries and its
// multi round trips off. The operation ID of a call travels in _meta.
//
// Results are read from the bytes that came, not from what the SDK makes of them: it rounds large integers, and takes a
// result of a kind that it does not know for an empty success. A session that broke is made anew for the next call.
package mcptool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/singleflight"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

// metaOperationID is where a server finds the operation ID of a call.
const metaOperationID = "interlock.dev/operationId"

type server struct {
	endpoint  string
	client    *mcp.Client
	transport *http.Transport

	connecting singleflight.Group
	closing    sync.WaitGroup

	mu      sync.Mutex
	session *mcp.ClientSession
}

var (
	_ tool.Factory    = New
	_ tool.Discoverer = (*server)(nil)
)

// New makes a server of its MCP endpoint.
func New(c tool.Config) (tool.Server, error) {
	endpoint, err := url.Parse(c.URL)
	if err != nil || endpoint.Host == "" || (endpoint.Scheme != "http" && endpoint.Scheme != "https") {
		return nil, errors.New("the URL must be an http or https address")
	}
	transport, err := tool.Transport(c)
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "interlock", Version: "v1alpha1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	return &server{endpoint: endpoint.String(), client: client, transport: transport}, nil
}

// Execute implements tool.Server.
func (s *server) Execute(ctx context.Context, call run.ToolCall) (run.ToolResult, error) {
	session, err := s.connect(ctx)
	if err != nil {
		return run.ToolResult{}, err
	}
	seen := &exchange{}
	_, err = session.CallTool(context.WithValue(ctx, exchangeKey{}, seen), &mcp.CallToolParams{
		Meta: mcp.Meta{metaOperationID: call.OperationID}, Name: call.Tool, Arguments: call.Arguments,
	})
	if err != nil && !seen.answered() {
		return run.ToolResult{}, s.failure(ctx, session, seen, err)
	}
	// The SDK may find fault with a result that is whole, such as for a kind of content that it does not know.
	return seen.result(call.MaxResultBytes)
}

// connectTimeout is how long the making of a session may take.
const connectTimeout = 30 * time.Second

// connect gives the session, making one if there is none. Those who ask at once share the making, so that it does not end
// when the first of them gives up.
func (s *server) connect(ctx context.Context) (*mcp.ClientSession, error) {
	s.mu.Lock()
	session := s.session
	s.mu.Unlock()
	if session != nil {
		return session, nil
	}
	made := s.connecting.DoChan("", func() (any, error) {
		seen := &exchange{}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		session, err := s.client.Connect(context.WithValue(ctx, exchangeKey{}, seen), &mcp.StreamableClientTransport{
			Endpoint: s.endpoint, MaxRetries: -1, DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: recorder{s.transport}, CheckRedirect: tool.NoRedirect},
		}, nil)
		if err != nil {
			return nil, seen.failure(ctx, err, tool.NotSent)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.session = session
		return session, nil
	})
	select {
	case r := <-made:
		if r.Err != nil {
			return nil, r.Err
		}
		session, _ := r.Val.(*mcp.ClientSession)
		return session, nil
	case <-ctx.Done():
		return nil, &tool.Error{
			Code: tool.CodeTimeout, Message: "The MCP server did not answer in time.", Outcome: tool.NotSent, Retryable: true, Err: ctx.Err(),
		}
	}
}

// failure sorts an error of a call. An answer of the server's leaves the session as it is; anything else ends it, since the
// SDK would go on to use what is broken.
func (s *server) failure(ctx context.Context, session *mcp.ClientSession, seen *exchange, err error) *tool.Error {
	var answered *jsonrpc.Error
	if errors.As(err, &answered) && seen.status == http.StatusOK {
		return protocolError(answered)
	}
	if ctx.Err() == nil {
		s.drop(session)
	}
	return seen.failure(ctx, err, tool.InDoubt)
}

// drop forgets a session that broke and closes it beside the caller: to close one is a request to the server.
func (s *server) drop(session *mcp.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		s.session = nil
	}
	s.closing.Go(func() { _ = session.Close() })
}

// Close implements tool.Server.
func (s *server) Close() {
	s.mu.Lock()
	session := s.session
	s.session = nil
	s.mu.Unlock()
	if session != nil {
		_ = session.Close()
	}
	s.closing.Wait()
	s.transport.CloseIdleConnections()
}

// protocolError sorts an error that the server answered with, by its code (JSON-RPC 2.0, section 5.1).
func protocolError(e *jsonrpc.Error) *tool.Error {
	const invalidParams, methodNotFound = -32602, -32601
	message := tool.CleanMessage(e.Message)
	switch e.Code {
	case methodNotFound:
		return &tool.Error{Code: tool.CodeUnknownTool, Message: "The MCP server has no tools.", Outcome: tool.Refused, Err: e}
	case invalidParams:
		return &tool.Error{Code: "InvalidParams", Message: message, Outcome: tool.Refused, Err: e}
	}
	return &tool.Error{Code: tool.CodeToolError, Message: fmt.Sprintf("The MCP server answered with error %d.", e.Code), Outcome: tool.InDoubt, Err: e}
}
