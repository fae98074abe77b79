// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Health is what an attempt says of the other side.
type Health int

// The values of Health.
const (
	// Unclear: nothing. Somebody else ended the attempt.
	Unclear Health = iota
	// Well: it answered, be it with a refusal.
	Well
	// Ill: it is down, overloaded, or did not answer in time.
	Ill
)

// A Trip says when a Breaker opens, after so many failures in a row, and for how long. The zero Trip is that it never does.
type Trip struct {
	Failures int
	Open     time.Duration
}

// A BreakerState is how a Breaker stands.
type BreakerState string

// The states of a Breaker.
const (
	// BreakerClosed: everything is let through.
	BreakerClosed BreakerState = "Closed"
	// BreakerOpen: nothing is.
	BreakerOpen BreakerState = "Open"
	// BreakerHalfOpen: one attempt is let through at a time, until the first closes it or opens it again.
	BreakerHalfOpen BreakerState = "HalfOpen"
)

// A BreakerReport is how a Breaker stands, since when, and after how many failures in a row. Until is when it will be half open;
// zero unless it is open.
type BreakerReport struct {
	State        BreakerState
	Since, Until time.Time
	Failures     int
}

// A Breaker keeps attempts from the other side while that is down. A nil Breaker lets everything through.
type Breaker struct {
	trip    Trip
	changed func()

	// All that happens to circuit happens under mu, also what it calls back.
	mu       sync.Mutex
	circuit  *gobreaker.TwoStepCircuitBreaker[struct{}]
	state    BreakerState
	since    time.Time
	failures int
	// changes counts those of state.
	changes int
}

// trialPause is when to come again while a trial is under way.
const trialPause = time.Second

var errIll, errUnclear = errors.New("ill"), errors.New("unclear")

func newBreaker(trip Trip, changed func()) *Breaker {
	b := &Breaker{trip: trip, changed: changed, state: BreakerClosed, since: now()}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     trip.Open,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int64(c.ConsecutiveFailures) >= int64(trip.Failures) },
		IsExcluded:  func(err error) bool { return errors.Is(err, errUnclear) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.state, b.since = stateOf(to), now()
			b.changes++
		},
	})
	return b
}

// now is the library's clock, too.
func now() time.Time { return time.Now() } //nolint:forbidigo // the library takes no other clock

func stateOf(s gobreaker.State) BreakerState {
	switch s {
	case gobreaker.StateOpen:
		return BreakerOpen
	case gobreaker.StateHalfOpen:
		return BreakerHalfOpen
	case gobreaker.StateClosed:
	}
	return BreakerClosed
}

// Try makes an attempt, if it is let through, and takes note of what it says of the other side. If it is not, it says after
// which time to come again.
func (b *Breaker) Try(attempt func() Health) (wait time.Duration, tried bool) {
	if b == nil {
		attempt()
		return 0, true
	}
	var done func(error)
	b.locked(func() {
		var err error
		if done, err = b.circuit.Allow(); err != nil {
			wait = max(b.since.Add(b.trip.Open).Sub(now()), 0)
			if b.state == BreakerHalfOpen {
				wait = trialPause
			}
		}
	})
	if done == nil {
		return wait, false
	}
	// An attempt that panics must not be the trial for ever.
	health := Unclear
	defer func() { b.locked(func() { b.note(health, done) }) }()
	health = attempt()
	return 0, true
}

func (b *Breaker) note(h Health, done func(error)) {
	switch h {
	case Unclear:
		done(errUnclear)
	case Well:
		// One from before it opened says nothing of those that failed in a row.
		if b.state != BreakerOpen {
			b.failures = 0
		}
		done(nil)
	case Ill:
		if b.state != BreakerOpen {
			b.failures++
		}
		done(errIll)
	}
}

// locked does something under the lock, and tells afterwards if the state has changed.
func (b *Breaker) locked(do func()) {
	b.mu.Lock()
	old := b.changes
	do()
	news := b.changes != old
	b.mu.Unlock()
	if news {
		b.changed()
	}
}

// Report says how the Breaker stands now; closed if it is nil.
func (b *Breaker) Report() BreakerReport {
	if b == nil {
		return BreakerReport{State: BreakerClosed}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// To ask is what makes it half open once it is time.
	b.circuit.State()
	r := BreakerReport{State: b.state, Since: b.since}
	if r.State != BreakerClosed {
		r.Failures = b.failures
	}
	if r.State == BreakerOpen {
		r.Until = b.since.Add(b.trip.Open)
	}
	return r
}

// Breakers holds one Breaker a key, as Bulkheads do. The zero Breakers is ready to use, and safe for concurrent use.
type Breakers struct {
	mu    sync.Mutex
	byKey map[string]*Breaker
}

// Get gives the Breaker of key; nil if it never opens. If trip has changed it is a new one, which is closed. Changed is called,
// from any goroutine, each time an attempt has changed its state; it must not block.
func (bs *Breakers) Get(key string, trip Trip, changed func()) *Breaker {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if trip == (Trip{}) {
		delete(bs.byKey, key)
		return nil
	}
	b := bs.byKey[key]
	if b == nil || b.trip != trip {
		if bs.byKey == nil {
			bs.byKey = map[string]*Breaker{}
		}
		b = newBreaker(trip, changed)
		bs.byKey[key] = b
	}
	return b
}

// Drop forgets the Breaker of key.
func (bs *Breakers) Drop(key string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	delete(bs.byKey, key)
}
