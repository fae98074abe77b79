// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// limitsOf gives the core the limits of a spec. All of them have a value: the API server fills in what was left out.
func limitsOf(spec v1alpha1.AgentRunSpec) run.Limits {
	return run.Limits{
		MaxSteps: int(spec.Limits.MaxSteps), MaxToolCalls: int(value(spec.Limits.MaxToolCalls)), MaxInvalid: int(value(spec.Limits.MaxInvalid)),
		MaxChildren: int(value(spec.Limits.MaxChildren)), Parallelism: int(spec.Limits.Parallelism),
		MaxRepeats: int(spec.Limits.MaxRepeats), InputTokens: spec.Limits.MaxInputTokens, OutputTokens: spec.Limits.MaxOutputTokens, Cost: moneyOf(spec.Limits.MaxCost),
		Deadline:        time.Duration(spec.Limits.DeadlineSeconds) * time.Second,
		ToolFailureEnds: spec.OnToolFailure == v1alpha1.ToolFailureTerminate, DenialEnds: spec.OnDenied == v1alpha1.DenialTerminate,
	}
}

// stateOf reads the state out of a run's status. What is only in the spec (UID, limits) comes from there.
func stateOf(agentRun *v1alpha1.AgentRun) run.State {
	status := agentRun.Status
	if status.Phase == "" {
		return run.State{}
	}
	s := run.State{
		UID: string(agentRun.UID), Phase: run.Phase(status.Phase), Limits: limitsOf(agentRun.Spec), Step: int(status.Step),
		Started: timeOf(status.StartTime), Deadline: timeOf(status.Deadline), Completed: timeOf(status.CompletionTime),
		Usage: usageOf(status.Usage), Context: status.ContextTokens, Route: routeFrom(status.Route),
	}
	if m := status.ModelCall; m != nil {
		s.Model = &run.ModelCall{Attempt: int(m.Attempt), Failures: int(m.Failures), NotBefore: microTimeOf(m.NotBefore), Code: m.Code, Reserved: reservationFrom(m.Reserved), Held: m.State == v1alpha1.ModelHeld, Tried: m.Tried}
	}
	for _, r := range status.Repeats {
		s.Repeats = append(s.Repeats, run.Repeat{Key: r.Key, Count: int(r.Count)})
	}
	for _, c := range status.Calls {
		s.Calls = append(s.Calls, callFrom(c))
	}
	if t := status.Termination; t != nil {
		s.Termination = new(terminationFrom(*t))
	}
	if e := status.Ending; e != nil {
		s.Ending = &run.Ending{Termination: terminationFrom(e.Termination), Until: e.Until.Time}
	}
	if r := status.Result; r != nil {
		s.Answer = answerFrom(*r)
	}
	return s
}

// statusOf writes the state into the form that the API has. What is longer than the API takes is cut.
func statusOf(s run.State, agentRun *v1alpha1.AgentRun) v1alpha1.AgentRunStatus {
	status := v1alpha1.AgentRunStatus{
		Conditions:         conditionsOf(s, agentRun),
		ObservedGeneration: agentRun.Generation,
		StateVersion:       run.StateVersion,
		Phase:              v1alpha1.RunPhase(s.Phase),
		Step:               int32(s.Step), //nolint:gosec // bounded by limits.maxSteps
		StartTime:          timePointer(s.Started),
		Deadline:           timePointer(roundUp(s.Deadline)),
		CompletionTime:     timePointer(s.Completed),
		Usage:              usageStatus(s.Usage),
		ContextTokens:      s.Context,
		Route:              routeStatus(s.Route),
	}
	if m := s.Model; m != nil {
		status.ModelCall = &v1alpha1.ModelCallStatus{
			State: v1alpha1.ModelAsking, Attempt: int32(m.Attempt), Failures: int32(m.Failures), //nolint:gosec // counts requests
			NotBefore: microTimePointer(m.NotBefore), Code: m.Code, Reserved: reservationStatus(m.Reserved), Tried: m.Tried,
		}
		switch {
		case m.Held:
			status.ModelCall.State = v1alpha1.ModelHeld
		case !m.NotBefore.IsZero():
			status.ModelCall.State = v1alpha1.ModelBackoff
		}
	}
	for _, r := range s.Repeats {
		status.Repeats = append(status.Repeats, v1alpha1.Repeat{Key: r.Key, Count: int32(r.Count)}) //nolint:gosec // bounded by limits.maxToolCalls
	}
	for _, c := range s.Calls {
		status.Calls = append(status.Calls, callStatus(c, agentRun))
	}
	if e := s.Ending; e != nil {
		status.Ending = &v1alpha1.Ending{Termination: terminationStatus(e.Termination), Until: metav1.NewTime(roundUp(e.Until))}
	}
	if t := s.Termination; t != nil {
		status.Termination = new(terminationStatus(*t))
		if t.Reason == run.ReasonFinal {
			status.Result = resultStatus(s.Answer)
		}
	}
	return status
}

