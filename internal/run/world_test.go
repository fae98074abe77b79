// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/interlock-dev/interlock/internal/policy"
	"github.com/interlock-dev/interlock/internal/run"
)

// A world is the core in the smallest shell there can be: what is durable survives a crash, the rest does not. Each step
// checks the invariants of the design as far as they exist, and panics with the story so far when one is broken.
type world struct {
	// Durable: what the API server has, and what the tool servers have done, by operation.
	state    run.State
	turns    map[int]run.ModelReplied
	routes   map[int]run.Chosen
	results  map[string]run.CallResult
	done     map[string]int
	consents map[string]map[string]bool
	// Volatile.
	inFlight map[string]run.Effect
	mailbox  []run.Event

	now   time.Time
	model func(step int) run.ModelReplied
	tool  func(callID string) *run.Failure
	// arrives says whether a write whose answer is lost had got to its server; answers, whether that can be asked.
	arrives, answers func() bool
	// usage is what a request really uses of its reservation, and modelFails why it fails. reports: the provider says what it
	// used. bill is the provider's, of all requests that left.
	usage      func(run.CallModel) run.TokenUsage
	modelFails func() *run.Failure
	reports    func() bool
	chooses    func() run.Choice
	used       map[string]run.TokenUsage
	cost       map[string]float64
	bill       run.TokenUsage
	billed     float64
	// parent started this run as one of its children, by call.
	parent   *world
	call     string
	children map[string]*world
	// late are the requests for children that have left and not arrived yet.
	late map[string]run.Grant
	// agreeable: everybody approves of everything at once.
	agreeable bool
	// sent counts what left the process, by effect.
	sent  map[string]int
	story []string
}

func newWorld(limits run.Limits, model func(int) run.ModelReplied, tool func(string) *run.Failure, until ...time.Time) *world {
	w := &world{
		turns: map[int]run.ModelReplied{}, routes: map[int]run.Chosen{}, results: map[string]run.CallResult{}, inFlight: map[string]run.Effect{},
		done: map[string]int{}, consents: map[string]map[string]bool{},
		sent: map[string]int{}, now: start, model: model, tool: tool, arrives: always, answers: always, reports: always,
		usage:      func(e run.CallModel) run.TokenUsage { return run.TokenUsage{Input: e.Input, Output: e.MaxOutput} },
		modelFails: func() *run.Failure { return nil },
		used:       map[string]run.TokenUsage{}, cost: map[string]float64{}, children: map[string]*world{}, late: map[string]run.Grant{},
	}
	w.state.Terms = terms
	created := run.Created{UID: "u", At: w.now, Limits: limits}
	for _, created.Until = range until {
	}
	w.pass([]run.Event{created}, never)
	return w
}

func always() bool { return true }

// terms are those of the world's model: no price is a round one.
var terms = run.Terms{MaxOutput: 100, Price: &run.Price{Input: 3_333_333_333, CachedInput: 333_333_333, Output: 15_000_000_001, Reasoning: 17_777_777_777}}

// A crash says at which point of a pass the process dies: before the n-th write; never is no crash.
type crash int

const never crash = -1

// pass folds events, keeps, records, and performs, or dies on the way.
func (w *world) pass(events []run.Event, dies crash) {
	before := w.state
	next, effects := run.Fold(w.state, events)
	w.note("%v -> %s %v", events, next, effects)
	w.check(before, next, events)
	writes := 0
	survives := func() bool { writes++; return writes-1 != int(dies) }

	var perform []run.Effect
	for _, e := range effects {
		switch e := e.(type) {
		case run.KeepTurn:
			if !survives() {
				w.root().crash()
				return
			}
			w.keepTurn(e, events)
		case run.KeepResults:
			if !survives() {
				w.root().crash()
				return
			}
			for _, r := range e.Results {
				w.keepResult(r)
			}
		case run.CallModel, run.PreviewTool, run.CallTool, run.StartChild, run.LookUpTool, run.StopEffects:
			perform = append(perform, e)
		}
	}
	if !survives() {
		w.root().crash()
		return
	}
	w.state, w.mailbox = next, nil
	w.treeIsWithinLimits()
	for _, e := range perform {
		if !survives() {
			w.root().crash()
			return
		}
		w.perform(e)
	}
}

