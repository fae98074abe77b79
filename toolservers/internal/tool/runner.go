// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on calls.
const (
	// MaxArgumentBytes is the longest arguments that a door has to let in.
	MaxArgumentBytes = 64 << 10
	// MaxRunning is how many calls run side by side; the next are told to come back.
	MaxRunning = 64
	// maxDuration ends a call whose caller set no deadline.
	maxDuration = 10 * time.Second
)

// A Runner calls tools by name. It is safe for concurrent use.
type Runner struct {
	sourceVersion string
	now           func() time.Time
	log           *slog.Logger
	tools         []Tool
	byName        map[string]entry
	running       chan struct{}
}

type entry struct {
	Tool
	input *jsonschema.Schema
}

// NewRunner makes a Runner of tools. What they read rests on the named source; what they write says so itself.
func NewRunner(sourceVersion string, now func() time.Time, log *slog.Logger, tools ...Tool) (*Runner, error) {
	r := &Runner{
		sourceVersion: sourceVersion,
		now:           now,
		log:           log,
		tools:         tools,
		byName:        make(map[string]entry, len(tools)),
		running:       make(chan struct{}, MaxRunning),
	}
	for _, t := range tools {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("the tool %s: %w", t.Name, err)
		}
		input, err := compile(t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("compiling the input schema of %s: %w", t.Name, err)
		}
		r.byName[t.Name] = entry{t, input}
	}
	return r, nil
}

// Tools lists what can be called. The list is not to be changed.
func (r *Runner) Tools() []Tool { return r.tools }

// Find gives the tool of that name.
func (r *Runner) Find(name string) (Tool, bool) {
	t, ok := r.byName[name]
	return t.Tool, ok
}

// Call runs the tool of that name, which reads or writes without a preview. No arguments at all stand for {}.
func (r *Runner) Call(ctx context.Context, name string, op Operation) (*Result, *Error) {
	return perform(ctx, r, name, op, func(ctx context.Context, t Tool, op Operation) (*Result, error) {
		switch {
		case t.Write != nil:
			return t.Write(ctx, op)
		case t.Call == nil:
			return nil, Errorf(UnknownTool, "the tool is not called in one step")
		}
		answer, err := t.Call(ctx, op)
		if err != nil {
			return nil, err
		}
		return answer.Result(r.now(), r.sourceVersion)
	})
}

// Preview asks the tool of that name what a commit of the operation would do.
func (r *Runner) Preview(ctx context.Context, name string, op Operation) (*Preview, *Error) {
	return perform(ctx, r, name, op, func(ctx context.Context, t Tool, op Operation) (*Preview, error) {
		if t.Preview == nil {
			return nil, Errorf(UnknownTool, "the tool has no previews")
		}
		return t.Preview(ctx, op)
	})
}

// Commit has the tool of that name do what was previewed.
func (r *Runner) Commit(ctx context.Context, name string, op Operation, p Precondition) (*Result, *Error) {
	return perform(ctx, r, name, op, func(ctx context.Context, t Tool, op Operation) (*Result, error) {
		if t.Commit == nil {
			return nil, Errorf(UnknownTool, "the tool has no previews")
		}
		return t.Commit(ctx, op, p)
	})
}

// Ask asks the ledger what became of an operation, within the same bounds as a call.
func (r *Runner) Ask(ctx context.Context, ledger Ledger, id, principal string) (*OperationState, *Error) {
	return bound(ctx, r, "", func(ctx context.Context) (*OperationState, error) {
		state, err := ledger.Operation(ctx, id, principal)
		return &state, err
	})
}

// perform lets the named tool work on arguments that fit its schema.
func perform[T any](
	ctx context.Context, r *Runner, name string, op Operation, work func(context.Context, Tool, Operation) (*T, error),
) (*T, *Error) {
	return bound(ctx, r, name, func(ctx context.Context) (*T, error) {
		t, ok := r.byName[name]
		if !ok {
			return nil, Errorf(UnknownTool, "there is no such tool")
		}
		if len(op.Arguments) == 0 {
			op.Arguments = json.RawMessage("{}")
		}
		if err := checkArguments(t.input, op.Arguments); err != nil {
			return nil, err
		}
		return work(ctx, t.Tool, op)
	})
}

// bound does the work in a bounded time, beside a bounded number of others, and sorts its errors. What is done in spite of
// a deadline that has passed is still told: for a write, any answer is better than doubt.
func bound[T any](ctx context.Context, r *Runner, name string, work func(context.Context) (*T, error)) (*T, *Error) {
	select {
	case r.running <- struct{}{}:
		defer func() { <-r.running }()
	default:
		return nil, Errorf(Overloaded, "%d calls are under way already", MaxRunning)
	}
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	defer cancel()

	done, err := contain(ctx, work)
	if err == nil {
		return done, nil
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return nil, known
	}
	if ctx.Err() != nil {
		return nil, Errorf(DeadlineExceeded, "the call was not done in time")
	}
	r.log.ErrorContext(ctx, "call failed", "tool", name, "error", err)
	return nil, Errorf(Internal, "the tool server failed")
}

// contain turns a tool's panic into an error: a bug in one call must not end the others. The value is left out, since it
// may hold arguments; the stack is what finds the bug.
func contain[T any](ctx context.Context, work func(context.Context) (*T, error)) (done *T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic (%T) at %s", v, debug.Stack())
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return work(ctx)
}
