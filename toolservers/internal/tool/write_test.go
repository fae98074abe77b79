// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func write(context.Context, Operation) (*Result, error) {
	return &Result{SourceVersion: "written"}, nil
}

func preview(context.Context, Operation) (*Preview, error) { return &Preview{ID: "p"}, nil }

func commit(_ context.Context, op Operation, p Precondition) (*Result, error) {
	return &Result{SourceVersion: op.ID + " of " + p.PreviewID}, nil
}

func TestNewRunner_refusesToolsThatAreNotOneThing(t *testing.T) {
	for name, tool := range map[string]Tool{
		"that do nothing":         {},
		"that read and write":     {Call: echo, Write: write},
		"that write in two ways":  {Write: write, Preview: preview, Commit: commit},
		"without a commit":        {Preview: preview},
		"without a preview":       {Commit: commit},
		"that read with previews": {Call: echo, Preview: preview, Commit: commit},
	} {
		tool.InputSchema = json.RawMessage(`{"type":"object"}`)
		if _, err := NewRunner("", nil, nil, tool); err == nil {
			t.Errorf("tools %s: accepted", name)
		}
	}
}

func TestRunner_takesEachToolItsOwnWay(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	r, err := NewRunner("words@1", time.Now, slog.New(slog.DiscardHandler),
		Tool{Name: "read", InputSchema: schema, Call: echo},
		Tool{Name: "write", InputSchema: schema, Write: write},
		Tool{Name: "steps", InputSchema: schema, Preview: preview, Commit: commit})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range []string{"read", "write", "steps", "none"} {
		called, callErr := r.Call(t.Context(), name, with(`{}`))
		_, previewErr := r.Preview(t.Context(), name, with(`{}`))
		committed, commitErr := r.Commit(t.Context(), name, with(`{}`), Precondition{PreviewID: "p"})
		line := name + ":"
		if callErr == nil {
			line += " called " + called.SourceVersion
		}
		if previewErr == nil {
			line += " previewed"
		}
		if commitErr == nil {
			line += " committed " + committed.SourceVersion
		}
		got = append(got, line)
	}
	want := []string{"read: called words@1", "write: called written", "steps: previewed committed op-1 of p", "none:"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRunner_tellsOfAWriteEvenIfItIsLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := NewRunner("", time.Now, slog.New(slog.DiscardHandler), Tool{
		Name: "write", InputSchema: json.RawMessage(`{}`),
		Write: func(ctx context.Context, op Operation) (*Result, error) {
			cancel()
			return write(ctx, op)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Call(ctx, "write", with(`{}`)); err != nil {
		t.Errorf("Call = %v", err)
	}
}

type ledger func() (OperationState, error)

func (l ledger) Operation(context.Context, string, string) (OperationState, error) { return l() }

func TestAsk_keepsTheLedgersInsideToItself(t *testing.T) {
	r, _ := running(t, echo)
	for want, l := range map[Code]ledger{
		UnknownOperation: func() (OperationState, error) { return OperationState{}, Errorf(UnknownOperation, "no") },
		Internal:         func() (OperationState, error) { return OperationState{}, errors.New("disk on fire") },
	} {
		if _, err := r.Ask(t.Context(), l, "op-1", ""); err == nil || err.Code != want {
			t.Errorf("Ask = %v, want %s", err, want)
		}
	}
	got, err := r.Ask(t.Context(), ledger(func() (OperationState, error) { return OperationState{State: InProgress}, nil }), "op-1", "")
	if err != nil || got.State != InProgress {
		t.Errorf("Ask = %v, %v", got, err)
	}
}

func TestIdentity_isTheSameOnlyForTheSameCall(t *testing.T) {
	op := Operation{ID: "op-1", Principal: "ann", Token: "t", Arguments: json.RawMessage(`{"a":1}`)}
	first := op.Identify("write")
	for name, tt := range map[string]struct {
		change func(*Operation)
		tool   string
		same   bool
	}{
		"nothing":   {func(*Operation) {}, "write", true},
		"token":     {func(o *Operation) { o.Token = "newer" }, "write", true},
		"tool":      {func(*Operation) {}, "wipe", false},
		"principal": {func(o *Operation) { o.Principal = "bob" }, "write", false},
		"arguments": {func(o *Operation) { o.Arguments = json.RawMessage(`{"a": 1}`) }, "write", false},
	} {
		other := op
		tt.change(&other)
		err := other.Identify(tt.tool).Repeats(first)
		if known, _ := errors.AsType[*Error](err); (err == nil) != tt.same || (err != nil && known.Code != IdempotencyKeyReused) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}