func (w *world) keepTurn(e run.KeepTurn, events []run.Event) {
	for _, event := range events {
		if c, ok := event.(run.Chosen); ok && c.Step == e.Step {
			w.routes[e.Step] = c
			return
		}
		if r, ok := event.(run.ModelReplied); ok && r.Step == e.Step {
			if old, ok := w.turns[e.Step]; ok && len(old.Calls) != len(r.Calls) {
				w.fail("turn %d is written twice", e.Step)
			}
			w.turns[e.Step] = r
			return
		}
	}
	w.fail("turn %d is kept, and no reply came", e.Step)
}

// keepResult is I7: one result a call.
func (w *world) keepResult(r run.CallResult) {
	if old, ok := w.results[r.CallID]; ok {
		old.Attempts, r.Attempts = 0, 0
		if old != r && r.Code != run.CodeRunEnded {
			w.fail("%s has a second result: %v after %v", r.CallID, r, old)
		}
		return
	}
	w.results[r.CallID] = r
}

// perform is I1 and I2: what is sent passed the gate, and its intent is durable.
func (w *world) perform(e run.Effect) {
	w.sent[e.String()]++
	if _, stops := e.(run.StopEffects); w.sent[e.String()] > 1 && !stops {
		w.fail("%s is performed twice", e)
	}
	switch e := e.(type) {
	case run.CallModel:
		if w.modelHeld(e) {
			w.fail("%s while it is held", e)
		}
		if m := w.state.Model; m == nil || w.state.Step != e.Step || m.Attempt != e.Attempt {
			w.fail("%s without its intent: %s", e, w.state)
		}
		w.everyCallIsAnswered(e)
		w.charge(e)
		w.inFlight["model"] = e
	case run.PreviewTool:
		w.mayBegin(e, e.Tool)
		w.intent(e, e.CallID, run.CallPreviewing, e.Attempt)
		w.inFlight[e.CallID] = e
	case run.LookUpTool:
		w.intent(e, e.CallID, run.CallLookingUp, e.Attempt)
		w.inFlight[e.CallID] = e
	case run.CallTool:
		c := w.intent(e, e.CallID, run.CallExecuting, e.Attempt)
		w.mayBegin(e, e.Tool)
		w.mayBeSent(e, c)
		w.passedTheGate(e, e.CallID)
		w.inFlight[e.CallID] = e
	case run.StartChild:
		state := run.CallExecuting
		if e.Again {
			state = run.CallLookingUp
		}
		c := w.intent(e, e.CallID, state, e.Attempt)
		if !e.Again {
			w.mayBegin(e, e.Tool)
			w.mayBeSent(e, c)
		}
		w.passedTheGate(e, e.CallID)
		w.inFlight[e.CallID] = e
	case run.StopEffects:
		for id := range w.inFlight {
			if !slices.Contains(e.Keep, id) {
				delete(w.inFlight, id)
			}
		}
	case run.KeepTurn, run.KeepResults:
	}
}

func (w *world) passedTheGate(e run.Effect, id string) {
	p, finish := w.proposal(id)
	if v := policy.Check(p.Facts); !v.Allowed() || finish != run.FinishStop {
		w.fail("%s did not pass the gate: %v %s", e, v, finish)
	}
}

func (w *world) proposal(id string) (run.ProposedCall, run.Finish) {
	var step, place int
	if _, err := fmt.Sscanf(id, "s%dc%d", &step, &place); err != nil {
		w.fail("call ID %q: %v", id, err)
	}
	return w.turns[step].Calls[place-1], w.turns[step].Finish
}

