// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tooltest holds what every adapter of the tool port is tested with, and what stands in for one. RunPort is the
// contract of the port, which sees a server only through it. Run adds, for adapters that speak HTTP, what a server can do
// wrong that has nothing to do with its protocol: silence, resets, endless bodies, redirects. Fake is a server that follows a
// script, and Faulty makes the nth call of another one go wrong.
package tooltest

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

// A Behaviour is what the server behind an adapter does with every call.
type Behaviour struct {
	// Data is the answer; nil: the arguments.
	Data json.RawMessage
	// Fail, if set, is the error that the server answers with, in the words of its protocol.
	Fail *Failure
	// Hang, if set, is called when the server has a call, which it then never answers.
	Hang func()
	// Gone: there is no server.
	Gone bool
}

// A Failure is an error of a tool's own.
type Failure struct {
	Code, Message string
	Retryable     bool
}

// A NewServer gives an adapter whose server behaves as b says, until the test ends.
type NewServer func(t *testing.T, b Behaviour) tool.Server

// A Peer answers calls in one wire format.
type Peer interface {
	// Answer answers with data or, if that is nil, with the arguments. Fail answers with an error of the protocol's own.
	Answer(data json.RawMessage) http.Handler
	Fail(code, message string, retryable bool) http.Handler
	// Seen reads a call out of a request; false if the request is none, such as one that opens a session.
	Seen(r *http.Request, body []byte) (Seen, bool)
}

// Seen is a call as it arrived.
type Seen struct {
	Tool, OperationID, Arguments string
}

// Call is a call to the tool "lookup".
func Call(arguments string) run.ToolCall {
	return run.ToolCall{
		OperationID: "op-1", CallID: "s1c1", Tool: "lookup", Arguments: json.RawMessage(arguments), MaxResultBytes: 1 << 16,
	}
}

// Open makes an adapter's server for a handler.
func Open(t *testing.T, newServer tool.Factory, h http.Handler) (tool.Server, *httptest.Server) {
	t.Helper()
	peer := httptest.NewServer(h)
	server, err := newServer(tool.Config{URL: peer.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		peer.CloseClientConnections()
		peer.Close()
	})
	return server, peer
}

// WantError checks an error of the port and gives it. An empty code or outcome is any.
func WantError(t *testing.T, err error, code string, outcome tool.Outcome, retryable bool) tool.Error {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok {
		t.Errorf("got %v (%T), want a *tool.Error", err, err)
		return tool.Error{}
	}
	if (code != "" && e.Code != code) || (outcome != "" && e.Outcome != outcome) || e.Retryable != retryable || e.Message == "" {
		t.Errorf("got %+v, want code %q, outcome %q, retryable %t and a message", *e, code, outcome, retryable)
	}
	return *e
}
