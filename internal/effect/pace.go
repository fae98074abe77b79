// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// A Rate is how often effects may begin: Events in each Per on average, and Burst at once. The zero Rate is no limit.
type Rate struct {
	Events, Burst int
	Per           time.Duration
}

// A Pace keeps effects to a Rate. They begin in the order in which they came. A nil Pace lets everything through.
type Pace struct {
	bucket *rate.Limiter
	// line lets one stand before the bucket at a time. Who leaves it takes nothing from those behind.
	line *semaphore.Weighted

	mu      sync.Mutex
	changed chan struct{}
}

func newPace(limit rate.Limit, burst int) *Pace {
	return &Pace{bucket: rate.NewLimiter(limit, burst), line: semaphore.NewWeighted(1), changed: make(chan struct{})}
}

// wait returns when the next effect may begin, or when ctx is done. What can't begin in time takes nothing from others.
func (p *Pace) wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.line.Acquire(ctx, 1); err != nil {
		return err //nolint:wrapcheck // it is that of ctx
	}
	defer p.line.Release(1)
	for {
		p.mu.Lock()
		begins, changed := p.bucket.Allow(), p.changed
		missing := 1 - p.bucket.Tokens()
		p.mu.Unlock()
		if begins {
			return nil
		}
		turn, cancel := context.WithTimeout(ctx, time.Duration(missing/float64(p.bucket.Limit())*float64(time.Second)))
		select {
		case <-turn.Done():
		case <-changed:
		}
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// set changes the rate, also for who waits already.
func (p *Pace) set(limit rate.Limit, burst int) {
	if p.bucket.Limit() == limit && p.bucket.Burst() == burst {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bucket.SetLimit(limit)
	p.bucket.SetBurst(burst)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Paces holds one Pace a key, as Bulkheads do. The zero Paces is ready to use, and safe for concurrent use.
type Paces struct {
	mu    sync.Mutex
	byKey map[string]*Pace
}

// Get gives the Pace of key, with the given rate from now on; nil if that is no limit. What has begun already counts for a changed
// rate, too.
func (ps *Paces) Get(key string, r Rate) *Pace {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if r == (Rate{}) {
		delete(ps.byKey, key)
		return nil
	}
	limit := rate.Limit(float64(r.Events) / r.Per.Seconds())
	p := ps.byKey[key]
	if p == nil {
		if ps.byKey == nil {
			ps.byKey = map[string]*Pace{}
		}
		p = newPace(limit, r.Burst)
		ps.byKey[key] = p
	}
	p.set(limit, r.Burst)
	return p
}

// Drop forgets the Pace of key.
func (ps *Paces) Drop(key string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.byKey, key)
}
