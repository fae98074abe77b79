// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tooltest holds the contract that every adapter of the tool port passes, against a server on loopback that speaks
// its wire format. What a server can do wrong that has nothing to do with its protocol (silence, resets, endless bodies,
// redirects) is here once, for all of them.
package tooltest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

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
