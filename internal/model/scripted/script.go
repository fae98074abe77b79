// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

// Limits of a script.
const (
	// MaxBytes bounds the document.
	MaxBytes = 256 << 10
	// MaxTurns bounds the turns.
	MaxTurns = 200

	maxDelayMilliseconds = 10 * 60 * 1000
	maxFailures          = 1000
	maxRetryAfterSeconds = 24 * 60 * 60
	maxTokens            = 1_000_000_000
)

// A Script is a parsed script, ready to be asked, and never changed. It is written in YAML or JSON:
//
//	turns:                            # the answer to step 1, 2, …
//	- expect:                         # optional: what the model must be shown, or the run fails
//	    contains: ["2 results"]       # each is in one of the messages since the model last spoke
//	    tools: [search-technologies]  # exactly these tools are on offer, in any order
//	  text: "Let me look."
//	  calls:
//	  - tool: search-technologies
//	    arguments: {query: "fsm"}     # an object; {} if left out
//	    id: "call_1"                  # the model's own ID; empty if left out
//	  - tool: search-technologies
//	    rawArguments: "{not JSON"     # instead of arguments: the string as it is
//	  finish: Stop                    # Stop (if left out), Length or Refused
//	  usage: {input: 120, output: 30, cachedInput: 0, reasoning: 0}   # not reported if left out
//	  delayMilliseconds: 500          # waited before the answer, and before a failure
//	  fail: {times: 2, reason: Unavailable, retryAfterSeconds: 1}     # the first attempts fail so
//
// It has at most MaxTurns turns and MaxBytes bytes. In YAML, numbers and booleans are written as JSON writes them, and there
// are no anchors and no tags.
type Script struct {
	turns []turn
}

type document struct {
	Turns []turn `json:"turns"`
}

type turn struct {
	Expect            *expectation `json:"expect"`
	Text              string       `json:"text"`
	Calls             []call       `json:"calls"`
	Finish            run.Finish   `json:"finish"`
	Usage             *usage       `json:"usage"`
	DelayMilliseconds int64        `json:"delayMilliseconds"`
	Fail              *failure     `json:"fail"`
}

type expectation struct {
	Contains []string `json:"contains"`
	// Tools is nil if the script does not say; an empty list expects that no tool is on offer.
	Tools []string `json:"tools"`
}

type call struct {
	ID           string          `json:"id"`
	Tool         string          `json:"tool"`
	Arguments    json.RawMessage `json:"arguments"`
	RawArguments *string         `json:"rawArguments"`
}

type usage struct {
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cachedInput"`
	Output      int64 `json:"output"`
	Reasoning   int64 `json:"reasoning"`
}

type failure struct {
	Times             int          `json:"times"`
	Reason            model.Reason `json:"reason"`
	RetryAfterSeconds int64        `json:"retryAfterSeconds"`
}

// Parse reads a script, YAML or JSON. It is strict: an unknown or repeated key, a value out of bounds or an unknown word is
// an error that names its place. Numbers in arguments keep the text they are written with.
func Parse(script []byte) (*Script, error) {
	if len(script) > MaxBytes {
		return nil, fmt.Errorf("the script has %d bytes; at most %d are read", len(script), MaxBytes)
	}
	if !json.Valid(script) {
		converted, err := yamlToJSON(script)
		if err != nil {
			return nil, fmt.Errorf("reading the script: %w", err)
		}
		script = converted
	}
	var doc document
	strict, err := kjson.UnmarshalStrict(script, &doc)
	if err := cmp.Or(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	if n := len(doc.Turns); n < 1 || n > MaxTurns {
		return nil, fmt.Errorf("the script has %d turns; it needs 1 to %d", n, MaxTurns)
	}
	for i := range doc.Turns {
		if err := doc.Turns[i].complete(); err != nil {
			return nil, fmt.Errorf("turns[%d]%w", i, err)
		}
	}
	return &Script{turns: doc.Turns}, nil
}

// complete checks a turn and fills in what it leaves out.
func (t *turn) complete() error {
	switch t.Finish {
	case "":
		t.Finish = run.FinishStop
	case run.FinishStop, run.FinishLength, run.FinishRefused:
	default:
		return fmt.Errorf(".finish: %q is none of Stop, Length, Refused", t.Finish)
	}
	if err := within(".delayMilliseconds", t.DelayMilliseconds, 0, maxDelayMilliseconds); err != nil {
		return err
	}
	for i := range t.Calls {
		if err := t.Calls[i].complete(); err != nil {
			return fmt.Errorf(".calls[%d]%w", i, err)
		}
	}
	if err := t.Usage.check(); err != nil {
		return err
	}
	return t.Fail.check()
}

func (c *call) complete() error {
	switch {
	case c.RawArguments != nil && c.Arguments != nil:
		return errors.New(": give arguments or rawArguments, not both")
	case c.RawArguments != nil:
		return nil
	case c.Arguments == nil:
		c.Arguments = json.RawMessage("{}")
		return nil
	case c.Arguments[0] != '{':
		return errors.New(".arguments: not an object; rawArguments takes any string")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, c.Arguments); err != nil {
		return fmt.Errorf(".arguments: %w", err)
	}
	c.Arguments = compact.Bytes()
	return nil
}

// text is the string that the model gives for arguments.
func (c call) text() string {
	if c.RawArguments != nil {
		return *c.RawArguments
	}
	return string(c.Arguments)
}

func (u *usage) check() error {
	if u == nil {
		return nil
	}
	return cmp.Or(
		within(".usage.input", u.Input, 0, maxTokens),
		within(".usage.cachedInput", u.CachedInput, 0, u.Input),
		within(".usage.output", u.Output, 0, maxTokens),
		within(".usage.reasoning", u.Reasoning, 0, u.Output),
	)
}

func (f *failure) check() error {
	if f == nil {
		return nil
	}
	switch f.Reason {
	case model.ReasonUnavailable, model.ReasonRateLimited, model.ReasonTimeout, model.ReasonMalformed, model.ReasonUnauthorized,
		model.ReasonNotFound, model.ReasonContextLength, model.ReasonInvalidRequest, model.ReasonRefused:
	default:
		return fmt.Errorf(".fail.reason: %q is not a reason", f.Reason)
	}
	return cmp.Or(
		within(".fail.times", int64(f.Times), 1, maxFailures),
		within(".fail.retryAfterSeconds", f.RetryAfterSeconds, 0, maxRetryAfterSeconds),
	)
}

func within(field string, n, low, high int64) error {
	if n < low || n > high {
		return fmt.Errorf("%s: %d is not from %d to %d", field, n, low, high)
	}
	return nil
}
