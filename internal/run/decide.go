// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"
	"time"

	"github.com/interlock-dev/interlock/internal/policy"
)

// Decide returns what follows from one event: the next state, and what the shell must do to get there.
// It is total: an event that does not fit the state changes nothing and asks for nothing. It never changes its argument.
func Decide(s State, e Event) (State, []Effect) {
	if s.Finished() {
		return s, nil
	}
	s = s.clone()
	switch e := e.(type) {
	case Created:
		return s.created(e), nil
	case Prepared:
		return s.prepared(e)
	case Chosen:
		return s.chosen(e)
	case ModelReplied:
		return s.modelReplied(e)
	case ModelFailed:
		return s.modelFailed(e)
	case Undercounted:
		return s.undercounted(e)
	case Previewed:
		return s.previewed(e)
	case Approved:
		return s.approvedBy(e)
	case Denied:
		return s.denied(e)
	case Voided:
		return s.withdraw(e.CallID, e.At, e.Verdict)
	case Recorded:
		return s.withdraw(e.CallID, e.At, e.Verdict)
	case NothingDone:
		return s.nothingDone(e)
	case ToolSucceeded:
		return s.toolSucceeded(e)
	case ToolFailed:
		return s.toolFailed(e)
	case ChildStarted:
		return s.childStarted(e)
	case ChildEnded:
		return s.childEnded(e)
	case EffectLost:
		return s.effectLost(e)
	case NotSent:
		return s.notSent(e)
	case Suspend:
		return s.suspended(e)
	case Resumed:
		return s.resumed(e.At)
	case Refused:
		return s.refusedBy(e)
	case CancelRequested:
		return s.end(e.At, Termination{Reason: ReasonCancelled, Message: "Cancelled: " + e.Reason})
	case TimePassed:
		return s.timePassed(e.At)
	}
	return s, nil
}

// Fold folds events into s, one after the other, to be recorded with one write. What has to be kept comes first; what an
// event started is not started if a later one ended the run.
func Fold(s State, events []Event) (State, []Effect) {
	var keep, perform []Effect
	for _, e := range events {
		var effects []Effect
		s, effects = Decide(s, e)
		for _, f := range effects {
			switch f := f.(type) {
			case KeepTurn, KeepResults:
				keep = append(keep, f)
			case CallModel, PreviewTool, CallTool, StartChild, LookUpTool:
				perform = append(perform, f)
			case StopEffects:
				unsent := perform
				perform = append([]Effect{f}, lookUps(unsent, f.Keep)...)
				var settled []Effect
				s, settled = s.takeBack(f.At, unsent)
				for _, f := range settled {
					if _, ok := f.(KeepResults); ok {
						keep = append(keep, f)
					}
				}
			}
		}
	}
	return s, append(keep, perform...)
}

// lookUps gives those of effects that find out what became of the given calls: they go on to the end.
func lookUps(effects []Effect, calls []string) []Effect {
	return slices.DeleteFunc(slices.Clone(effects), func(f Effect) bool {
		switch f := f.(type) {
		case LookUpTool:
			return !slices.Contains(calls, f.CallID)
		case StartChild:
			return !f.Again || !slices.Contains(calls, f.CallID)
		case KeepTurn, KeepResults, CallModel, PreviewTool, CallTool, StopEffects:
		}
		return true
	})
}

// takeBack says of calls that were to be sent, when the run ended before they were, that nothing was done.
func (s State) takeBack(at time.Time, unsent []Effect) (State, []Effect) {
	var all []Effect
	nothing := func(callID string, attempt int) {
		var effects []Effect
		s, effects = Decide(s, NothingDone{CallID: callID, Attempt: attempt, At: at})
		all = append(all, effects...)
	}
	for _, f := range unsent {
		switch f := f.(type) {
		case CallTool:
			nothing(f.CallID, f.Attempt)
		case StartChild:
			if !f.Again {
				nothing(f.CallID, f.Attempt)
			}
		case KeepTurn, KeepResults, CallModel, PreviewTool, LookUpTool, StopEffects:
		}
	}
	return s, all
}

func (s State) clone() State {
	s.Calls, s.Repeats = slices.Clone(s.Calls), slices.Clone(s.Repeats)
	for i, c := range s.Calls {
		s.Calls[i] = c.clone()
	}
	if s.Model != nil {
		s.Model = new(*s.Model)
		s.Model.Tried = slices.Clone(s.Model.Tried)
	}
	s.Route = s.Route.clone()
	return s
}

func (s State) created(e Created) State {
	if s.Phase != "" {
		return s
	}
	s.UID, s.Limits = e.UID, e.Limits
	s.Phase, s.Started, s.Deadline = Pending, e.At, e.At.Add(e.Limits.Deadline)
	// Whole seconds are kept of it, and it must not be another one once it is read back.
	if whole := s.Deadline.Truncate(time.Second); whole.Before(s.Deadline) {
		s.Deadline = whole.Add(time.Second)
	}
	if !e.Until.IsZero() && e.Until.Before(s.Deadline) {
		s.Deadline = e.Until
	}
	return s
}

func (s State) prepared(e Prepared) (State, []Effect) {
	if s.Step > 0 || s.Phase == "" {
		return s, nil
	}
	if s.Holds.Run != "" {
		s.Phase, s.Waiting = Suspended, ""
		return s, nil
	}
	s.Phase = Pending
	if s.Waiting = e.Missing; s.Waiting != "" {
		return s, nil
	}
	s.Context = e.Context
	s.setOut(e.Question)
	return s.think(e.At)
}

