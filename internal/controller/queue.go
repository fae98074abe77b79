// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// A Queue has the runs of a namespace begin in the order in which they were created, and no more of them be under way than its
// policies allow. It is in memory only: what is under way is counted from the API server once, and then kept up by what is
// watched; a run that waits is not written to for it. The zero Queue is ready to use, and safe for concurrent use.
type Queue struct {
	mu    sync.Mutex
	lines map[string]*line
}

// A line is the part of one namespace.
type line struct {
	// counting is held while the runs under way are counted, and taken before Queue.mu. Both are needed to set counted: then underway
	// has them all.
	counting sync.Mutex
	counted  bool
	// ended are those that have come to their end while the others were being counted; nil outside.
	ended map[types.UID]struct{}
	// underway are the runs that have begun and not ended (true), and those that were let begin, which is not recorded yet (false).
	underway map[types.UID]bool
	// waiting are those that have not begun and may be able to, the oldest first.
	waiting []ticket
	// limit is what held when a run last asked.
	limit concurrency
}

// A ticket is a run with its place: by the time of its creation and, within the same second, by its name.
type ticket struct {
	RunKey
	created time.Time
}

// A concurrency is how many runs may be under way at once in a namespace, and which policy says so. Zero: any number.
type concurrency struct {
	most   int
	policy string
}

func ticketOf(agentRun *v1alpha1.AgentRun) ticket {
	return ticket{keyOf(agentRun), agentRun.CreationTimestamp.Time}
}

func (t ticket) compare(other ticket) int {
	return cmp.Or(t.created.Compare(other.created), cmp.Compare(t.Name, other.Name), cmp.Compare(t.UID, other.UID))
}

// concurrencyOf gives the strictest limit of policies, which is that of the first of them by name.
func concurrencyOf(policies []v1alpha1.RunPolicy) concurrency {
	var c concurrency
	for i := range policies {
		if n := int(policies[i].Spec.MaxConcurrentRuns); n > 0 && (c.most == 0 || n < c.most) {
			c = concurrency{n, policies[i].Name}
		}
	}
	return c
}

// line gives the line of a namespace. The caller holds mu.
func (q *Queue) line(namespace string) *line {
	l := q.lines[namespace]
	if l == nil {
		l = &line{underway: map[types.UID]bool{}}
		if q.lines == nil {
			q.lines = map[string]*line{}
		}
		q.lines[namespace] = l
	}
	return l
}

// room is how many more may begin.
func (l *line) room() int { return max(l.limit.most-len(l.underway), 0) }

// next are those that have room to begin, and may not know it.
func (l *line) next() []RunKey {
	if l.limit.most == 0 || !l.counted {
		return nil
	}
	var keys []RunKey
	for _, t := range l.waiting[:min(l.room(), len(l.waiting))] {
		keys = append(keys, t.RunKey)
	}
	return keys
}

// insert puts t at its place, unless it is there already, and says which that is, from 0.
func (l *line) insert(t ticket) int {
	i, found := slices.BinarySearchFunc(l.waiting, t, ticket.compare)
	if !found {
		l.waiting = slices.Insert(l.waiting, i, t)
	}
	return i
}

