// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package modeltest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/model/modeltest"
	"github.com/interlock-dev/interlock/internal/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counting answers with the number of the call.
type counting struct{ asked int }

func (c *counting) Complete(context.Context, run.ModelRequest) (run.Reply, error) {
	c.asked++
	return run.Reply{Text: "answer", Finish: run.FinishStop}, nil
}

func TestFaulty_failsTheNthCallOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		fault      modeltest.Fault
		wantReason model.Reason
		wantAsked  int
	}{
		"a failure does not reach the model": {
			fault: modeltest.Fault{Kind: modeltest.Fail, Reason: model.ReasonRateLimited, RetryAfter: time.Second}, wantReason: model.ReasonRateLimited, wantAsked: 2,
		},
		"a lost answer is charged": {fault: modeltest.Fault{Kind: modeltest.Lose, RetryAfter: time.Second}, wantReason: model.ReasonUnavailable, wantAsked: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &counting{}
			m := modeltest.NewFaulty(inner, map[int]modeltest.Fault{2: tc.fault})
			for n := 1; n <= 3; n++ {
				_, err := m.Complete(t.Context(), run.ModelRequest{})
				var failed *model.Error
				if n != 2 {
					if err != nil {
						t.Errorf("call %d: %v, want none", n, err)
					}
				} else if !errors.As(err, &failed) || failed.Reason != tc.wantReason || failed.RetryAfter != time.Second {
					t.Errorf("call %d: %v, want %s and an advice", n, err, tc.wantReason)
				}
			}
			if inner.asked != tc.wantAsked || m.Calls() != 3 {
				t.Errorf("asked %d times in %d calls, want %d in 3", inner.asked, m.Calls(), tc.wantAsked)
			}
		})
	}
}

func TestFaulty_hangsUntilItsContextIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		inner := &counting{}
		start := time.Now()
		_, err := modeltest.NewFaulty(inner, map[int]modeltest.Fault{1: {Kind: modeltest.Hang}}).Complete(ctx, run.ModelRequest{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute || inner.asked != 0 {
			t.Errorf("%v after %v, asked %d times; want the deadline after a minute, never asked", err, time.Since(start), inner.asked)
		}
	})
}

func TestSlow_addsItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		reply, err := modeltest.Slow(&counting{}, time.Minute).Complete(t.Context(), run.ModelRequest{})
		if err != nil || reply.Text != "answer" || time.Since(start) != time.Minute {
			t.Errorf("%v, %v after %v; want the answer after a minute", reply, err, time.Since(start))
		}
	})
}

func TestSlow_givesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		inner := &counting{}
		_, err := modeltest.Slow(inner, time.Minute).Complete(ctx, run.ModelRequest{})
		var failed *model.Error
		if !errors.As(err, &failed) || failed.Reason != model.ReasonTimeout || inner.asked != 0 {
			t.Errorf("%v, asked %d times; want a timeout, never asked", err, inner.asked)
		}
	})
}
