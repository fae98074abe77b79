// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"time"

	"github.com/interlock-dev/interlock/internal/policy"
)

// Codes of calls that start child runs.
const (
	// CodeBudgetSpent: too little is left for a child run.
	CodeBudgetSpent = "BudgetSpent"
	// CodeChildFailed: the child run ended without its answer.
	CodeChildFailed = "ChildFailed"
)

// A Grant is what a child run may use, its own children included. It is the most that is wanted until the child is started; then
// it is what was had, and is reserved until the child has ended. The child's limits are its grant, and it keeps them by itself, so
// that used plus reserved within the limit of each run alone holds the limits of the whole tree.
type Grant struct {
	Steps, ToolCalls, Children int
	InputTokens, OutputTokens  int64
	// Cost is 0 if the child is held by its tokens only; while it is wanted, by what its parent has left.
	Cost Money
}

// A Spent is what a run has used, its children included.
type Spent struct {
	Steps int
	Usage Usage
}

// Spent gives what the run has used.
func (s State) Spent() Spent { return Spent{Steps: s.Step + s.Usage.ChildSteps, Usage: s.Usage} }

// childOut reports whether c may have a child run that has not ended.
func (c Call) childOut() bool {
	return c.Grant != nil && (c.State == CallExecuting || c.State == CallLookingUp)
}

// Outstanding reports whether c has to be heard of before the run can end: a write that may have happened, or a child run.
func (c Call) Outstanding() bool { return c.Unsettled() || c.childOut() }

// granted sums what is reserved for children.
func (s State) granted() Grant {
	var sum Grant
	for _, c := range s.Calls {
		if c.childOut() {
			sum.Steps += c.Grant.Steps
			sum.ToolCalls += c.Grant.ToolCalls
			sum.Children += c.Grant.Children + 1
			sum.InputTokens += c.Grant.InputTokens
			sum.OutputTokens += c.Grant.OutputTokens
			sum.Cost += c.Grant.Cost
		}
	}
	return sum
}

// left gives what may still be granted. Without a limit of cost there is always enough.
func (s State) left() Grant {
	g := s.granted()
	left := Grant{
		Steps: s.Limits.MaxSteps - s.Step - s.Usage.ChildSteps - g.Steps, ToolCalls: s.Limits.MaxToolCalls - s.Usage.ToolCalls - g.ToolCalls,
		Children:    s.Limits.MaxChildren - s.Usage.Children - g.Children,
		InputTokens: s.Limits.InputTokens - s.Usage.Tokens.Input - g.InputTokens, OutputTokens: s.Limits.OutputTokens - s.Usage.Tokens.Output - g.OutputTokens,
		Cost: mostMoney,
	}
	if s.Limits.Cost > 0 {
		left.Cost = s.Limits.Cost - s.Usage.Cost - g.Cost
	}
	return left
}

// grant gives call i what it wants of what is left. A child that has the rest to itself takes what there is; beside others it
// waits until it can have all that it wants, or they have ended.
func (s State) grant(i int) (Grant, bool) {
	wanted, left := *s.Calls[i].Grant, s.left()
	// The child itself counts, and its parent keeps a step to answer, with what that takes, and another attempt at each of its own calls.
	left.Children--
	left.Steps--
	left.InputTokens -= s.Context
	left.ToolCalls -= s.ownOpen()
	terms := s.offer().Terms
	answer := min(terms.MaxOutput, left.OutputTokens/2)
	left.OutputTokens -= answer
	if s.Limits.Cost > 0 && terms.Price != nil {
		left.Cost -= terms.Price.of(TokenUsage{Input: s.Context, Output: answer})
	}
	if wanted.Cost == 0 && s.Limits.Cost > 0 {
		wanted.Cost = left.Cost
	}
	g := Grant{
		Steps: min(wanted.Steps, left.Steps), ToolCalls: min(wanted.ToolCalls, left.ToolCalls), Children: min(wanted.Children, left.Children),
		InputTokens: min(wanted.InputTokens, left.InputTokens), OutputTokens: min(wanted.OutputTokens, left.OutputTokens), Cost: min(wanted.Cost, left.Cost),
	}
	enough := g.Steps > 0 && g.ToolCalls >= 0 && g.Children >= 0 && g.InputTokens > 0 && g.OutputTokens >= leastOutput && (g.Cost > 0 || s.Limits.Cost == 0)
	return g, enough && (g == wanted || s.childrenOut() == 0)
}

func (s State) childrenOut() int {
	n := 0
	for _, c := range s.Calls {
		if c.childOut() {
			n++
		}
	}
	return n
}