func terminationFrom(t v1alpha1.Termination) run.Termination {
	return run.Termination{Reason: run.Reason(t.Reason), Detail: t.Detail, Message: t.Message, Step: int(t.Step), CallID: t.CallID}
}

func terminationStatus(t run.Termination) v1alpha1.Termination {
	return v1alpha1.Termination{
		Reason: v1alpha1.TerminationReason(t.Reason), Detail: text.Clip(t.Detail, maxCode), Message: text.Clip(t.Message, maxCondition),
		Step: int32(t.Step), CallID: t.CallID, //nolint:gosec // bounded by limits.maxSteps
	}
}

// maxAnswer bounds the answer in the status, in bytes.
const maxAnswer = 16384

func resultStatus(a run.Answer) *v1alpha1.RunResult {
	r := &v1alpha1.RunResult{Text: text.Clip(a.Text, maxAnswer)}
	for _, c := range a.Citations {
		r.Citations = append(r.Citations, v1alpha1.Citation{
			ID: c.ID, Title: c.Title, URL: c.URL, CallID: c.CallID, ObservedAt: timePointer(c.ObservedAt), SourceVersion: c.SourceVersion,
		})
	}
	return r
}

func answerFrom(r v1alpha1.RunResult) run.Answer {
	a := run.Answer{Text: r.Text}
	for _, c := range r.Citations {
		a.Citations = append(a.Citations, run.Citation{
			Source: run.Source{ID: c.ID, Title: c.Title, URL: c.URL}, CallID: c.CallID,
			ObservedAt: timeOf(c.ObservedAt), SourceVersion: c.SourceVersion,
		})
	}
	return a
}

func usageOf(u *v1alpha1.RunUsage) run.Usage {
	if u == nil {
		return run.Usage{}
	}
	return run.Usage{
		ModelCalls: int(value(u.ModelCalls)), ToolCalls: int(value(u.ToolCalls)), Invalid: int(value(u.Invalid)),
		Children: int(value(u.Children)), ChildSteps: int(value(u.ChildSteps)),
		Unreported: int(value(u.UnreportedModelCalls)), Cost: moneyOf(u.Cost),
		Tokens: run.TokenUsage{
			Input: value(u.InputTokens), CachedInput: value(u.CachedInputTokens), Output: value(u.OutputTokens), Reasoning: value(u.ReasoningTokens),
		},
	}
}

func usageStatus(u run.Usage) *v1alpha1.RunUsage {
	return &v1alpha1.RunUsage{
		Children: count(u.Children), ChildSteps: count(u.ChildSteps),
		ModelCalls: count(u.ModelCalls), ToolCalls: count(u.ToolCalls), Invalid: count(u.Invalid), UnreportedModelCalls: count(u.Unreported),
		InputTokens: new(u.Tokens.Input), CachedInputTokens: new(u.Tokens.CachedInput),
		OutputTokens: new(u.Tokens.Output), ReasoningTokens: new(u.Tokens.Reasoning), TotalTokens: new(u.Tokens.Input + u.Tokens.Output), Cost: amountOf(u.Cost),
	}
}

func count(n int) *int32 { return new(int32(n)) } //nolint:gosec // counts requests

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// roundUp gives the next full second: the API keeps no less, and a deadline must not come early.
func roundUp(t time.Time) time.Time {
	if t.IsZero() || t.Truncate(time.Second).Equal(t) {
		return t
	}
	return t.Truncate(time.Second).Add(time.Second)
}

func timePointer(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t.Truncate(time.Second)))
}

func microTimePointer(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewMicroTime(t.Truncate(time.Microsecond)))
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func microTimeOf(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
