// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package effect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-dev/interlock/internal/effect"
)

var threeInARow = effect.Trip{Failures: 3, Open: 30 * time.Second}

func attempt(b *effect.Breaker, h effect.Health) (time.Duration, bool) {
	return b.Try(func() effect.Health { return h })
}

func expectState(t *testing.T, b *effect.Breaker, want effect.BreakerState, failures int) {
	t.Helper()
	if got := b.Report(); got.State != want || got.Failures != failures {
		t.Errorf("it is %s after %d failures, want %s after %d", got.State, got.Failures, want, failures)
	}
}

func TestBreaker_opensAfterSoManyFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var breakers effect.Breakers
		changes := 0
		b := breakers.Get("a", threeInARow, func() { changes++ })
		// An answer in between begins anew; what says nothing does not.
		for _, h := range []effect.Health{effect.Ill, effect.Ill, effect.Well, effect.Ill, effect.Unclear, effect.Ill} {
			if _, ok := attempt(b, h); !ok {
				t.Fatal("a closed breaker lets nothing through")
			}
		}
		expectState(t, b, effect.BreakerClosed, 0)
		attempt(b, effect.Ill)
		expectState(t, b, effect.BreakerOpen, 3)
		if changes != 1 {
			t.Errorf("told of %d changes, want one", changes)
		}
		time.Sleep(10 * time.Second)
		if wait, ok := attempt(b, effect.Well); ok || wait != 20*time.Second {
			t.Errorf("an open breaker lets something through: %t, or says to wait %s, want 20s", ok, wait)
		}
	})
}

func TestBreaker_halfOpenLetsOneThroughAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var breakers effect.Breakers
		b := breakers.Get("a", threeInARow, func() {})
		for range 3 {
			attempt(b, effect.Ill)
		}
		time.Sleep(31 * time.Second)
		expectState(t, b, effect.BreakerHalfOpen, 3)
		b.Try(func() effect.Health {
			if wait, ok := attempt(b, effect.Well); ok || wait <= 0 {
				t.Errorf("two trials at once: %t, or the second is to come again after %s", ok, wait)
			}
			return effect.Ill
		})
		expectState(t, b, effect.BreakerOpen, 4)

		time.Sleep(31 * time.Second)
		attempt(b, effect.Unclear)
		expectState(t, b, effect.BreakerHalfOpen, 4)
		attempt(b, effect.Well)
		expectState(t, b, effect.BreakerClosed, 0)
	})
}

func TestBreaker_aTrialThatPanicsIsNotTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var breakers effect.Breakers
		b := breakers.Get("a", effect.Trip{Failures: 1, Open: time.Second}, func() {})
		attempt(b, effect.Ill)
		time.Sleep(2 * time.Second)
		func() {
			defer func() { _ = recover() }()
			b.Try(func() effect.Health { panic("a fault") })
		}()
		if _, ok := attempt(b, effect.Well); !ok {
			t.Error("nothing is let through after a trial that panicked")
		}
	})
}

func TestBreakers_eachKeyHasItsOwn(t *testing.T) {
	var breakers effect.Breakers
	first := breakers.Get("a", threeInARow, func() {})
	for range 3 {
		attempt(first, effect.Ill)
	}
	if breakers.Get("a", threeInARow, func() {}) != first || breakers.Get("b", threeInARow, func() {}) == first {
		t.Error("a breaker is not its key's")
	}
	if _, ok := attempt(breakers.Get("a", effect.Trip{}, func() {}), effect.Ill); !ok {
		t.Error("something is kept from where there is no breaker")
	}
	expectState(t, breakers.Get("a", threeInARow, func() {}), effect.BreakerClosed, 0)
	breakers.Drop("b")
}