// charge is I5: the provider's own bill stays within the limits, of the run and of all above it, whatever it reports and whatever is
// lost.
func (w *world) charge(e run.CallModel) {
	u := w.usage(e)
	w.used[e.String()], w.cost[e.String()] = u, w.price(e, u)
	for at := w; at != nil; at = at.parent {
		at.bill.Input += u.Input
		at.bill.Output += u.Output
		at.billed += w.cost[e.String()]
		l := at.state.Limits
		if at.bill.Input > l.InputTokens || at.bill.Output > l.OutputTokens || (l.Cost > 0 && at.billed > float64(l.Cost)) {
			w.fail("%s passes the budget: %d+%d tokens, %f of %s", e, at.bill.Input, at.bill.Output, at.billed/1e9, l.Cost)
		}
	}
}

// refund takes back what was charged for a request that was not sent.
func (w *world) refund(e run.CallModel) {
	u := w.used[e.String()]
	for at := w; at != nil; at = at.parent {
		at.bill.Input, at.bill.Output, at.billed = at.bill.Input-u.Input, at.bill.Output-u.Output, at.billed-w.cost[e.String()]
	}
}

// offered gives the model that e asks, as the router has it now; false without a router.
func (w *world) offered(e run.CallModel) (run.Offer, bool) {
	r := w.state.Router
	if r == nil {
		return run.Offer{}, false
	}
	for _, o := range append(r.Candidates, *r.Chooser) {
		if o.Model == e.Model {
			return o, true
		}
	}
	w.fail("%s asks a model that the run does not have", e)
	return run.Offer{}, false
}

// modelHeld: nothing is asked that is held, or that the rules of the route exclude.
func (w *world) modelHeld(e run.CallModel) bool {
	if o, ok := w.offered(e); ok {
		return w.state.Holds.Run+o.Unfit != ""
	}
	return w.state.Holds.Run+w.state.Holds.Model != ""
}

func (w *world) price(e run.CallModel, u run.TokenUsage) float64 {
	p := terms.Price
	if o, ok := w.offered(e); ok {
		p = o.Terms.Price
	}
	return (float64(u.Input-u.CachedInput)*float64(p.Input) + float64(u.CachedInput)*float64(p.CachedInput) +
		float64(u.Output-u.Reasoning)*float64(p.Output) + float64(u.Reasoning)*float64(p.Reasoning)) / 1e6
}

func (w *world) intent(e run.Effect, id string, state run.CallState, attempt int) run.Call {
	c, ok := w.state.Call(id)
	if !ok || c.State != state || c.Attempt != attempt {
		w.fail("%s without its intent: %s", e, w.state)
	}
	return c
}

// mayBegin: nothing begins while it is held.
func (w *world) mayBegin(e run.Effect, tool string) {
	if w.state.Holds.Run+w.state.Holds.Tools[tool] != "" {
		w.fail("%s while it is held", e)
	}
}

// mayBeSent is I4, and the order of writes: what needs approval has enough of what is being asked, by different people, and
// in time; no other call of the step that was asked for before a write is open when it is sent.
func (w *world) mayBeSent(e run.Effect, c run.Call) {
	if c.Rules.Approvals > 0 && (c.Ask == nil || len(w.consents[c.Ask.Digest]) < c.Rules.Approvals || !w.now.Before(c.Ask.Expires)) {
		w.fail("%s was not approved: %s", e, w.state)
	}
	if c.Rules.Preview && c.Preview == nil {
		w.fail("%s was not previewed: %s", e, w.state)
	}
	if w.state.Ending != nil {
		w.fail("%s while the run ends: %s", e, w.state)
	}
	for _, before := range w.state.Calls {
		if before.ID == c.ID {
			return
		}
		if !before.Done() && (before.Rules.Write || c.Rules.Write) {
			w.fail("%s before %s is done: %s", e, before, w.state)
		}
	}
}

func (w *world) everyCallIsAnswered(e run.CallModel) {
	for step := 1; step < e.Step; step++ {
		for i := range w.turns[step].Calls {
			if id := fmt.Sprintf("s%dc%d", step, i+1); w.results[id].CallID == "" {
				w.fail("%s while %s has no result", e, id)
			}
		}
	}
}

