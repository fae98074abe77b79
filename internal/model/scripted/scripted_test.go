// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package scripted_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/model/modeltest"
	"github.com/interlock-dev/interlock/internal/model/scripted"
	"github.com/interlock-dev/interlock/internal/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) { modeltest.Run(t, behaving) }

// The wrappers are transparent where no fault is planned, so they pass the same suite.
func TestContract_wrapped(t *testing.T) {
	modeltest.Run(t, func(t *testing.T, b modeltest.Behaviour) model.Model {
		t.Helper()
		return modeltest.NewFaulty(modeltest.Slow(behaving(t, b), time.Nanosecond), nil)
	})
}

func behaving(t *testing.T, b modeltest.Behaviour) model.Model {
	t.Helper()
	wait := func(ctx context.Context, _ time.Duration) error {
		b.Hang()
		<-ctx.Done()
		return ctx.Err()
	}
	m, err := scripted.NewWithWait(model.Config{Script: b.Script()}, wait)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func aModel(t *testing.T, script string) model.Model {
	t.Helper()
	m, err := scripted.New(model.Config{Script: []byte(script)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func at(step, attempt int) run.ModelRequest { return run.ModelRequest{Step: step, Attempt: attempt} }

func TestComplete_answersEachStepWithItsTurnHoweverOftenItIsAsked(t *testing.T) {
	m := aModel(t, "turns:\n- text: one\n- text: two\n")
	for _, tc := range []struct {
		step int
		want string
	}{{2, "two"}, {1, "one"}, {2, "two"}} {
		reply, err := m.Complete(t.Context(), at(tc.step, 1))
		if err != nil || reply.Text != tc.want {
			t.Errorf("step %d: %q, %v, want %q", tc.step, reply.Text, err, tc.want)
		}
	}
}

func TestComplete_isOverAfterTheLastTurn(t *testing.T) {
	_, err := aModel(t, "turns:\n- text: one\n").Complete(t.Context(), at(2, 1))
	if want := "InvalidRequest: the script has 1 turns and turn 2 was asked for"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestComplete_failsTheFirstAttempts(t *testing.T) {
	m := aModel(t, "turns:\n- text: at last\n  fail: {times: 2, reason: RateLimited, retryAfterSeconds: 3}\n")
	for attempt := 1; attempt <= 2; attempt++ {
		_, err := m.Complete(t.Context(), at(1, attempt))
		var failed *model.Error
		if !errors.As(err, &failed) || failed.Reason != model.ReasonRateLimited || failed.RetryAfter != 3*time.Second {
			t.Errorf("attempt %d: %v, want RateLimited with an advice of 3s", attempt, err)
		}
	}
	if reply, err := m.Complete(t.Context(), at(1, 3)); err != nil || reply.Text != "at last" {
		t.Errorf("attempt 3: %q, %v, want the answer", reply.Text, err)
	}
}

func TestComplete_waitsBeforeAnAnswerAndBeforeAFailure(t *testing.T) {
	var waited []time.Duration
	script := "turns:\n- {text: one, delayMilliseconds: 500}\n- {delayMilliseconds: 20, fail: {times: 1, reason: Timeout}}\n- text: three\n"
	m, err := scripted.NewWithWait(model.Config{Script: []byte(script)}, func(_ context.Context, d time.Duration) error {
		waited = append(waited, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= 3; step++ {
		_, _ = m.Complete(t.Context(), at(step, 1))
	}
	if diff := cmp.Diff([]time.Duration{500 * time.Millisecond, 20 * time.Millisecond}, waited); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestComplete_saysWhichModelItIs(t *testing.T) {
	m, err := scripted.New(model.Config{Model: "rehearsal", Script: []byte("turns: [{text: hi}]")})
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := m.Complete(t.Context(), at(1, 1)); err != nil || reply.Model != "rehearsal" {
		t.Errorf("model = %q, %v, want rehearsal", reply.Model, err)
	}
}