func (s State) modelReplied(e ModelReplied) (State, []Effect) {
	if !s.asking(e.Step, e.Attempt) || s.Choosing() {
		return s, nil
	}
	s.settle(e.Usage)
	s.Model, s.Calls = nil, nil
	s.Context += e.Tokens
	keep := then([]Effect{KeepTurn{Step: s.Step}})
	if len(e.Calls) > 0 {
		return keep(s.propose(e))
	}
	return keep(s.conclude(e))
}

// conclude deals with a reply that asks for nothing: an answer, or nothing of use.
func (s State) conclude(e ModelReplied) (State, []Effect) {
	switch {
	case e.Finish == FinishRefused:
		return s.end(e.At, refusal)
	case e.Finish == FinishLength || e.Empty:
		s.Usage.Invalid++
		return s.nextStep(e.At)
	}
	s.Answer = e.Answer
	return s.end(e.At, Termination{Reason: ReasonFinal, Message: "The model gave its answer."})
}

// propose puts each call of a reply through the gate. What is refused has its result at once; of the rest, what may begin
// begins. If the reply ends the run, nothing of it does.
func (s State) propose(e ModelReplied) (State, []Effect) {
	s.Phase = Acting
	verdicts := gate(e)
	s.Usage.Invalid += countInvalid(verdicts)
	stop := s.stoppedBy(e, verdicts)

	var refused []CallResult
	for i, p := range e.Calls {
		c := Call{
			ID: fmt.Sprintf("s%dc%d", s.Step, i+1), Tool: p.Facts.Tool, State: CallReady,
			OperationID: p.OperationID, ArgumentsDigest: p.ArgumentsDigest, Binding: p.Binding, Rules: p.Rules, Ask: p.Ask, Grant: p.Grant,
		}
		v := verdicts[i]
		if v.Allowed() && stop != nil {
			v = policy.Verdict{Code: CodeRunEnded, Message: "The run ended before the call was sent."}
		}
		if v.Allowed() {
			s.Usage.ToolCalls++
		} else {
			c.State, c.Code, c.Ask, c.Grant = CallRejected, v.Code, nil, nil
			refused = append(refused, c.result(v.Message))
		}
		s.Calls = append(s.Calls, c)
	}
	keep := then(s.keep(refused))
	if stop != nil {
		return keep(s.end(e.At, *stop))
	}
	return keep(s.goOn(e.At))
}

// gate gives the verdict on each call of a reply.
func gate(e ModelReplied) []policy.Verdict {
	verdicts := make([]policy.Verdict, len(e.Calls))
	for i, p := range e.Calls {
		p.Facts.CutOff = e.Finish == FinishLength
		p.Facts.Refused = e.Finish == FinishRefused
		verdicts[i] = p.Recorded
		if verdicts[i].Allowed() {
			verdicts[i] = policy.Check(p.Facts)
		}
	}
	return verdicts
}

// countInvalid counts the calls that the model should not have asked for. It is not to blame for a tool that is out of
// service, nor for a call that the journal already holds as ended with its run, or as too much for its budget.
func countInvalid(verdicts []policy.Verdict) int {
	n := 0
	for _, v := range verdicts {
		if !v.Allowed() && v.Code != CodeRunEnded && v.Code != CodeBudgetSpent && v.Code != policy.CodeToolUnavailable {
			n++
		}
	}
	return n
}

// countAllowed counts the calls that are to be sent. One that the journal already holds as ended with its run would be sent,
// too, if the run did not end again.
func countAllowed(verdicts []policy.Verdict) int {
	n := 0
	for _, v := range verdicts {
		if v.Allowed() || v.Code == CodeRunEnded {
			n++
		}
	}
	return n
}

// stoppedBy gives the end that a reply with calls brings about before any of them is sent; nil if it brings none.
func (s State) stoppedBy(e ModelReplied, verdicts []policy.Verdict) *Termination {
	switch {
	case e.Finish == FinishRefused:
		return &refusal
	case s.Limits.DenialEnds && slices.ContainsFunc(verdicts, func(v policy.Verdict) bool { return v.Code == policy.CodeNotPermitted }):
		return new(deniedAs(policy.CodeNotPermitted, ""))
	case s.Usage.Invalid > s.Limits.MaxInvalid:
		return new(s.tooManyInvalid())
	case s.Usage.ToolCalls+countAllowed(verdicts) > s.Limits.MaxToolCalls:
		return new(s.toolCallsSpent(""))
	}
	return nil
}

func (s State) modelFailed(e ModelFailed) (State, []Effect) {
	if !s.asking(e.Step, e.Attempt) {
		return s, nil
	}
	f := e.Failure
	if f.Unsent {
		s.Model.Reserved = Reservation{}
	} else {
		s.settle(TokenUsage{})
	}
	s.Model.Code = f.Code
	if f.Code != CodeBreakerOpen {
		s.Model.Failures++
	}
	if !f.At.Before(s.Deadline) {
		// It was the deadline that ended the request.
		return s.timePassed(f.At)
	}
	at, again := s.retryAt(fmt.Sprintf("%s/s%d", s.UID, s.Step), s.Model.Failures, f)
	if (!again || f.Code == CodeBreakerOpen) && s.fallBack(f) {
		return s.ask(f.At, ModelCall{Attempt: s.Model.Attempt + 1, Code: f.Code, Tried: s.Model.Tried})
	}
	if again {
		s.Model.NotBefore = at
		return s, nil
	}
	return s.end(f.At, Termination{
		Reason: ReasonModelFailed, Detail: f.Code,
		Message: fmt.Sprintf("The model could not be asked, at attempt %d: %s", e.Attempt, f.Message),
	})
}