// check is I6 and I10, the limits, and that Decide is a function.
func (w *world) check(before, next run.State, events []run.Event) {
	if again, _ := run.Fold(before, events); !reflect.DeepEqual(again, next) {
		w.fail("replay differs: %s, then %s", next, again)
	}
	if before.Finished() && !reflect.DeepEqual(before, next) {
		w.fail("a finished run changed: %s", before)
	}
	for _, c := range next.Calls {
		if next.Finished() && c.Outstanding() {
			w.fail("ended with a write that is not settled, or with a child: %s", next)
		}
	}
	if n := next.Usage.ToolCalls; n > next.Limits.MaxToolCalls {
		w.fail("%d tool calls of %d", n, next.Limits.MaxToolCalls)
	}
	if next.Step > next.Limits.MaxSteps && next.Phase != "" {
		w.fail("step %d of %d", next.Step, next.Limits.MaxSteps)
	}
	if len(next.Repeats) > 32 || len(next.Calls) > maxCalls || len(next.String()) > 200+100*maxCalls {
		w.fail("the state grows: %s", next)
	}
	if next.Usage.Tokens.Input < before.Usage.Tokens.Input || next.Usage.Cost < before.Usage.Cost || next.Usage.ToolCalls < before.Usage.ToolCalls || next.Usage.Invalid < before.Usage.Invalid {
		w.fail("a counter went down: %s", next)
	}
	if !next.Finished() && next.Phase != "" && next.NextWake().IsZero() {
		w.fail("nothing would ever wake %s", next)
	}
}

// crash loses all that is not durable.
func (w *world) crash() {
	w.note("crash")
	for _, id := range slices.Sorted(maps.Keys(w.inFlight)) {
		f := w.tool(id)
		if (f != nil && !f.InDoubt) || !w.arrives() {
			continue
		}
		switch e := w.inFlight[id].(type) {
		case run.CallTool:
			w.act(e)
		case run.StartChild:
			w.start(e.CallID, w.grantOf(e.CallID))
		default:
		}
	}
	clear(w.inFlight)
	w.mailbox = nil
	for _, id := range slices.Sorted(maps.Keys(w.children)) {
		w.children[id].crash()
	}
}

// finish lets an effect in flight come to its end.
func (w *world) finish(id string) {
	e := w.inFlight[id]
	delete(w.inFlight, id)
	switch e := e.(type) {
	case run.CallModel:
		if w.modelHeld(e) {
			// It was seen before the request left, which is not on the bill then.
			w.refund(e)
			w.mailbox = append(w.mailbox, run.NotSent{Step: e.Step, Attempt: e.Attempt, At: w.now})
			return
		}
		if f := w.modelFails(); f != nil {
			f.At = w.now
			w.mailbox = append(w.mailbox, run.ModelFailed{Step: e.Step, Attempt: e.Attempt, Failure: *f})
			return
		}
		if e.Choose {
			c := run.Chosen{Step: e.Step, Attempt: e.Attempt, At: w.now, Choice: w.chooses()}
			if w.reports() {
				c.Usage = w.used[e.String()]
				c.Usage.Reported = true
			}
			w.mailbox = append(w.mailbox, c)
			return
		}
		reply := w.model(e.Step)
		reply.Step, reply.Attempt, reply.At = e.Step, e.Attempt, w.now
		if w.reports() {
			reply.Usage = w.used[e.String()]
			reply.Usage.Reported = true
		}
		w.mailbox = append(w.mailbox, reply)
	case run.PreviewTool:
		digest := fmt.Sprintf("%s#%d", e.CallID, e.Attempt)
		w.mailbox = append(w.mailbox, run.Previewed{
			CallID: e.CallID, Attempt: e.Attempt, At: w.now, Preview: run.Preview{ID: digest}, Ask: &run.Ask{Digest: digest, Expires: w.now.Add(askTime)},
		})
	case run.CallTool:
		if w.state.Holds.Run+w.state.Holds.Tools[e.Tool] != "" {
			w.mailbox = append(w.mailbox, run.NotSent{CallID: e.CallID, Attempt: e.Attempt, At: w.now})
			return
		}
		f := w.tool(e.CallID)
		if f == nil || (f.InDoubt && w.arrives()) {
			w.act(e)
		}
		w.answer(e.CallID, e.Attempt, f)
	case run.StartChild:
		if w.children[e.CallID] != nil {
			// That it is there is an answer.
			w.mailbox = append(w.mailbox, run.ChildStarted{CallID: e.CallID, At: w.now, UID: e.CallID})
			return
		}
		if w.state.Holds.Run+w.state.Holds.Tools[e.Tool] != "" {
			w.mailbox = append(w.mailbox, run.NotSent{CallID: e.CallID, Attempt: e.Attempt, At: w.now})
			return
		}
		f := w.tool(e.CallID)
		switch {
		case f == nil:
			w.start(e.CallID, w.grantOf(e.CallID))
			w.mailbox = append(w.mailbox, run.ChildStarted{CallID: e.CallID, At: w.now, UID: e.CallID})
			return
		case f.InDoubt && w.arrives():
			w.late[e.CallID] = w.grantOf(e.CallID)
		}
		w.answer(e.CallID, e.Attempt, f)
	case run.LookUpTool:
		switch {
		case !w.answers():
			w.answer(e.CallID, e.Attempt, &run.Failure{Code: "Down", InDoubt: true, Retryable: true, MaxAttempts: 3, Backoff: time.Second})
		case w.done[e.OperationID] > 0:
			w.answer(e.CallID, e.Attempt, nil)
		default:
			w.mailbox = append(w.mailbox, run.NothingDone{CallID: e.CallID, Attempt: e.Attempt, At: w.now})
		}
	case run.KeepTurn, run.KeepResults, run.StopEffects, nil:
	}
}

