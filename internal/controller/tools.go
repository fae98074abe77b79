// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/approval"
	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/effect"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

// Tools opens ToolBindings: it compiles their schemas and connects to their servers, and keeps both until the binding
// changes or goes. What it keeps is keyed by UID, so that two bindings never share a connection. It is safe for concurrent use.
type Tools struct {
	http, mcp tool.Factory
	bulkheads effect.Bulkheads
	paces     effect.Paces
	breakers  effect.Breakers
	// wake is told of a binding whose breaker has changed.
	wake Waker[client.ObjectKey]

	mu          sync.Mutex
	connections map[types.UID]connection
	open        map[types.UID]*openTool
}

// A connection is the server of one generation of a binding.
type connection struct {
	tool.Server
	generation int64
}

// An openTool is a ToolBinding ready to be used.
type openTool struct {
	// Name is the tool's on its server.
	Name       string
	Server     tool.Server
	Schema     *arguments.Schema
	Definition run.ToolDefinition
	// DefinitionDigest stands for the tool as the model sees it or, of an MCP tool, as its server describes it.
	DefinitionDigest string

	generation int64
	// digest is of the MCP server's definition; empty for an http backend.
	digest string
}

// NewTools makes Tools that use the given adapters.
func NewTools(http, mcp tool.Factory) *Tools {
	return &Tools{http: http, mcp: mcp, connections: map[types.UID]connection{}, open: map[types.UID]*openTool{}}
}

// Errors of Open, beside those of a schema.
var (
	errNoSchema = errors.New("the tool has not been discovered yet")
	errBackend  = errors.New("the backend can't work")
)

// Connect gives the server of the binding. It does no I/O yet.
func (ts *Tools) Connect(b *v1alpha1.ToolBinding) (tool.Server, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.connect(b)
}

// Open gives the binding ready to be used. It does no I/O.
func (ts *Tools) Open(b *v1alpha1.ToolBinding) (*openTool, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	digest := ""
	if b.Status.Definition != nil {
		digest = b.Status.Definition.Digest
	}
	if t := ts.open[b.UID]; t != nil && t.generation == b.Generation && t.digest == digest {
		return t, nil
	}
	t, err := build(b)
	if err != nil {
		return nil, err
	}
	if t.Server, err = ts.connect(b); err != nil {
		return nil, err
	}
	t.digest = digest
	ts.open[b.UID] = t
	return t, nil
}

func build(b *v1alpha1.ToolBinding) (*openTool, error) {
	t := &openTool{Name: serverToolName(b), generation: b.Generation}
	t.Definition = run.ToolDefinition{Name: b.Name, Description: b.Spec.Description}
	var schema json.RawMessage
	if d := b.Status.Definition; d != nil {
		if t.Definition.Description == "" {
			t.Definition.Description = d.Description
		}
		if d.InputSchema != nil {
			schema = d.InputSchema.Raw
		}
	}
	if b.Spec.InputSchema != nil {
		schema = b.Spec.InputSchema.Raw
	}
	if schema == nil {
		return nil, errNoSchema
	}
	compiled, err := arguments.Compile(schema)
	if err != nil {
		return nil, err
	}
	t.Schema, t.Definition.InputSchema = compiled, schema
	if b.Status.Definition != nil {
		t.DefinitionDigest = b.Status.Definition.Digest
		return t, nil
	}
	canonical, err := approval.Canonical(map[string]any{"name": b.Name, "description": t.Definition.Description, "inputSchema": schema})
	if err != nil {
		return nil, err
	}
	t.DefinitionDigest = arguments.Digest(canonical)
	return t, nil
}

// endpointOf names where the calls of a binding go: the server's address and the tool's name there.
func endpointOf(b *v1alpha1.ToolBinding) string {
	switch {
	case b.Spec.Backend.HTTP != nil:
		return b.Spec.Backend.HTTP.URL + " " + b.Spec.Backend.HTTP.Tool
	case b.Spec.Backend.MCP != nil:
		return b.Spec.Backend.MCP.URL + " " + b.Spec.Backend.MCP.Tool
	case b.Spec.Backend.Agent != nil:
		return "a child AgentRun"
	}
	return ""
}

// connect gives the server of the binding's generation; that of an older one is closed.
func (ts *Tools) connect(b *v1alpha1.ToolBinding) (tool.Server, error) {
	old, ok := ts.connections[b.UID]
	if ok && old.generation == b.Generation {
		return old.Server, nil
	}
	var server tool.Server
	var err error
	switch backend := b.Spec.Backend; {
	case backend.HTTP != nil:
		server, err = ts.http(tool.Config{URL: backend.HTTP.URL, CABundle: []byte(backend.HTTP.CABundle)})
	case backend.Agent != nil:
	case backend.MCP != nil:
		server, err = ts.mcp(tool.Config{URL: backend.MCP.URL, CABundle: []byte(backend.MCP.CABundle)})
	default:
		err = errors.New("set one of http, mcp and agent")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBackend, err)
	}
	if ok {
		old.Close()
		delete(ts.connections, b.UID)
	}
	if server != nil {
		ts.connections[b.UID] = connection{server, b.Generation}
	}
	return server, nil
}

func serverToolName(b *v1alpha1.ToolBinding) string {
	switch {
	case b.Spec.Backend.HTTP != nil:
		return b.Spec.Backend.HTTP.Tool
	case b.Spec.Backend.MCP != nil:
		return b.Spec.Backend.MCP.Tool
	}
	return ""
}

// Drop closes what is kept of a binding that is gone.
func (ts *Tools) Drop(uid types.UID) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if c, ok := ts.connections[uid]; ok {
		c.Close()
	}
	delete(ts.connections, uid)
	delete(ts.open, uid)
	ts.bulkheads.Drop(string(uid))
	ts.paces.Drop(string(uid))
	ts.breakers.Drop(string(uid))
}

// Close closes everything.
func (ts *Tools) Close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, c := range ts.connections {
		c.Close()
	}
	clear(ts.connections)
	clear(ts.open)
}
