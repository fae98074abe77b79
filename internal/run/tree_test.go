// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/interlock-dev/interlock/internal/run"
)

func (w *world) root() *world {
	for w.parent != nil {
		w = w.parent
	}
	return w
}

// all are the runs of the tree below and with w, parents first.
func (w *world) all() []*world {
	tree := []*world{w}
	for _, id := range slices.Sorted(maps.Keys(w.children)) {
		tree = append(tree, w.children[id].all()...)
	}
	return tree
}

// start is what the API server does with a child run: it is there once, however often it is asked for.
func (w *world) start(id string, g run.Grant) {
	delete(w.late, id)
	if w.children[id] != nil {
		return
	}
	limits := w.state.Limits
	limits.MaxSteps, limits.MaxToolCalls, limits.MaxChildren = g.Steps, g.ToolCalls, g.Children
	limits.InputTokens, limits.OutputTokens, limits.Cost = g.InputTokens, g.OutputTokens, g.Cost
	child := newWorld(limits, w.model, w.tool, w.state.Deadline)
	child.arrives, child.answers, child.reports, child.modelFails, child.usage = w.arrives, w.answers, w.reports, w.modelFails, w.usage
	child.agreeable, child.parent, child.call = w.agreeable, w, id
	w.children[id] = child
}

func (w *world) grantOf(id string) run.Grant {
	c, _ := w.state.Call(id)
	return *c.Grant
}

// isDone reports whether nobody waits for what call id answers any more.
func (w *world) isDone(id string) bool {
	c, ok := w.state.Call(id)
	return !ok || c.Done()
}

// arrive lets the requests arrive that are on their way, however late.
func (w *world) arrive() {
	for _, id := range slices.Sorted(maps.Keys(w.late)) {
		w.start(id, w.late[id])
	}
}

// adoptChild gives the event for a call whose child nobody is starting: it is there, and has ended or not, or it is not.
func (w *world) adoptChild(c run.Call) []run.Event {
	child := w.children[c.ID]
	switch {
	case child == nil && c.InFlight():
		return []run.Event{w.adoptResult(c)}
	case child == nil || !child.state.Finished():
		return nil
	}
	e := run.ChildEnded{CallID: c.ID, At: w.now, Spent: new(child.state.Spent())}
	if t := child.state.Termination; t.Reason != run.ReasonFinal {
		e.Failure = &run.Failure{At: w.now, Code: run.CodeChildFailed, Message: t.String()}
	}
	return []run.Event{e}
}

// treeIsWithinLimits is I5 for what is counted and not billed: over the whole tree, no limit of any run in it is passed.
func (w *world) treeIsWithinLimits() {
	for at := w; at != nil; at = at.parent {
		steps, children := 0, -1
		sent := map[string]int{}
		for _, r := range at.all() {
			steps += r.state.Step
			if r.state.Step > 0 {
				// One that came after its call had failed ends before it begins.
				children++
			}
			for e, n := range r.sent {
				sent[e] += n
			}
		}
		if l := at.state.Limits; steps > l.MaxSteps || children > l.MaxChildren {
			w.fail("%d steps of %d and %d children of %d in the tree of %s", steps, l.MaxSteps, children, l.MaxChildren, at.state)
		}
		for _, c := range at.children {
			if c.state.Deadline.After(at.state.Deadline) {
				w.fail("a child of %s may take longer: %s", at.state, c.state)
			}
		}
	}
}

// TestDecide_aTreeOfRunsKeepsTheLimitsOfItsRoot: children and theirs, which begin, end, fail, are held, cancelled and asked about in any
// order, with a process that dies at any write. The world checks, at each request, the provider's bill against the limits of
// every run above; and that the tree comes to its end.
func TestDecide_aTreeOfRunsKeepsTheLimitsOfItsRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := drawLimits(t)
		limits.MaxSteps, limits.MaxToolCalls = rapid.IntRange(1, 20).Draw(t, "steps"), rapid.IntRange(0, 30).Draw(t, "calls")
		limits.MaxChildren, limits.Parallelism = rapid.IntRange(0, 6).Draw(t, "children"), rapid.IntRange(1, 3).Draw(t, "parallelism")
		w := newWorld(limits, func(step int) run.ModelReplied { return drawTreeReply(t, step) }, func(string) *run.Failure { return drawWriteFailure(t) })
		w.arrives = func() bool { return rapid.Bool().Draw(t, "arrives") }
		w.answers = func() bool { return rapid.Bool().Draw(t, "answers") }
		w.reports = func() bool { return rapid.Bool().Draw(t, "reports") }
		w.modelFails = func() *run.Failure { return drawModelFailure(t) }
		w.usage = func(e run.CallModel) run.TokenUsage { return drawUsage(t, e) }
		for range rapid.IntRange(0, 60).Draw(t, "moves") {
			now := w.now
			tree := w.all()
			at := tree[rapid.IntRange(0, len(tree)-1).Draw(t, "run")]
			at.now = now
			switch rapid.IntRange(0, 9).Draw(t, "move") {
			case 0, 1, 2, 3:
				if ids := slices.Sorted(maps.Keys(at.inFlight)); len(ids) > 0 {
					at.finish(rapid.SampledFrom(ids).Draw(t, "finishes"))
				}
			case 4, 5:
				at.pass(at.observe(), crash(rapid.IntRange(-1, 6).Draw(t, "dies")))
			case 6:
				at.arrive()
				w.now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
			case 7:
				at.pass(append(at.observe(), noise(t, at)), never)
			case 8:
				at.pass(append(at.observe(), at.say("ann", rapid.IntRange(0, 3).Draw(t, "says") > 0)...), crash(rapid.IntRange(-1, 6).Draw(t, "dies")))
			case 9:
				w.state.Holds = drawHolds(t)
			}
		}
		w.drainTree(10_000)
		for _, r := range w.all() {
			r.theJournalIsTrue()
		}
	})
}

// drawTreeReply is a reply that likes to start children.
func drawTreeReply(t *rapid.T, step int) run.ModelReplied {
	e := drawReply(t, step)
	for i := range e.Calls {
		if kind := rapid.SampledFrom([]string{"", "+child", "+nest", "+nest", "+write+child", "+nest+ask"}).Draw(t, "child"); kind != "" {
			e.Calls[i] = proposed(step, i, "tool"+kind)
			if e.Calls[i].Rules.Approvals > 0 {
				e.Calls[i].Ask = &run.Ask{Digest: fmt.Sprintf("s%dc%d", step, i+1), Expires: start.Add(askTime)}
			}
		}
	}
	return e
}

// drainTree lets every run come to its end, as a fair scheduler would.
func (w *world) drainTree(most int) {
	w.state.Holds = run.Holds{}
	for range most {
		idle, next := true, time.Time{}
		for _, r := range w.all() {
			r.now = w.now
			r.arrive()
			for _, id := range slices.Sorted(maps.Keys(r.inFlight)) {
				r.finish(id)
			}
			before := r.state.String()
			r.pass(r.observe(), never)
			idle = idle && len(r.inFlight) == 0 && r.state.String() == before
			if wake := r.state.NextWake(); !wake.IsZero() && (next.IsZero() || wake.Before(next)) {
				next = wake
			}
		}
		switch {
		case idle && next.IsZero():
			return
		case idle && next.After(w.now):
			w.now = next
		case idle:
			w.fail("the tree does not go on: %s", w.state)
		}
	}
	w.fail("the tree does not end")
}
