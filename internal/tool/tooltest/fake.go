// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tooltest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

// A Step is what a Fake does with one call.
type Step struct {
	// Data is the answer; nil: the arguments.
	Data json.RawMessage
	// Fail, if set, is the answer of a tool that failed. Err, if set, is returned as it is.
	Fail *Failure
	Err  *tool.Error
	// Hang, if set, is called; then the call returns only when its context is done.
	Hang func()
}

// A Fake is a server in memory. It follows a script and keeps the calls that reached it.
type Fake struct {
	gate tool.Gate

	mu          sync.Mutex
	steps       []Step
	calls       []run.ToolCall
	definitions map[string]tool.Definition
}

var _ tool.Discoverer = (*Fake)(nil)

// NewFake makes a Fake that takes one of steps a call and then goes on with the last. Without any it answers with the
// arguments.
func NewFake(steps ...Step) *Fake {
	return &Fake{steps: slices.Clone(steps), definitions: map[string]tool.Definition{}}
}

// Define makes the Fake describe a tool from now on.
func (f *Fake) Define(name string, d tool.Definition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.definitions[name] = d
}

// Calls are the calls so far, in order.
func (f *Fake) Calls() []run.ToolCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Execute implements tool.Server.
func (f *Fake) Execute(ctx context.Context, call run.ToolCall) (run.ToolResult, error) {
	ctx, leave, err := f.gate.Enter(ctx)
	if err != nil {
		return run.ToolResult{}, err
	}
	defer leave()
	step := f.take(call)
	switch {
	case step.Err != nil:
		e := *step.Err
		return run.ToolResult{}, &e
	case step.Fail != nil:
		return run.ToolResult{}, &tool.Error{
			Code: tool.CleanCode(step.Fail.Code, tool.CodeToolError), Message: tool.CleanMessage(step.Fail.Message), Outcome: tool.Refused, Retryable: step.Fail.Retryable,
		}
	case step.Hang != nil:
		step.Hang()
		return run.ToolResult{}, hang(ctx)
	case step.Data == nil:
		return tool.Bound(call.Arguments, call.MaxResultBytes)
	}
	return tool.Bound(step.Data, call.MaxResultBytes)
}

func (f *Fake) take(call run.ToolCall) Step {
	f.mu.Lock()
	defer f.mu.Unlock()
	call.Arguments = slices.Clone(call.Arguments)
	f.calls = append(f.calls, call)
	if len(f.steps) == 0 {
		return Step{}
	}
	step := f.steps[0]
	if len(f.steps) > 1 {
		f.steps = f.steps[1:]
	}
	return step
}

// Discover implements tool.Discoverer.
func (f *Fake) Discover(_ context.Context, name string) (tool.Definition, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.definitions[name]
	if !ok {
		return tool.Definition{}, unknown()
	}
	return d, nil
}

// Close implements tool.Server.
func (f *Fake) Close() { f.gate.Close() }

func hang(ctx context.Context) *tool.Error {
	<-ctx.Done()
	return &tool.Error{Code: tool.CodeTimeout, Message: "The tool server did not answer in time.", Outcome: tool.InDoubt, Retryable: true, Err: ctx.Err()}
}

func unknown() *tool.Error {
	return &tool.Error{Code: tool.CodeUnknownTool, Message: "The server has no such tool.", Outcome: tool.Refused}
}
