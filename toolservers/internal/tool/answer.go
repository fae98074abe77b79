// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// An Answer is what a tool found or did.
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

// A Result is an Answer with where and when it was read. Its JSON is the protocol's, so a tool that writes can store it and
// give it again.
type Result struct {
	// ObservedAt is when the source was read. Two runs of one call may differ in it, and in nothing else.
	ObservedAt time.Time `json:"observedAt"`
	// SourceVersion names the dataset that was read.
	SourceVersion string          `json:"sourceVersion"`
	Data          json.RawMessage `json:"data"`
	Sources       []Source        `json:"sources"`
}

// Result encodes the answer, which rests on the named source as it was at that time.
func (a Answer) Result(at time.Time, sourceVersion string) (*Result, error) {
	data, err := encode(a.Data)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	// The protocols promise a list, even an empty one.
	sources := append([]Source{}, a.Sources...)
	return &Result{at.UTC(), sourceVersion, data, sources}, nil
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
