// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scripted is a model that says what a script tells it to: the default for demos, tests and dry runs. It is an
// adapter like any other, so a run with a script takes the same way through the operator as a run with a provider.
//
// The model keeps no state: the turn follows from the request's step and a failure from its attempt, so a script says the
// same after a restart. It reads no clock and no environment. The main type is Script, which says what can be written.
package scripted

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

// defaultName is the model that a reply names if the config names none.
const defaultName = "scripted"

var _ model.Factory = New

type scripted struct {
	name   string
	script *Script
	wait   func(context.Context, time.Duration) error
}

// New makes a model of cfg.Script. The endpoint and the key of cfg are not looked at.
func New(cfg model.Config) (model.Model, error) { return NewWithWait(cfg, model.Wait) }

// NewWithWait is New with another way to spend the script's delays: wait returns nil when the time has passed, or the
// context's error.
func NewWithWait(cfg model.Config, wait func(context.Context, time.Duration) error) (model.Model, error) {
	script, err := Parse(cfg.Script)
	if err != nil {
		return nil, err
	}
	name := cfg.Model
	if name == "" {
		name = defaultName
	}
	return &scripted{name: name, script: script, wait: wait}, nil
}

// Complete answers with the turn of req's step.
func (m *scripted) Complete(ctx context.Context, req run.ModelRequest) (run.Reply, error) {
	if err := ctx.Err(); err != nil {
		return run.Reply{}, model.ContextError(err)
	}
	t, err := m.script.turn(req.Step)
	if err != nil {
		return run.Reply{}, err
	}
	if err := t.Expect.check(req); err != nil {
		return run.Reply{}, err
	}
	if t.DelayMilliseconds > 0 {
		if err := m.wait(ctx, time.Duration(t.DelayMilliseconds)*time.Millisecond); err != nil {
			return run.Reply{}, model.ContextError(err)
		}
	}
	if err := t.Fail.of(req); err != nil {
		return run.Reply{}, err
	}
	reply := t.reply(m.name)
	if err := model.CheckReply(reply); err != nil {
		return run.Reply{}, err
	}
	return reply, nil
}

func (s *Script) turn(step int) (turn, error) {
	if step < 1 || step > len(s.turns) {
		return turn{}, invalid(fmt.Sprintf("the script has %d turns and turn %d was asked for", len(s.turns), step))
	}
	return s.turns[step-1], nil
}

// of is the failure that the script plans for this attempt, if any.
func (f *failure) of(req run.ModelRequest) error {
	if f == nil || req.Attempt > f.Times {
		return nil
	}
	return &model.Error{
		Reason:     f.Reason,
		RetryAfter: time.Duration(f.RetryAfterSeconds) * time.Second,
		Message:    fmt.Sprintf("the script fails attempt %d of turn %d", req.Attempt, req.Step),
	}
}

// reply builds the answer anew each time, so that no two callers share a slice.
func (t turn) reply(name string) run.Reply {
	r := run.Reply{Text: t.Text, Finish: t.Finish, Model: name}
	for _, c := range t.Calls {
		r.Calls = append(r.Calls, run.Proposal{ModelCallID: c.ID, Tool: c.Tool, Arguments: c.text()})
	}
	if u := t.Usage; u != nil {
		r.Usage = run.TokenUsage{Input: u.Input, CachedInput: u.CachedInput, Output: u.Output, Reasoning: u.Reasoning, Reported: true}
	}
	return r
}

func invalid(message string) *model.Error {
	return &model.Error{Reason: model.ReasonInvalidRequest, Message: message}
}
