// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package effect performs effects beside the reconcilers: each in a goroutine of its own, within its deadline, behind the
// bulkheads that bound how much goes on at once. What an effect returns waits here until its owner has recorded it.
//
// The package decides nothing, retries nothing and stores nothing: what is lost when the process dies is found again from
// the intents in the owners' status. The main type is Executor.
package effect

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// An Executor performs the effects of many owners. K names an owner; O is what an effect comes to. It is safe for
// concurrent use.
type Executor[K comparable, O any] struct {
	wake func(owner K)
	all  *Bulkhead

	mu     sync.Mutex
	closed bool
	owners map[K]*owner[O]
	done   sync.WaitGroup
}

// An owner's effects, by ID: either in flight or finished, and gone once acknowledged.
type owner[O any] struct {
	inFlight map[string]*underWay
	finished map[string]O
}

// underWay is one effect that has been started: another of its ID is another one.
type underWay struct{ cancel context.CancelFunc }

// A Job is one effect to be performed.
type Job[K comparable, O any] struct {
	// Owner is whose effect it is; wake is called with it when the effect has finished.
	Owner K
	// ID names the effect among those of its owner. A job whose ID is in flight or waits to be acknowledged is not started again.
	ID string
	// Deadline is when the effect must have ended, waiting for its turn included. Timeout is how long it may take once it has
	// begun.
	Deadline time.Time
	Timeout  time.Duration
	// Behind are the bulkheads to pass before it begins, innermost last: the one with the most room comes last, so that what
	// waits for a narrow one does not hold a place in a wide one.
	Behind []*Bulkhead
	// Pace is what the job waits for before all that, holding no place; nil: for nothing.
	Pace *Pace
	// Do performs the effect. It returns soon after ctx is done, and never panics for what came from outside. If ctx is done
	// before the job's turn comes, Do is called all the same: it says what that means.
	Do func(ctx context.Context) O
}

// ErrDeadline is the cause of the end of a job's context at Job.Deadline, rather than after Job.Timeout: its owner's time was over,
// which says nothing of the other side.
var ErrDeadline = errors.New("the owner's time is over")

// New makes an Executor with at most limit effects under way at once. Wake is called, from any goroutine, each time one has
// finished; it must not block.
func New[K comparable, O any](limit int, wake func(owner K)) *Executor[K, O] {
	return &Executor[K, O]{wake: wake, all: newBulkhead(limit), owners: map[K]*owner[O]{}}
}

// Start begins job beside the caller and returns at once. Values of ctx reach the job; its end does not. It reports whether
// the job was started: not if it is under way or waits to be acknowledged, or if the Executor is closed.
func (x *Executor[K, O]) Start(ctx context.Context, job Job[K, O]) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return false
	}
	o := x.owners[job.Owner]
	if o == nil {
		o = &owner[O]{inFlight: map[string]*underWay{}, finished: map[string]O{}}
		x.owners[job.Owner] = o
	}
	if _, ok := o.inFlight[job.ID]; ok {
		return false
	}
	if _, ok := o.finished[job.ID]; ok {
		return false
	}
	ctx, cancel := context.WithDeadlineCause(context.WithoutCancel(ctx), job.Deadline, ErrDeadline)
	e := &underWay{cancel}
	o.inFlight[job.ID] = e
	x.done.Go(func() {
		defer cancel()
		x.finish(e, job, x.perform(ctx, job))
	})
	return true
}

func (x *Executor[K, O]) perform(ctx context.Context, job Job[K, O]) O {
	if err := job.Pace.wait(ctx); err != nil {
		return job.Do(ctx)
	}
	for _, b := range slices.Concat(job.Behind, []*Bulkhead{x.all}) {
		if err := b.enter(ctx); err != nil {
			return job.Do(ctx)
		}
		defer b.leave()
	}
	ctx, cancel := context.WithTimeout(ctx, job.Timeout)
	defer cancel()
	return job.Do(ctx)
}

// finish keeps the outcome, unless the effect was stopped meanwhile.
func (x *Executor[K, O]) finish(e *underWay, job Job[K, O], outcome O) {
	x.mu.Lock()
	o := x.owners[job.Owner]
	current := o != nil && o.inFlight[job.ID] == e
	if current {
		delete(o.inFlight, job.ID)
		o.finished[job.ID] = outcome
	}
	x.mu.Unlock()
	if current {
		x.wake(job.Owner)
	}
}

// Knows reports whether the effect is under way or has finished and waits to be acknowledged.
func (x *Executor[K, O]) Knows(owner K, id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.owners[owner]
	if o == nil {
		return false
	}
	_, inFlight := o.inFlight[id]
	_, finished := o.finished[id]
	return inFlight || finished
}

// Finished gives what has finished and is not yet acknowledged, by ID.
func (x *Executor[K, O]) Finished(owner K) map[string]O {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.owners[owner]
	if o == nil {
		return nil
	}
	out := make(map[string]O, len(o.finished))
	maps.Copy(out, o.finished)
	return out
}

// Acknowledge forgets what has finished, once its owner has recorded it.
func (x *Executor[K, O]) Acknowledge(owner K, ids ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.owners[owner]
	if o == nil {
		return
	}
	for _, id := range ids {
		delete(o.finished, id)
	}
	if len(o.inFlight) == 0 && len(o.finished) == 0 {
		delete(x.owners, owner)
	}
}

// Stop aborts what is under way for owner and forgets all of it, but for the effects to keep. It does not wait.
func (x *Executor[K, O]) Stop(owner K, keep ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.owners[owner]
	if o == nil {
		return
	}
	for id, e := range o.inFlight {
		if !slices.Contains(keep, id) {
			e.cancel()
			delete(o.inFlight, id)
		}
	}
	maps.DeleteFunc(o.finished, func(id string, _ O) bool { return !slices.Contains(keep, id) })
	if len(o.inFlight) == 0 && len(o.finished) == 0 {
		delete(x.owners, owner)
	}
}

func (o *owner[O]) stop() {
	for _, e := range o.inFlight {
		e.cancel()
	}
}

// Close aborts everything and waits until it has ended. Nothing can be started after.
func (x *Executor[K, O]) Close() {
	x.mu.Lock()
	x.closed = true
	for key, o := range x.owners {
		o.stop()
		delete(x.owners, key)
	}
	x.mu.Unlock()
	x.done.Wait()
}