func (l *line) remove(t ticket) bool {
	i, found := slices.BinarySearchFunc(l.waiting, t, ticket.compare)
	if found {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return found
}

// see takes note of what the API server says of a run, and gives those that have room now. One that is new gets its place at once, so
// that a younger one, which happens to be looked at first, does not pass it.
func (q *Queue) see(agentRun *v1alpha1.AgentRun, isNew bool) []RunKey {
	if isChild(agentRun) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l, t := q.line(agentRun.Namespace), ticketOf(agentRun)
	_, underway := l.underway[t.UID]
	switch {
	case agentRun.Status.Termination != nil:
		return l.drop(t)
	case agentRun.Status.Step > 0:
		l.underway[t.UID] = true
		l.remove(t)
	case isNew && !underway:
		l.insert(t)
	}
	return nil
}

// gone takes note that a run is not there any more, and gives those that have room now.
func (q *Queue) gone(agentRun *v1alpha1.AgentRun) []RunKey {
	if isChild(agentRun) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.line(agentRun.Namespace).drop(ticketOf(agentRun))
}

// leave takes a run out that has not begun, and can't at the moment. It gives those that have room now.
func (q *Queue) leave(agentRun *v1alpha1.AgentRun) []RunKey {
	q.mu.Lock()
	defer q.mu.Unlock()
	l, t := q.line(agentRun.Namespace), ticketOf(agentRun)
	_, underway := l.underway[t.UID]
	delete(l.underway, t.UID)
	if waited := l.remove(t); !waited && !underway {
		return nil
	}
	return l.next()
}

func (l *line) drop(t ticket) []RunKey {
	if l.ended != nil {
		l.ended[t.UID] = struct{}{}
	}
	_, underway := l.underway[t.UID]
	delete(l.underway, t.UID)
	if waited := l.remove(t); !waited && !underway {
		return nil
	}
	return l.next()
}

// enter asks whether a run that could begin may. If not, it waits at its place, counted from 1. What was let begin, which was not
// recorded, is looked at anew, since the limit may be another one: then there may be room for others.
func (q *Queue) enter(ctx context.Context, live client.Reader, agentRun *v1alpha1.AgentRun, limit concurrency) (place int, room []RunKey, err error) {
	if limit.most > 0 {
		if err := q.count(ctx, live, agentRun.Namespace); err != nil {
			return 0, nil, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l, t := q.line(agentRun.Namespace), ticketOf(agentRun)
	l.limit = limit
	begun, let := l.underway[t.UID]
	if begun {
		// The cache does not know it yet.
		return 0, nil, nil
	}
	delete(l.underway, t.UID)
	i := l.insert(t)
	switch {
	case limit.most == 0 || i < l.room():
		l.remove(t)
		l.underway[t.UID] = false
		return 0, nil, nil
	case let:
		room = l.next()
	}
	return i + 1, room, nil
}

// count finds out what is under way in a namespace, once: by the API server itself, since the cache of a process that has just begun
// to lead need not know yet what another has let begin.
func (q *Queue) count(ctx context.Context, live client.Reader, namespace string) error {
	q.mu.Lock()
	l := q.line(namespace)
	q.mu.Unlock()
	l.counting.Lock()
	defer l.counting.Unlock()
	if l.counted {
		return nil
	}
	q.mu.Lock()
	l.ended = map[types.UID]struct{}{}
	q.mu.Unlock()
	begun, err := begunIn(ctx, live, namespace)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range begun {
		if _, ended := l.ended[t.UID]; !ended {
			l.underway[t.UID] = true
			l.remove(t)
		}
	}
	l.counted, l.ended = err == nil, nil
	return err
}

// begunIn lists the runs of a namespace that have begun and not ended, but for child runs.
func begunIn(ctx context.Context, live client.Reader, namespace string) ([]ticket, error) {
	const page = 500
	var begun []ticket
	next := ""
	for {
		var list v1alpha1.AgentRunList
		if err := live.List(ctx, &list, client.InNamespace(namespace), client.Limit(page), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("counting the runs under way: %w", err)
		}
		for i := range list.Items {
			if r := &list.Items[i]; !isChild(r) && r.Status.Step > 0 && r.Status.Termination == nil {
				begun = append(begun, ticketOf(r))
			}
		}
		if next = list.Continue; next == "" {
			return begun, nil
		}
	}
}

// waitingBy counts the runs that wait, by the policy that they wait for.
func (q *Queue) waitingBy() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	by := map[string]int{}
	for _, l := range q.lines {
		if l.limit.most > 0 {
			by[l.limit.policy] += len(l.waiting) - min(l.room(), len(l.waiting))
		}
	}
	return by
}
