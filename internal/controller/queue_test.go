// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func TestConcurrencyOf_isTheStrictest(t *testing.T) {
	allowing := func(name string, n int32) v1alpha1.RunPolicy {
		p := policyFor(name, v1alpha1.NamespaceSelector{})
		p.Spec.MaxConcurrentRuns = n
		return p
	}
	for name, c := range map[string]struct {
		policies []v1alpha1.RunPolicy
		want     concurrency
	}{
		"no policy":                {nil, concurrency{}},
		"policies without a limit": {[]v1alpha1.RunPolicy{allowing("a", 0)}, concurrency{}},
		"several":                  {[]v1alpha1.RunPolicy{allowing("a", 0), allowing("b", 5), allowing("c", 2), allowing("d", 2), allowing("e", 3)}, concurrency{2, "c"}},
	} {
		if diff := cmp.Diff(c.want, concurrencyOf(c.policies), cmp.AllowUnexported(concurrency{})); diff != "" {
			t.Errorf("%s: the limit differs (-want +got):\n%s", name, diff)
		}
	}
}

// A crowd is the runs of a namespace, as the API server has them, and an operator with a Queue that looks at them.
type crowd struct {
	client.Reader

	runs  map[string]*v1alpha1.AgentRun
	ready map[string]bool
	most  int
	queue *Queue
	// due are the runs that somebody has woken. Known are those of which the operator does not know that they can't begin.
	due, known map[string]bool
	// stale are those of which the cache does not know that they have begun.
	stale map[string]bool
}

func (w *crowd) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for _, name := range w.names() {
		out, ok := list.(*v1alpha1.AgentRunList)
		if !ok {
			return errors.New("no list of runs")
		}
		out.Items = append(out.Items, *w.runs[name])
	}
	return nil
}

func (w *crowd) names() []string {
	var names []string
	for name := range w.runs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// underway counts the runs that have begun and not ended.
func (w *crowd) underway() int {
	n := 0
	for _, r := range w.runs {
		if r.Status.Step > 0 && r.Status.Termination == nil {
			n++
		}
	}
	return n
}

func (w *crowd) couldBegin(name string) bool {
	r := w.runs[name]
	return w.ready[name] && r.Status.Step == 0 && r.Status.Termination == nil
}

func (w *crowd) wake(keys []RunKey) {
	for _, k := range keys {
		w.due[k.Name] = true
	}
}

// catchUp has the cache know all.
func (w *crowd) catchUp() {
	for name := range w.stale {
		w.wake(w.queue.see(w.runs[name], false))
	}
	w.stale = map[string]bool{}
}

// look is a pass: it asks for the run's turn if it could begin, and begins it if it may.
func (w *crowd) look(t *rapid.T, name string, recorded bool) {
	delete(w.due, name)
	w.known[name] = w.ready[name]
	r := w.runs[name]
	if r != nil && w.stale[name] {
		// It is taken for one that could begin. Whatever is decided, it can't be recorded.
		seen := r.DeepCopy()
		seen.Status = v1alpha1.AgentRunStatus{}
		_, room, err := w.queue.enter(t.Context(), w, seen, concurrency{w.most, "policy"})
		if err != nil {
			t.Fatal(err)
		}
		w.wake(room)
		return
	}
	if r == nil || r.Status.Step > 0 {
		return
	}
	if !w.couldBegin(name) {
		w.wake(w.queue.leave(r))
		return
	}
	before, older := w.underway(), 0
	for other := range w.runs {
		if w.known[other] && w.couldBegin(other) && ticketOf(w.runs[other]).compare(ticketOf(r)) < 0 {
			older++
		}
	}
	place, room, err := w.queue.enter(t.Context(), w, r, concurrency{w.most, "policy"})
	if err != nil {
		t.Fatal(err)
	}
	w.wake(room)
	if place > 0 {
		return
	}
	if w.most > 0 && before+older >= w.most {
		t.Fatalf("%s begins, with %d of %d under way and %d older ones that could begin", name, before, w.most, older)
	}
	if !recorded {
		// Nothing has happened; it is looked at again.
		w.due[name] = true
		return
	}
	r.Status.Step = 1
	w.wake(w.queue.see(r, false))
}

// TestQueue_letsTheOldestBegin: whoever is looked at first, and whatever the operator forgets.
func TestQueue_letsTheOldestBegin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &crowd{runs: map[string]*v1alpha1.AgentRun{}, ready: map[string]bool{}, most: 2, queue: &Queue{}, due: map[string]bool{}, known: map[string]bool{}, stale: map[string]bool{}}
		now := time.Date(2026, 12, 31, 22, 0, 0, 0, time.UTC)
		n := 0
		some := func(t *rapid.T, fit func(*v1alpha1.AgentRun) bool) *v1alpha1.AgentRun {
			var names []string
			for _, name := range w.names() {
				if fit(w.runs[name]) {
					names = append(names, name)
				}
			}
			if len(names) == 0 {
				t.Skip()
			}
			return w.runs[rapid.SampledFrom(names).Draw(t, "run")]
		}
		all := func(*v1alpha1.AgentRun) bool { return true }
		open := func(r *v1alpha1.AgentRun) bool { return r.Status.Termination == nil }
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "seconds")) * time.Second)
				n++
				name := fmt.Sprintf("r%03d", n)
				r := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now)}}
				w.runs[name], w.ready[name], w.due[name], w.known[name] = r, rapid.Bool().Draw(t, "ready"), true, true
				w.wake(w.queue.see(r, true))
			},
			"look": func(t *rapid.T) { w.look(t, some(t, all).Name, rapid.IntRange(0, 3).Draw(t, "recorded") > 0) },
			"end": func(t *rapid.T) {
				r := some(t, open)
				delete(w.stale, r.Name)
				r.Status.Termination = &v1alpha1.Termination{}
				w.wake(w.queue.see(r, false))
			},
			"delete": func(t *rapid.T) {
				r := some(t, all)
				delete(w.runs, r.Name)
				delete(w.stale, r.Name)
				w.wake(w.queue.gone(r))
			},
			"change what it needs": func(t *rapid.T) {
				name := some(t, open).Name
				w.ready[name], w.due[name] = !w.ready[name], true
			},
			"change the policy": func(t *rapid.T) {
				w.most = rapid.IntRange(0, 4).Draw(t, "most")
				for name := range w.runs {
					w.due[name] = true
				}
			},
			"another leader lets it begin": func(t *rapid.T) {
				r := some(t, func(r *v1alpha1.AgentRun) bool { return w.couldBegin(r.Name) })
				r.Status.Step = 1
				w.wake(w.queue.see(r, false))
			},
			"something is written to its status": func(t *rapid.T) { w.wake(w.queue.see(some(t, all), false)) },
			"die": func(t *rapid.T) {
				w.queue, w.stale = &Queue{}, map[string]bool{}
				for _, name := range rapid.Permutation(w.names()).Draw(t, "order") {
					// The cache need not know yet that a run has begun.
					seen := w.runs[name].DeepCopy()
					if seen.Status.Step > 0 && seen.Status.Termination == nil && rapid.Bool().Draw(t, "stale") {
						w.stale[name], seen.Status = true, v1alpha1.AgentRunStatus{}
					}
					w.wake(w.queue.see(seen, true))
					w.due[name], w.known[name] = true, true
				}
			},
			"the cache catches up": func(*rapid.T) { w.catchUp() },
			"settle down": func(t *rapid.T) {
				w.catchUp()
				for len(w.due) > 0 {
					var names []string
					for name := range w.due {
						names = append(names, name)
					}
					slices.Sort(names)
					w.look(t, rapid.SampledFrom(names).Draw(t, "woken"), true)
				}
				for name := range w.runs {
					if w.couldBegin(name) && (w.most == 0 || w.underway() < w.most) {
						t.Fatalf("%s waits, with %d of %d under way", name, w.underway(), w.most)
					}
				}
			},
		})
	})
}