// ownOpen counts the calls that are open and start no child.
func (s State) ownOpen() int {
	n := 0
	for _, c := range s.Calls {
		if c.Grant == nil && !c.Done() {
			n++
		}
	}
	return n
}

// startChild puts the intent to start the child of call i into the state, with its grant; nil if it is not yet its time.
func (s State) startChild(i int) Effect {
	g, ok := s.grant(i)
	if !ok || s.childrenOut() >= s.Limits.Parallelism {
		return nil
	}
	c := &s.Calls[i]
	c.State, c.NotBefore, c.Grant = CallExecuting, time.Time{}, &g
	c.Attempt++
	return StartChild{CallID: c.ID, Tool: c.Tool, Attempt: c.Attempt}
}

// startAgain makes sure once more that the child of a call is there. Until that is known it keeps its grant, whatever becomes of the
// attempt: the one before may still arrive.
func (c *Call) startAgain() Effect {
	c.State, c.NotBefore = CallLookingUp, time.Time{}
	c.Attempt++
	return StartChild{CallID: c.ID, Tool: c.Tool, Attempt: c.Attempt, Again: true}
}

// childStarted takes note that the child of a call is there. From then on it is never started again.
func (s State) childStarted(e ChildStarted) (State, []Effect) {
	i := s.callOf(e.CallID)
	if i < 0 || !s.Calls[i].childOut() || s.Calls[i].Child != "" {
		return s, nil
	}
	c := &s.Calls[i]
	c.State, c.NotBefore, c.Code, c.Child = CallExecuting, time.Time{}, "", e.UID
	return s, nil
}

// lookAgain asks once more, after a pause, whether the child of a call is there.
func (s State) lookAgain(i int, f Failure) (State, []Effect) {
	c := &s.Calls[i]
	c.Failures++
	c.State, c.Code, c.NotBefore = CallLookingUp, f.Code, f.At.Add(pause(c.OperationID, c.Failures, f))
	return s, nil
}

// starved reports whether call i could begin, but for the budget, and nothing that is under way will give any back.
func (s State) starved(i int) bool {
	c := s.Calls[i]
	if c.Grant == nil || !c.parked() || !c.approved() || s.Holds.ofTool(c.Tool) != "" || !s.itsTurn(i) || s.childrenOut() > 0 {
		return false
	}
	_, ok := s.grant(i)
	return !ok
}

// budgetSpent refuses a call for which too little is left.
func (s State) budgetSpent(i int, at time.Time) (State, []Effect) {
	left := s.left()
	return s.refuse(i, at, policy.Verdict{Code: CodeBudgetSpent, Message: fmt.Sprintf(
		"Too little of the run's budget is left for the call: %d steps, %d tool calls, %d child runs, %d input and %d output tokens.",
		left.Steps, left.ToolCalls, left.Children, left.InputTokens, left.OutputTokens)}, false)
}

// childEnded charges what a child run has used, and gives its call the result.
func (s State) childEnded(e ChildEnded) (State, []Effect) {
	i := s.callOf(e.CallID)
	if i < 0 || !s.Calls[i].childOut() {
		return s, nil
	}
	s.chargeChild(i, e.Spent)
	if e.Failure != nil {
		return s.failCall(i, *e.Failure)
	}
	return s.toolSucceeded(ToolSucceeded{CallID: e.CallID, Attempt: s.Calls[i].Attempt, At: e.At, Tokens: e.Tokens, Digest: e.Digest})
}

// chargeChild takes back the grant of call i, and charges what was used of it: all, if nobody can say.
func (s *State) chargeChild(i int, spent *Spent) {
	g := s.Calls[i].Grant
	if spent == nil {
		spent = &Spent{Steps: g.Steps, Usage: Usage{
			ToolCalls: g.ToolCalls, Children: g.Children, Cost: g.Cost, Tokens: TokenUsage{Input: g.InputTokens, Output: g.OutputTokens},
		}}
	}
	u := spent.Usage
	s.Usage.Children += u.Children + 1
	s.Usage.ChildSteps += spent.Steps
	s.Usage.ModelCalls += u.ModelCalls
	s.Usage.ToolCalls += u.ToolCalls
	s.Usage.Unreported += u.Unreported
	s.Usage.Tokens.Input += u.Tokens.Input
	s.Usage.Tokens.CachedInput += u.Tokens.CachedInput
	s.Usage.Tokens.Output += u.Tokens.Output
	s.Usage.Tokens.Reasoning += u.Tokens.Reasoning
	s.Usage.Cost = min(s.Usage.Cost+u.Cost, mostMoney)
	s.Calls[i].Grant, s.Calls[i].Child = nil, ""
}

func (s State) callOf(id string) int {
	for i, c := range s.Calls {
		if c.ID == id {
			return i
		}
	}
	return -1
}
