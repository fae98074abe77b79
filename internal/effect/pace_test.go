// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package effect_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/internal/effect"
)

func TestExecutor_beginsNoMoreThanItsPaceAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newExecutor(10)
		defer x.Close()
		var paces effect.Paces
		pace := paces.Get("a", effect.Rate{Events: 6, Per: time.Minute, Burst: 2})
		start := time.Now()
		begun := make(chan time.Duration, 10)
		for i := range 5 {
			j := job(fmt.Sprint(i), func(context.Context) string { begun <- time.Since(start); return "" })
			j.Pace = pace
			x.Start(t.Context(), j)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		close(begun)
		var got []time.Duration
		for at := range begun {
			got = append(got, at.Round(time.Second))
		}
		if diff := cmp.Diff([]time.Duration{0, 0, 10 * time.Second, 20 * time.Second, 30 * time.Second}, got); diff != "" {
			t.Errorf("begun (-want +got):\n%s", diff)
		}
	})
}

func TestExecutor_whatCannotBeginInTimeCostsOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newExecutor(10)
		defer x.Close()
		var paces effect.Paces
		pace := paces.Get("a", effect.Rate{Events: 1, Per: time.Minute, Burst: 1})
		start := time.Now()
		started := func(id string, deadline time.Duration) {
			j := job(id, func(ctx context.Context) string {
				return fmt.Sprint(time.Since(start).Round(time.Second), " ", ctx.Err())
			})
			j.Pace, j.Deadline = pace, start.Add(deadline)
			x.Start(t.Context(), j)
			synctest.Wait()
		}
		started("first", time.Hour)
		started("late", time.Second)
		time.Sleep(2 * time.Second)
		started("second", time.Hour)
		time.Sleep(10 * time.Minute)
		want := map[string]string{"first": "0s <nil>", "late": "1s context deadline exceeded", "second": "1m0s <nil>"}
		if diff := cmp.Diff(want, x.Finished("a")); diff != "" {
			t.Errorf("finished (-want +got):\n%s", diff)
		}
	})
}

func TestPaces_aChangedRateCountsWhatHasBegun(t *testing.T) {
	var paces effect.Paces
	slow := effect.Rate{Events: 1, Per: time.Hour, Burst: 1}
	if paces.Get("a", effect.Rate{}) != nil {
		t.Error("there is a pace where nothing is limited")
	}
	first := paces.Get("a", slow)
	slow.Events = 2
	if paces.Get("a", slow) != first || paces.Get("b", slow) == first {
		t.Error("a pace is not its key's")
	}
}

func TestExecutor_whatGivesUpItsPlaceTakesNoneFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newExecutor(200)
		defer x.Close()
		var paces effect.Paces
		pace := paces.Get("a", effect.Rate{Events: 1, Per: time.Minute, Burst: 1})
		start := time.Now()
		begun := make(chan time.Duration, 3)
		begin := func(id string, deadline time.Duration) {
			j := job(id, func(ctx context.Context) string {
				if ctx.Err() == nil {
					begun <- time.Since(start)
				}
				return ""
			})
			j.Pace, j.Deadline = pace, start.Add(deadline)
			x.Start(t.Context(), j)
			synctest.Wait()
		}
		begin("first", time.Hour)
		for i := range 100 {
			begin(fmt.Sprint(i), time.Second)
		}
		begin("last", time.Hour)
		time.Sleep(time.Hour)
		synctest.Wait()
		close(begun)
		var got []time.Duration
		for at := range begun {
			got = append(got, at)
		}
		if diff := cmp.Diff([]time.Duration{0, time.Minute}, got); diff != "" {
			t.Errorf("begun (-want +got):\n%s", diff)
		}
	})
}

func TestPaces_aHigherRateCountsForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newExecutor(10)
		defer x.Close()
		var paces effect.Paces
		pace := paces.Get("a", effect.Rate{Events: 1, Per: 24 * time.Hour, Burst: 1})
		start := time.Now()
		begun := make(chan time.Duration, 2)
		for i := range 2 {
			j := job(fmt.Sprint(i), func(context.Context) string { begun <- time.Since(start); return "" })
			j.Pace, j.Deadline = pace, start.Add(48*time.Hour)
			x.Start(t.Context(), j)
		}
		time.Sleep(time.Second)
		paces.Get("a", effect.Rate{Events: 1, Per: time.Second, Burst: 1})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(begun) != 2 {
			t.Errorf("%d of 2 have begun: who waited waits as long as the old rate has it", len(begun))
		}
	})
}
