// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A Rate is how often effects may begin: Events in each Per on average, and Burst at once. The zero Rate is no limit.
type Rate struct {
	Events, Burst int
	Per           time.Duration
}

// A Pace keeps effects to a Rate. A nil Pace lets everything through.
type Pace struct{ bucket *rate.Limiter }

// wait returns when the next effect may begin, or when ctx is done. What can't begin in time takes nothing from others.
func (p *Pace) wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	place := p.bucket.Reserve()
	turn, cancel := context.WithTimeout(ctx, place.Delay())
	defer cancel()
	<-turn.Done()
	if ctx.Err() != nil {
		place.Cancel()
	}
	return ctx.Err()
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
		p = &Pace{rate.NewLimiter(limit, r.Burst)}
		ps.byKey[key] = p
	}
	if p.bucket.Limit() != limit {
		p.bucket.SetLimit(limit)
	}
	if p.bucket.Burst() != r.Burst {
		p.bucket.SetBurst(r.Burst)
	}
	return p
}

// Drop forgets the Pace of key.
func (ps *Paces) Drop(key string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.byKey, key)
}
