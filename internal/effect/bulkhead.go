// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// A Bulkhead bounds how many effects are under way behind it at once. Who comes first is let in first.
type Bulkhead struct {
	limit int
	room  *semaphore.Weighted
}

func newBulkhead(limit int) *Bulkhead {
	return &Bulkhead{limit: limit, room: semaphore.NewWeighted(int64(limit))}
}

func (b *Bulkhead) enter(ctx context.Context) error { return b.room.Acquire(ctx, 1) }

func (b *Bulkhead) leave() { b.room.Release(1) }

// Bulkheads holds one Bulkhead a key. A key is the UID of what the bulkhead belongs to, so that two objects of one name never
// share one. The zero Bulkheads is ready to use, and safe for concurrent use.
type Bulkheads struct {
	mu    sync.Mutex
	byKey map[string]*Bulkhead
}

// Get gives the Bulkhead of key with room for limit effects. If the limit has changed there is a new one; what is under way
// behind the old one does not count there.
func (bs *Bulkheads) Get(key string, limit int) *Bulkhead {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.byKey[key]
	if b == nil || b.limit != limit {
		if bs.byKey == nil {
			bs.byKey = map[string]*Bulkhead{}
		}
		b = newBulkhead(limit)
		bs.byKey[key] = b
	}
	return b
}

// Drop forgets the Bulkhead of key.
func (bs *Bulkheads) Drop(key string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	delete(bs.byKey, key)
}
