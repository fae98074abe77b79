// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// memory holds the histories of the runs used last, within a bound in bytes.
type memory struct {
	mu    sync.Mutex
	most  int
	bytes int
	runs  *simplelru.LRU[string, *history]
}

type history struct {
	turns map[int]Turn
	bytes int
}

func newMemory(most int) *memory {
	m := &memory{most: most}
	// The bound is in bytes, not in runs, so the library's own bound is never reached.
	runs, err := simplelru.NewLRU(1<<30, func(_ string, h *history) { m.bytes -= h.bytes })
	if err != nil {
		panic("journal: " + err.Error())
	}
	m.runs = runs
	return m
}

func (m *memory) turn(uid string, step int) (Turn, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.runs.Get(uid)
	if !ok {
		return Turn{}, false
	}
	t, ok := h.turns[step]
	return t, ok
}

func (m *memory) put(uid string, t Turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.runs.Get(uid)
	if !ok {
		h = &history{turns: map[int]Turn{}}
		m.runs.Add(uid, h)
	}
	grows := sizeOf(t)
	if old, ok := h.turns[t.Step]; ok {
		grows -= sizeOf(old)
	}
	h.turns[t.Step] = t
	h.bytes += grows
	m.bytes += grows
	// A run that is larger than the bound by itself is not kept either: it is read again each time.
	for m.bytes > m.most && m.runs.Len() > 0 {
		m.runs.RemoveOldest()
	}
}

func (m *memory) forget(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs.Remove(uid)
}

// sizeOf is about how many bytes t takes in memory.
func sizeOf(t Turn) int {
	const perItem = 200
	n := perItem + len(t.Reply.Text)
	for _, c := range t.Reply.Calls {
		n += perItem + len(c.Arguments)
	}
	for _, r := range t.Results {
		n += perItem + len(r.Answer.Data) + len(r.Message)
		for _, s := range r.Answer.Sources {
			n += len(s.ID) + len(s.Title) + len(s.URL)
		}
	}
	return n
}
