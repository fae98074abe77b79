// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package modeltest holds what every model adapter is tested with: the contract suite Run, and two wrappers for tests of
// what stands above the port. Faulty makes the nth call fail in a chosen way; Slow makes every call take its time.
//
// The suite sees an adapter only through the port. What is said on the wire is the business of the adapter's own tests.
package modeltest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

// A Behaviour is what the provider behind an adapter does. Exactly one field of Reply, Fail and Hang has a meaning.
type Behaviour struct {
	// Reply is the provider's answer to every request, in the words of the port.
	Reply run.Reply
	// Fail, if set, is how every request fails, and RetryAfter what the provider advises with it, in whole seconds.
	Fail       model.Reason
	RetryAfter time.Duration
	// Hang, if set, is called when the provider has a request, which it then never answers.
	Hang func()
}

// A NewModel gives an adapter whose provider behaves as b says, until the test ends.
type NewModel func(t *testing.T, b Behaviour) model.Model

// Script is a one-turn script for the scripted adapter that behaves as b says. Its delay stands for Hang.
func (b Behaviour) Script() []byte {
	turn := map[string]any{"text": b.Reply.Text, "finish": b.Reply.Finish}
	calls := make([]map[string]any, 0, len(b.Reply.Calls))
	for _, c := range b.Reply.Calls {
		calls = append(calls, map[string]any{"id": c.ModelCallID, "tool": c.Tool, "rawArguments": c.Arguments})
	}
	turn["calls"] = calls
	if u := b.Reply.Usage; u.Reported {
		turn["usage"] = map[string]any{"input": u.Input, "cachedInput": u.CachedInput, "output": u.Output, "reasoning": u.Reasoning}
	}
	if b.Fail != "" {
		turn["fail"] = map[string]any{"times": 1000, "reason": b.Fail, "retryAfterSeconds": int64(b.RetryAfter / time.Second)}
	}
	if b.Hang != nil {
		turn["delayMilliseconds"] = int64(10 * time.Minute / time.Millisecond)
	}
	script, err := json.Marshal(map[string]any{"turns": []any{turn}})
	if err != nil {
		panic(err) // a map of strings and numbers always has a JSON form
	}
	return script
}
