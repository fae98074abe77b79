// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"sync"
)

// A Gate lets calls into an adapter until the adapter closes, and then ends those under way. The zero Gate is open.
type Gate struct {
	mu     sync.Mutex
	closed bool
	last   int
	under  map[int]context.CancelFunc
	inside sync.WaitGroup
}

// Enter begins a call, whose context ends with ctx or with the Gate; leave ends it. The error is nil or an *Error: a call
// that comes too late has not been sent.
func (g *Gate) Enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, &Error{Code: CodeTimeout, Message: "The call's time ran out before it was sent.", Outcome: NotSent, Retryable: true, Err: err}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, &Error{Code: CodeUnavailable, Message: "The connection to the tool server was closed.", Outcome: NotSent, Retryable: true}
	}
	if g.under == nil {
		g.under = map[int]context.CancelFunc{}
	}
	inside, cancel := context.WithCancel(ctx)
	g.last++
	id := g.last
	g.under[id] = cancel
	g.inside.Add(1)
	return inside, func() {
		cancel()
		g.mu.Lock()
		delete(g.under, id)
		g.mu.Unlock()
		g.inside.Done()
	}, nil
}

// Close lets nobody in any more, and returns when all are out.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	for _, cancel := range g.under {
		cancel()
	}
	g.mu.Unlock()
	g.inside.Wait()
}
