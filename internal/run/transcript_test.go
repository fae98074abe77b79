// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/interlock-dev/interlock/internal/policy"
	"github.com/interlock-dev/interlock/internal/run"
)

var start = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)

// TestDecide_transcripts replays the stories in testdata/transcripts: a stanza is an event and what followed from it. Rewrite them with
// -rewrite, and review the difference as code. The commands and their arguments:
//
//	created [steps=n] [toolcalls=n] [invalid=n] [deadline=30s] [terminate]
//	prepared [missing=what]
//	reply [step=n] [attempt=n] [finish=Length] [empty] [calls=(a,b:InvalidArguments)] [tokens=(in,out)]
//	model-failed [step=n] [attempt=n] code=C [permanent] [after=2s]
//	ok call=s1c1 [attempt=n]
//	failed call=s1c1 [attempt=n] code=C [permanent] [after=2s]
//	lost [call=s1c1] attempt=n
//	cancel reason=words
//	time                   (the clock, which each command moves on by a second or by=)
func TestDecide_transcripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		t.Helper()
		s, now := run.State{}, start
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			by := time.Second
			if d.HasArg("by") {
				by = duration(t, d, "by")
			}
			now = now.Add(by)
			var effects []run.Effect
			s, effects = run.Decide(s, event(t, d, now))
			lines := []string{s.String()}
			for _, e := range effects {
				lines = append(lines, "  "+e.String())
			}
			return strings.Join(lines, "\n") + "\n"
		})
	})
}

func event(t *testing.T, d *datadriven.TestData, now time.Time) run.Event {
	t.Helper()
	step, attempt := number(t, d, "step", 1), number(t, d, "attempt", 1)
	var call, reason, missing string
	d.MaybeScanArgs(t, "call", &call)
	d.MaybeScanArgs(t, "reason", &reason)
	d.MaybeScanArgs(t, "missing", &missing)
	switch d.Cmd {
	case "created":
		limits := run.Limits{
			MaxSteps: number(t, d, "steps", 5), MaxToolCalls: number(t, d, "toolcalls", 10), MaxInvalid: number(t, d, "invalid", 3),
			Deadline: time.Hour, ToolFailureEnds: d.HasArg("terminate"),
		}
		if d.HasArg("deadline") {
			limits.Deadline = duration(t, d, "deadline")
		}
		return run.Created{UID: "u", At: now, Limits: limits}
	case "prepared":
		return run.Prepared{Missing: missing}
	case "reply":
		return reply(t, d, run.ModelReplied{Step: step, Attempt: attempt, At: now})
	case "model-failed":
		return run.ModelFailed{Step: step, Attempt: attempt, Failure: failure(t, d, now)}
	case "ok":
		return run.ToolSucceeded{CallID: call, Attempt: attempt, At: now}
	case "failed":
		return run.ToolFailed{CallID: call, Attempt: attempt, Failure: failure(t, d, now)}
	case "lost":
		return run.EffectLost{CallID: call, Attempt: attempt, At: now}
	case "cancel":
		return run.CancelRequested{At: now, Reason: reason}
	case "time":
		return run.TimePassed{At: now}
	}
	d.Fatalf(t, "no such command: %s", d.Cmd)
	return nil
}

func reply(t *testing.T, d *datadriven.TestData, e run.ModelReplied) run.Event {
	t.Helper()
	finish := string(run.FinishStop)
	d.MaybeScanArgs(t, "finish", &finish)
	e.Finish, e.Empty = run.Finish(finish), d.HasArg("empty")
	e.Answer = run.Answer{Text: "an answer"}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "calls":
			for i, v := range arg.Vals {
				e.Calls = append(e.Calls, proposed(e.Step, i, v))
			}
		case "tokens":
			arg.Scan(t, 0, &e.Usage.Input)
			arg.Scan(t, 1, &e.Usage.Output)
			e.Usage.Reported = true
		}
	}
	return e
}

// proposed makes a call of "tool" or "tool:Code", the code being that of the refusal wanted.
func proposed(step, i int, text string) run.ProposedCall {
	tool, code, _ := strings.Cut(text, ":")
	p := run.ProposedCall{
		Facts:       policy.Call{Tool: tool, Known: true},
		OperationID: fmt.Sprintf("op-s%dc%d", step, i+1), ArgumentsDigest: "sha256:x", Binding: run.Binding{UID: tool, Generation: 1},
	}
	switch code {
	case policy.CodeUnknownTool:
		p.Facts.Known = false
	case policy.CodeToolUnavailable:
		p.Facts.Unavailable = "it is not ready"
	case policy.CodeMalformedArguments:
		p.Facts.Malformed = "it is not JSON"
	case policy.CodeInvalidArguments:
		p.Facts.Invalid = "at '/q': it is missing"
	}
	return p
}

func failure(t *testing.T, d *datadriven.TestData, now time.Time) run.Failure {
	t.Helper()
	f := run.Failure{At: now, Message: "it did not work", Retryable: !d.HasArg("permanent"), MaxAttempts: 3, Backoff: time.Second}
	d.ScanArgs(t, "code", &f.Code)
	if d.HasArg("after") {
		f.RetryAfter = duration(t, d, "after")
	}
	return f
}

func number(t *testing.T, d *datadriven.TestData, key string, otherwise int) int {
	t.Helper()
	d.MaybeScanArgs(t, key, &otherwise)
	return otherwise
}

func duration(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	t.Helper()
	var text string
	d.ScanArgs(t, key, &text)
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	return v
}