// askTime is how long people have.
const askTime = 10 * time.Minute

func (w *world) answer(id string, attempt int, f *run.Failure) {
	if f == nil {
		w.mailbox = append(w.mailbox, run.ToolSucceeded{CallID: id, Attempt: attempt, At: w.now})
		return
	}
	f.At = w.now
	w.mailbox = append(w.mailbox, run.ToolFailed{CallID: id, Attempt: attempt, Failure: *f})
}

// act is I3: a tool server that knows operations does each once; of another, nothing is asked twice.
func (w *world) act(e run.CallTool) {
	c, _ := w.state.Call(e.CallID)
	if c.Rules.Write && (w.done[e.OperationID] == 0 || !c.Rules.LookUp) {
		w.done[e.OperationID]++
	}
	if w.done[e.OperationID] > 1 {
		w.fail("%s took effect %d times", e.OperationID, w.done[e.OperationID])
	}
}

// say has a person answer what is asked.
func (w *world) say(who string, yes bool) []run.Event {
	var events []run.Event
	for _, c := range w.state.Calls {
		switch {
		case c.State != run.CallAwaitingApproval:
		case yes && w.now.Before(c.Ask.Expires):
			if w.consents[c.Ask.Digest] == nil {
				w.consents[c.Ask.Digest] = map[string]bool{}
			}
			w.consents[c.Ask.Digest][who] = true
			events = append(events, run.Approved{CallID: c.ID, Digest: c.Ask.Digest, At: w.now, Consent: run.Consent{Approval: who, By: who}})
		case !yes:
			events = append(events, run.Denied{CallID: c.ID, Digest: c.Ask.Digest, At: w.now, Reason: "no"})
		}
	}
	return events
}

// theJournalIsTrue says of each write what its server says.
func (w *world) theJournalIsTrue() {
	for id, r := range w.results {
		done := w.done["op-"+id]
		switch {
		case r.State == run.CallSucceeded && w.isWrite(id) && done != 1:
			w.fail("%s succeeded, and nothing was done", id)
		case r.State != run.CallSucceeded && r.Code != run.DetailOutcomeUnknown && done != 0:
			w.fail("%s did not succeed (%s), and it was done", id, r.Code)
		}
	}
}

func (w *world) isWrite(id string) bool {
	var step, place int
	if _, err := fmt.Sscanf(id, "s%dc%d", &step, &place); err != nil {
		w.fail("call ID %q: %v", id, err)
	}
	p := w.turns[step].Calls[place-1]
	return p.Rules.Write && p.Grant == nil
}

