// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tool runs tools: it checks a call's arguments against the tool's schema, bounds it in time and number, and turns
// whatever goes wrong into an Error with a code. The HTTP tool protocol and MCP are two doors to the same Runner.
//
// The tools it knows only read: the same call may be made any number of times. Nothing here knows of a transport or of what
// a tool is about. The main type is Runner.
package tool

import (
	"context"
	"encoding/json"
	"time"
)

// A Tool is one function that a model may call.
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
	// Run does it. The arguments fit InputSchema. It is safe for concurrent use, returns when ctx is done, and an error that
	// is no *Error is reported as Internal, without its text.
	Run func(ctx context.Context, arguments json.RawMessage) (Answer, error)
}

// An Answer is what a tool found.
type Answer struct {
	// Data is a JSON object once it is encoded, and fits the tool's OutputSchema.
	Data any
	// Sources are what Data rests on, to be cited.
	Sources []Source
}

// A Source is something that can be cited.
type Source struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

// A Result is an Answer with where and when it was read.
type Result struct {
	Data    json.RawMessage
	Sources []Source
	// ObservedAt is when the source was read. Two runs of one call may differ in it, and in nothing else.
	ObservedAt time.Time
	// SourceVersion names the dataset that was read.
	SourceVersion string
}
