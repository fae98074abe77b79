// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"bytes"
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

// NewRunner makes a Runner of tools whose answers rest on the named source.
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

// Has says whether there is a tool of that name.
func (r *Runner) Has(name string) bool {
	_, ok := r.byName[name]
	return ok
}

// Call runs the tool of that name. No arguments at all stand for {}.
func (r *Runner) Call(ctx context.Context, name string, arguments json.RawMessage) (*Result, *Error) {
	select {
	case r.running <- struct{}{}:
		defer func() { <-r.running }()
	default:
		return nil, Errorf(Overloaded, "%d calls are under way already", MaxRunning)
	}
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	defer cancel()

	result, err := r.call(ctx, name, arguments)
	if known, ok := errors.AsType[*Error](err); ok {
		return nil, known
	}
	switch {
	case ctx.Err() != nil:
		return nil, Errorf(DeadlineExceeded, "the call was not done in time")
	case err != nil:
		r.log.ErrorContext(ctx, "call failed", "tool", name, "error", err)
		return nil, Errorf(Internal, "the tool server failed")
	}
	return result, nil
}

func (r *Runner) call(ctx context.Context, name string, arguments json.RawMessage) (*Result, error) {
	t, ok := r.byName[name]
	if !ok {
		return nil, Errorf(UnknownTool, "there is no such tool")
	}
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if err := checkArguments(t.input, arguments); err != nil {
		return nil, err
	}
	answer, err := contain(ctx, t.Tool, arguments)
	if err != nil {
		return nil, err
	}
	data, err := encode(answer.Data)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	// The protocols promise a list, even an empty one.
	sources := append([]Source{}, answer.Sources...)
	return &Result{data, sources, r.now().UTC(), r.sourceVersion}, nil
}

// contain turns a tool's panic into an error: a bug in one call must not end the others. The value is left out, since it
// may hold arguments; the stack is what finds the bug.
func contain(ctx context.Context, t Tool, arguments json.RawMessage) (answer Answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic (%T) at %s", v, debug.Stack())
		}
	}()
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	return t.Run(ctx, arguments)
}

// encode leaves <, > and & as they are: nothing here ends up in a page, and a model reads "<dialog>" better.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