func aRunAt(name string, step int32) *v1alpha1.AgentRun {
	r := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}}
	r.Status.Step = step
	return r
}

// A run that a leader before has let begin keeps its place, even if it is looked at before the cache knows of that.
func TestQueue_doesNotForgetWhatTheCacheDoesNotKnow(t *testing.T) {
	q := &Queue{}
	w := &crowd{runs: map[string]*v1alpha1.AgentRun{"b": aRunAt("b", 1)}}
	q.see(aRunAt("a", 0), true)
	q.see(aRunAt("b", 0), true)
	for name, want := range map[string]int{"b": 0, "a": 1} {
		if place, _, err := q.enter(t.Context(), w, aRunAt(name, 0), concurrency{1, "policy"}); place != want || err != nil {
			t.Errorf("%s waits at place %d, %v, want %d", name, place, err, want)
		}
	}
}

// What ends while the runs under way are being counted is not counted.
func TestQueue_countsWhatEndsMeanwhile(t *testing.T) {
	q := &Queue{}
	w := &crowd{runs: map[string]*v1alpha1.AgentRun{"begun": aRunAt("begun", 1)}}
	slow := listing{w, func() {
		ended := aRunAt("begun", 1)
		ended.Status.Termination = &v1alpha1.Termination{}
		q.see(ended, false)
	}}
	place, _, err := q.enter(t.Context(), slow, aRunAt("next", 0), concurrency{1, "policy"})
	if place != 0 || err != nil {
		t.Errorf("it waits at place %d, %v, with nothing under way", place, err)
	}
	place, _, err = q.enter(t.Context(), slow, aRunAt("third", 0), concurrency{1, "policy"})
	if place != 1 || err != nil {
		t.Errorf("it waits at place %d, %v, with one of one under way", place, err)
	}
	if diff := cmp.Diff(map[string]int{"policy": 1}, q.waitingBy()); diff != "" {
		t.Errorf("those that wait differ (-want +got):\n%s", diff)
	}
}

func TestQueue_childRunsAreNotInIt(t *testing.T) {
	child := aRun()
	child.Spec.Parent = &v1alpha1.ParentReference{Name: "parent"}
	child.Status.Step = 1
	q := &Queue{}
	q.see(child, true)
	w := &crowd{runs: map[string]*v1alpha1.AgentRun{"r": child}}
	other := aRun()
	other.Name, other.UID = "other", "other"
	if place, _, err := q.enter(t.Context(), w, other, concurrency{1, "policy"}); place != 0 || err != nil {
		t.Errorf("a run waits at place %d, %v, with nothing but a child under way", place, err)
	}
}

// A listing is one during which something happens.
type listing struct {
	*crowd

	meanwhile func()
}

func (l listing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.crowd.List(ctx, list, opts...)
	l.meanwhile()
	return err
}
