// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mcptool is the adapter for MCP servers over Streamable HTTP, through the official SDK, with its retries and its
// multi round trips off. The operation ID of a call travels in _meta.
//
// Results, errors and definitions are read from the bytes that came, not from what the SDK makes of them: it rounds large
// integers, takes a result of a kind that it does not know for an empty success, and gives errors of its own the type of the
// server's. What would make the SDK break a session, and with it the calls of others, is kept from it. A session that broke
// all the same, or that the server forgot, is made anew.
package mcptool

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

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

	gate       tool.Gate
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
	client.AddSendingMiddleware(withoutCache)
	return &server{endpoint: endpoint.String(), client: client, transport: transport}, nil
}

// Execute implements tool.Server.
func (s *server) Execute(ctx context.Context, call run.ToolCall) (run.ToolResult, error) {
	seen, err := s.exchange(ctx, func(ctx context.Context, session *mcp.ClientSession) error {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{
			Meta: mcp.Meta{metaOperationID: call.OperationID}, Name: call.Tool, Arguments: call.Arguments,
		})
		return err
	})
	if err != nil {
		return run.ToolResult{}, err
	}
	return seen.result(call.MaxResultBytes)
}

// exchange makes one request within a session, and gives what the server answered. If it turns out that the session is
// broken before anything is sent, it is made anew once. The error is nil or a *tool.Error.
func (s *server) exchange(ctx context.Context, request func(context.Context, *mcp.ClientSession) error) (*exchange, error) {
	ctx, leave, err := s.gate.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	for fresh := false; ; fresh = true {
		session, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		seen := &exchange{}
		err = request(context.WithValue(ctx, exchangeKey{}, seen), session)
		// The SDK may find fault with an answer that is whole, such as for a kind of content that it does not know.
		if err == nil || seen.answered() {
			return seen, nil
		}
		if !seen.tried() && ctx.Err() == nil {
			s.drop(session)
			if !fresh {
				continue
			}
		}
		failed := seen.failure(ctx, err)
		if session.ID() != "" && seen.lostSession() {
			s.drop(session)
			failed.Outcome, failed.Retryable = tool.Refused, true
		}
		return nil, failed
	}
}

// connectTimeout is how long the making of a session may take.
const connectTimeout = 30 * time.Second

// connect gives the session, making one if there is none. Those who ask at once share the making, so that it does not end
// when the first of them gives up.
func (s *server) connect(ctx context.Context) (*mcp.ClientSession, error) {
	made := s.connecting.DoChan("", func() (any, error) {
		if session := s.current(); session != nil {
			return session, nil
		}
		ctx, leave, err := s.gate.Enter(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		seen := &exchange{}
		session, err := s.client.Connect(context.WithValue(ctx, exchangeKey{}, seen), &mcp.StreamableClientTransport{
			Endpoint: s.endpoint, MaxRetries: -1, DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: recorder{s.transport, &s.gate}, CheckRedirect: tool.NoRedirect},
		}, nil)
		if err != nil {
			failed := seen.failure(ctx, err)
			failed.Outcome = tool.NotSent
			return nil, failed
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

func (s *server) current() *mcp.ClientSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// drop forgets a session that is of no more use and closes it beside the caller: that is a request to the server, and waits
// for calls under way. The caller is within the gate.
func (s *server) drop(session *mcp.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		s.session = nil
		s.closing.Go(func() { _ = session.Close() })
	}
}

// Close implements tool.Server.
func (s *server) Close() {
	s.gate.Close()
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
