// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tooltest

import (
	"context"
	"maps"
	"sync/atomic"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

// A Kind is a way for a call to go wrong.
type Kind string

// The kinds of fault.
const (
	// Fail: the server is not reached.
	Fail Kind = "Fail"
	// Lose: the server performs the call, but its answer is lost.
	Lose Kind = "Lose"
	// Hang: the server is not reached, and the call returns only when its context is done.
	Hang Kind = "Hang"
)

type faulty struct {
	inner tool.Server
	plan  map[int]Kind
	calls atomic.Int64
}

var _ tool.Discoverer = (*faulty)(nil)

// Faulty wraps a server whose nth call goes wrong, counted from 1. A call that is not in plan goes through, and so does every
// Discover.
func Faulty(inner tool.Server, plan map[int]Kind) tool.Discoverer {
	return &faulty{inner: inner, plan: maps.Clone(plan)}
}

// Execute implements tool.Server.
func (f *faulty) Execute(ctx context.Context, call run.ToolCall) (run.ToolResult, error) {
	switch f.plan[int(f.calls.Add(1))] {
	case Fail:
		return run.ToolResult{}, &tool.Error{Code: tool.CodeUnavailable, Message: "The test makes this call fail.", Outcome: tool.NotSent, Retryable: true}
	case Lose:
		if _, err := f.inner.Execute(ctx, call); err != nil {
			return run.ToolResult{}, err
		}
		return run.ToolResult{}, &tool.Error{Code: tool.CodeUnavailable, Message: "The test loses this answer.", Outcome: tool.InDoubt, Retryable: true}
	case Hang:
		return run.ToolResult{}, hang(ctx)
	}
	return f.inner.Execute(ctx, call)
}

// Discover implements tool.Discoverer.
func (f *faulty) Discover(ctx context.Context, name string) (tool.Definition, error) {
	d, ok := f.inner.(tool.Discoverer)
	if !ok {
		return tool.Definition{}, unknown()
	}
	return d.Discover(ctx, name)
}

// Close implements tool.Server.
func (f *faulty) Close() { f.inner.Close() }
