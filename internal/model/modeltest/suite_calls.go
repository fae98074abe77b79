// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

// Request is a request with everything in it: instructions, a history with parallel calls and their results, and tools.
func Request() run.ModelRequest {
	return run.ModelRequest{
		ID:     "run-1-s1",
		Step:   1,
		System: "Be brief.",
		Messages: []run.Message{
			{Role: run.RoleUser, Text: "Compare the two."},
			{Role: run.RoleAssistant, Calls: []run.MessageCall{
				{ID: "s0c1", Tool: "search", Arguments: json.RawMessage(`{"query":"one"}`)},
				{ID: "s0c2", Tool: "read-file_2", Arguments: json.RawMessage(`{}`)},
			}},
			{Role: run.RoleTool, CallID: "s0c1", Text: "first result"},
			{Role: run.RoleTool, CallID: "s0c2", Text: ""},
			{Role: run.RoleAssistant, Text: "Both are found."},
			{Role: run.RoleUser, Text: "Go on."},
		},
		Tools: []run.ToolDefinition{
			{Name: "search", Description: "Finds things.", InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`)},
			{Name: "read-file_2", InputSchema: json.RawMessage(`{"type":"object"}`)},
		},
		Attempt:         1,
		MaxOutputTokens: 1000,
	}
}

func runContexts(t *testing.T, newModel NewModel) {
	t.Helper()
	t.Run("a call that is cancelled under way returns", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := newModel(t, Behaviour{Hang: cancel}).Complete(ctx, Request())
		wantError(t, err, model.ReasonTimeout)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want one that wraps the context's", err)
		}
	})
	t.Run("a call whose deadline passes returns", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := newModel(t, Behaviour{Hang: func() {}}).Complete(ctx, Request())
		wantError(t, err, model.ReasonTimeout)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want one that wraps the context's", err)
		}
	})
	t.Run("a call with a context that is done asks nobody", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m := newModel(t, Behaviour{Hang: func() { t.Error("the provider was asked") }})
		_, err := m.Complete(ctx, Request())
		wantError(t, err, model.ReasonTimeout)
	})
}

func runConcurrent(t *testing.T, newModel NewModel) {
	t.Helper()
	want := run.Reply{Text: "hello", Calls: numbered(3), Finish: run.FinishStop}
	m := newModel(t, Behaviour{Reply: want})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			got, err := m.Complete(t.Context(), Request())
			if err != nil {
				t.Errorf("Complete() = %v", err)
				return
			}
			if diff := cmp.Diff(want.Calls, got.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			// A reply belongs to its caller: what is done to it shows in no other.
			got.Calls[0] = run.Proposal{Tool: "changed"}
		})
	}
	wg.Wait()
}