// observe gives the events of the next pass: what finished, the time, and what is in flight according to the state with
// nobody performing it, which the journal may have.
func (w *world) observe() []run.Event {
	events := append([]run.Event{run.Prepared{At: w.now, Context: 500, Question: 400}}, w.mailbox...)
	if p := w.parent; p != nil {
		if p.state.Finished() || p.state.Ending != nil || p.isDone(w.call) {
			events = append(events, run.CancelRequested{At: w.now, Reason: "its parent ended"})
		}
		if w.state.Holds.Run = ""; p.state.Phase == run.Suspended {
			w.state.Holds.Run = "its parent is suspended"
		}
	}
	events = append(events, run.TimePassed{At: w.now})
	for _, c := range w.state.Calls {
		if r, ok := w.results[c.ID]; ok && !c.Done() && !c.InFlight() {
			events = append(events, run.Recorded{CallID: c.ID, At: w.now, Verdict: policy.Verdict{Code: r.Code, Message: r.Message}})
		}
	}
	if w.agreeable {
		events = append(events, append(w.say("ann", true), w.say("ben", true)...)...)
	}
	waiting := map[string]bool{}
	for _, e := range w.mailbox {
		switch e := e.(type) {
		case run.ModelReplied, run.ModelFailed, run.Chosen:
			waiting["model"] = true
		case run.ToolSucceeded:
			waiting[e.CallID] = true
		case run.ToolFailed:
			waiting[e.CallID] = true
		case run.Previewed:
			waiting[e.CallID] = true
		case run.NothingDone:
			waiting[e.CallID] = true
		case run.ChildStarted:
			waiting[e.CallID] = true
		case run.NotSent:
			waiting["model"], waiting[e.CallID] = e.CallID == "", true
		default:
		}
	}
	orphan := func(id string) bool { return w.inFlight[id] == nil && !waiting[id] }
	if m := w.state.Model; m != nil && m.InFlight() && orphan("model") {
		if c, ok := w.routes[w.state.Step]; ok {
			c.Attempt, c.At = m.Attempt, w.now
			events = append(events, c)
		} else if reply, ok := w.turns[w.state.Step]; ok {
			events = append(events, w.adopt(reply, m.Attempt))
		} else {
			events = append(events, run.EffectLost{Attempt: m.Attempt, At: w.now})
		}
	}
	for _, c := range w.state.Calls {
		if c.Grant != nil && (c.InFlight() || c.Outstanding()) && orphan(c.ID) {
			events = append(events, w.adoptChild(c)...)
		} else if c.InFlight() && orphan(c.ID) {
			events = append(events, w.adoptResult(c))
		}
	}
	// What the journal holds comes first: a call that has its result is not parked.
	if w.state.Holds.Run != "" && w.state.Step > 0 && w.state.Phase != run.Suspended {
		events = append(events, run.Suspend{At: w.now})
	}
	if w.state.CanResume(w.now) {
		events = append(events, run.Resumed{At: w.now})
	}
	return events
}

func (w *world) adopt(reply run.ModelReplied, attempt int) run.Event {
	reply.Attempt, reply.At = attempt, w.now
	calls := append([]run.ProposedCall(nil), reply.Calls...)
	for i := range calls {
		if r, ok := w.results[fmt.Sprintf("s%dc%d", reply.Step, i+1)]; ok {
			calls[i].Recorded = policy.Verdict{Code: r.Code, Message: r.Message}
		}
	}
	reply.Calls = calls
	return reply
}

func (w *world) adoptResult(c run.Call) run.Event {
	switch r := w.results[c.ID]; {
	case r.State == run.CallSucceeded:
		return run.ToolSucceeded{CallID: c.ID, Attempt: c.Attempt, At: w.now}
	case r.State == run.CallFailed && r.Code != run.CodeRunEnded:
		return run.ToolFailed{CallID: c.ID, Attempt: c.Attempt, Failure: run.Failure{At: w.now, Code: r.Code, Message: r.Message}}
	}
	return run.EffectLost{CallID: c.ID, Attempt: c.Attempt, At: w.now}
}

func (w *world) note(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	story := ""
	for _, line := range w.story {
		story += "\n  " + line
	}
	panic(fmt.Sprintf(format, args...) + story)
}
