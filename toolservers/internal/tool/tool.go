// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tool runs tools: it checks a call's arguments against the tool's schema, bounds it in time and number, and turns
// whatever goes wrong into an Error with a code. The HTTP tool protocol and MCP are two doors to the same Runner.
//
// A tool reads, and may then be called any number of times, or it writes, and does an operation once. Doing it once is up to
// the tool, which alone can store effect and answer together; Identity is what they all need for that. Nothing here knows
// of a transport or of what a tool is about. The main type is Runner.
package tool

import (
	"context"
	"encoding/json"
	"errors"
)

// A Tool is one function that a model may call. What it does is one of three: Call, Write, or Preview and Commit. All of
// them get arguments that fit InputSchema. They are safe for concurrent use, return when ctx is done, and an error that is
// no *Error is reported as Internal, without its text.
type Tool struct {
	// Name is how calls name it.
	Name string
	// Title is its name for people.
	Title string
	// Description tells a model when and how to use it.
	Description string
	// InputSchema and OutputSchema are JSON Schema 2020-12. Both are of type object.
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage

	// Call reads. By MCP, the operation has arguments and nothing else.
	Call func(ctx context.Context, op Operation) (Answer, error)
	// Write does the operation, or gives the answer that is stored if it was done before.
	Write func(ctx context.Context, op Operation) (*Result, error)
	// Preview says what Commit would do, and changes nothing that anybody could see.
	Preview func(ctx context.Context, op Operation) (*Preview, error)
	// Commit does what was previewed or nothing, or gives the answer that is stored if it was done before.
	Commit func(ctx context.Context, op Operation, p Precondition) (*Result, error)
}

// Reads says whether the tool changes nothing.
func (t Tool) Reads() bool { return t.Call != nil }

// HasPreview says whether the tool is called in two steps.
func (t Tool) HasPreview() bool { return t.Preview != nil }

// check refuses a tool of which it isn't clear how it is called.
func (t Tool) check() error {
	if (t.Preview == nil) != (t.Commit == nil) {
		return errors.New("Preview and Commit go together")
	}
	ways := 0
	for _, is := range []bool{t.Call != nil, t.Write != nil, t.Preview != nil} {
		if is {
			ways++
		}
	}
	if ways != 1 {
		return errors.New("it is to have one of Call, Write, and Preview with Commit")
	}
	return nil
}
