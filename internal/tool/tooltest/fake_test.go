// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tooltest_test

import (
	"context"
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/internal/tool"
	"github.com/interlock-dev/interlock/internal/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFake_keepsTheContract(t *testing.T) {
	tooltest.RunPort(t, func(_ *testing.T, b tooltest.Behaviour) tool.Server {
		if b.Gone {
			return tooltest.Faulty(tooltest.NewFake(), map[int]tooltest.Kind{1: tooltest.Fail})
		}
		return tooltest.NewFake(tooltest.Step{Data: b.Data, Fail: b.Fail, Hang: b.Hang})
	})
}

func TestFake_followsItsScript(t *testing.T) {
	f := tooltest.NewFake(
		tooltest.Step{Data: json.RawMessage(`1`)},
		tooltest.Step{Err: &tool.Error{Code: "Busy", Message: "m", Outcome: tool.Refused, Retryable: true}},
		tooltest.Step{},
	)
	if got, err := f.Execute(t.Context(), tooltest.Call(`{"n":1}`)); err != nil || string(got.Data) != `1` {
		t.Errorf("got %s, %v", got.Data, err)
	}
	_, err := f.Execute(t.Context(), tooltest.Call(`{"n":2}`))
	tooltest.WantError(t, err, "Busy", tool.Refused, true)
	for range 2 {
		if got, err := f.Execute(t.Context(), tooltest.Call(`{"n":3}`)); err != nil || string(got.Data) != `{"n":3}` {
			t.Errorf("got %s, %v", got.Data, err)
		}
	}
	if calls := f.Calls(); len(calls) != 4 || string(calls[1].Arguments) != `{"n":2}` {
		t.Errorf("got %v", calls)
	}
}

func TestFake_describesWhatIsDefined(t *testing.T) {
	f := tooltest.NewFake()
	_, err := f.Discover(t.Context(), "lookup")
	tooltest.WantError(t, err, tool.CodeUnknownTool, tool.Refused, false)
	f.Define("lookup", tool.Definition{Digest: "sha256:1"})
	if d, err := tooltest.Faulty(f, nil).Discover(t.Context(), "lookup"); err != nil || d.Digest != "sha256:1" {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestFaulty_makesTheNthCallGoWrong(t *testing.T) {
	f := tooltest.NewFake()
	server := tooltest.Faulty(f, map[int]tooltest.Kind{1: tooltest.Fail, 2: tooltest.Lose, 3: tooltest.Hang})
	_, err := server.Execute(t.Context(), tooltest.Call(`{}`))
	tooltest.WantError(t, err, tool.CodeUnavailable, tool.NotSent, true)
	_, err = server.Execute(t.Context(), tooltest.Call(`{}`))
	tooltest.WantError(t, err, tool.CodeUnavailable, tool.InDoubt, true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = server.Execute(ctx, tooltest.Call(`{}`))
	tooltest.WantError(t, err, tool.CodeTimeout, tool.InDoubt, true)
	if _, err := server.Execute(t.Context(), tooltest.Call(`{}`)); err != nil {
		t.Error(err)
	}
	if n := len(f.Calls()); n != 2 {
		t.Errorf("%d calls reached the server, want the lost one and the last", n)
	}
}
