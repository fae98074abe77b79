// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package effect_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/internal/effect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tests run in a bubble of testing/synctest: time is the bubble's own, and Wait returns once nothing can go on.

type executor = effect.Executor[string, string]

func newExecutor(limit int) (*executor, *atomic.Int32) {
	var woken atomic.Int32
	return effect.New[string, string](limit, func(string) { woken.Add(1) }), &woken
}

func job(id string, do func(context.Context) string, behind ...*effect.Bulkhead) effect.Job[string, string] {
	return effect.Job[string, string]{
		Owner: "a", ID: id, Deadline: time.Now().Add(time.Hour), Timeout: time.Minute, Behind: behind, Do: do,
	}
}

// untilDone waits for its context, and says how that ended.
func untilDone(ctx context.Context) string {
	<-ctx.Done()
	return ctx.Err().Error()
}

func TestExecutor_keepsWhatFinishedUntilItIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, woken := newExecutor(10)
		defer x.Close()
		if !x.Start(t.Context(), job("1", func(context.Context) string { return "one" })) {
			t.Fatal("the job is not started")
		}
		synctest.Wait()
		for range 2 {
			if got := x.Finished("a"); len(got) != 1 || got["1"] != "one" {
				t.Errorf("finished: %v", got)
			}
		}
		if woken.Load() != 1 {
			t.Errorf("woken %d times, want once", woken.Load())
		}
		if x.Start(t.Context(), job("1", untilDone)) {
			t.Error("a job that waits to be acknowledged is started again")
		}
		x.Acknowledge("a", "1")
		if got := x.Finished("a"); len(got) != 0 || x.Knows("a", "1") {
			t.Errorf("finished after it is acknowledged: %v", got)
		}
	})
}

func TestExecutor_startsAJobOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newExecutor(10)
		defer x.Close()
		x.Start(t.Context(), job("1", untilDone))
		if x.Start(t.Context(), job("1", untilDone)) {
			t.Error("a job under way is started again")
		}
		if !x.Knows("a", "1") || x.Knows("b", "1") || x.Knows("a", "2") {
			t.Error("it does not know what is under way")
		}
	})
}

func TestExecutor_endsAJobWhenItsTimeIsOver(t *testing.T) {
	for name, test := range map[string]struct {
		deadline, timeout, want time.Duration
		cause                   error
	}{
		"by the timeout":  {time.Hour, time.Minute, time.Minute, context.DeadlineExceeded},
		"by the deadline": {time.Second, time.Minute, time.Second, effect.ErrDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, _ := newExecutor(10)
				defer x.Close()
				begin := time.Now()
				j := job("1", func(ctx context.Context) string {
					untilDone(ctx)
					if cause := context.Cause(ctx); !errors.Is(cause, test.cause) {
						t.Errorf("ended by %v, want %v", cause, test.cause)
					}
					return time.Since(begin).String()
				})
				j.Deadline, j.Timeout = begin.Add(test.deadline), test.timeout
				x.Start(t.Context(), j)
				time.Sleep(2 * time.Hour)
				if got := x.Finished("a")["1"]; got != test.want.String() {
					t.Errorf("ended after %s, want %s", got, test.want)
				}
			})
		})
	}
}

func TestExecutor_outlivesTheContextItWasStartedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newExecutor(10)
		defer x.Close()
		ctx, cancel := context.WithCancel(t.Context())
		x.Start(ctx, job("1", untilDone))
		cancel()
		synctest.Wait()
		if got := x.Finished("a"); len(got) != 0 {
			t.Errorf("the job ended with the reconcile that started it: %v", got)
		}
	})
}

func TestExecutor_stopAbortsAndForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, woken := newExecutor(10)
		defer x.Close()
		var ended atomic.Int32
		x.Start(t.Context(), job("1", func(ctx context.Context) string { ended.Add(1); return untilDone(ctx) }))
		x.Start(t.Context(), job("2", func(context.Context) string { return "two" }))
		synctest.Wait()
		x.Stop("a")
		synctest.Wait()
		if got := x.Finished("a"); len(got) != 0 || x.Knows("a", "1") || ended.Load() != 1 || woken.Load() != 1 {
			t.Errorf("after Stop: finished %v, %d ended, woken %d times", got, ended.Load(), woken.Load())
		}
		if !x.Start(t.Context(), job("1", untilDone)) {
			t.Error("nothing can be started after Stop")
		}
	})
}

func TestExecutor_bulkheadsBoundWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newExecutor(3)
		defer x.Close()
		var bulkheads effect.Bulkheads
		narrow := bulkheads.Get("narrow", 2)
		if bulkheads.Get("narrow", 2) != narrow || bulkheads.Get("other", 2) == narrow {
			t.Fatal("a bulkhead is not its key's")
		}
		var underWay, most atomic.Int32
		do := func(context.Context) string {
			most.Store(max(most.Load(), underWay.Add(1)))
			<-time.After(time.Second)
			underWay.Add(-1)
			return ""
		}
		for i := range 6 {
			x.Start(t.Context(), job(fmt.Sprint("narrow", i), do, narrow))
		}
		synctest.Wait()
		if most.Load() != 2 {
			t.Errorf("%d under way behind a bulkhead of 2", most.Load())
		}
		// The two inside hold two of three places; what waits for the narrow one holds none of the wide one.
		x.Start(t.Context(), job("free", func(context.Context) string { return "free" }))
		synctest.Wait()
		if x.Finished("a")["free"] != "free" {
			t.Error("what waits for a narrow bulkhead keeps others out")
		}
		time.Sleep(time.Minute)
		if got := len(x.Finished("a")); got != 7 || most.Load() > 3 {
			t.Errorf("%d of 7 finished, %d were under way at once", got, most.Load())
		}
	})
}

func TestExecutor_whatNeverGetsItsTurnSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newExecutor(1)
		defer x.Close()
		x.Start(t.Context(), job("1", untilDone))
		synctest.Wait()
		j := job("2", untilDone)
		j.Deadline = time.Now().Add(time.Second)
		x.Start(t.Context(), j)
		time.Sleep(2 * time.Second)
		if got := x.Finished("a")["2"]; got != context.DeadlineExceeded.Error() {
			t.Errorf("got %q", got)
		}
	})
}

func TestExecutor_closeWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newExecutor(10)
		var ended atomic.Bool
		x.Start(t.Context(), job("1", func(ctx context.Context) string {
			<-ctx.Done()
			<-time.After(time.Second)
			ended.Store(errors.Is(ctx.Err(), context.Canceled))
			return ""
		}))
		synctest.Wait()
		x.Close()
		if !ended.Load() {
			t.Error("Close returned before the job had ended, or without cancelling it")
		}
		if x.Start(t.Context(), job("2", untilDone)) {
			t.Error("a job is started after Close")
		}
	})
}
