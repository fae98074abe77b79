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
//	created [price=n] [input=n] [output=n] [cost=n] [repeats=n] [steps=n] [toolcalls=n] [invalid=n] [deadline=30s] [terminate] [denial-ends]
//	prepared [missing=what]
//	chosen [step=n] [attempt=n] choice=Pick [model=a] [words=w] [tokens=(in,out)]
//	reply [step=n] [attempt=n] [finish=Length] [empty] [calls=(a,b:InvalidArguments,c+write+preview+ask2+lookup)] [tokens=(in,out)]
//	model-failed [step=n] [attempt=n] code=C [permanent] [after=2s] [unsent] [overload]
//	undercounted [step=n] [attempt=n] input=n
//	ok call=s1c1 [attempt=n] [digest=d]
//	failed call=s1c1 [attempt=n] code=C [permanent] [after=2s] [doubt] [changed]
//	previewed call=s1c1 [attempt=n] [digest=d] [expires=10m]
//	approved call=s1c1 who=name [digest=d]
//	denied call=s1c1 [digest=d] [reason=words]
//	voided call=s1c1
//	nothing-done call=s1c1 [attempt=n]
//	child-started call=s1c1
//	child-ended call=s1c1 [steps=n toolcalls=n children=n cost=n input=n output=n] [code=C]
//	lost [call=s1c1] attempt=n
//	not-sent [call=s1c1 | step=n] [attempt=n]
//	suspend
//	resumed
//	cancel reason=words
//	time                   (the clock, which each command moves on by a second or by=)
//
// Each takes router=(a,b,!c) and chooser=d: the models that can be asked from then on, but for those with a !; and
// holds=(run,model,tool,...), or holds=() for none: what must not begin from then on.
func TestDecide_transcripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		t.Helper()
		s, now := run.State{Terms: run.Terms{MaxOutput: 100}}, start
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			by := time.Second
			if d.HasArg("by") {
				by = duration(t, d, "by")
			}
			now = now.Add(by)
			if d.HasArg("price") {
				price := run.Money(number(t, d, "price", 0))
				s.Terms.Price = &run.Price{Input: price, CachedInput: price / 10, Output: 5 * price, Reasoning: 5 * price}
			}
			for _, arg := range d.CmdArgs {
				switch arg.Key {
				case "holds":
					s.Holds = holds(arg.Vals)
				case "router":
					s.Router = router(t, d, arg.Vals)
				}
			}
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
	var call, by, reason, missing string
	digest := "d"
	d.MaybeScanArgs(t, "who", &by)
	d.MaybeScanArgs(t, "digest", &digest)
	d.MaybeScanArgs(t, "call", &call)
	d.MaybeScanArgs(t, "reason", &reason)
	d.MaybeScanArgs(t, "missing", &missing)
	switch d.Cmd {
	case "created":
		limits := run.Limits{
			MaxSteps: number(t, d, "steps", 5), MaxToolCalls: number(t, d, "toolcalls", 10), MaxInvalid: number(t, d, "invalid", 3),
			MaxRepeats: number(t, d, "repeats", 3), InputTokens: int64(number(t, d, "input", 100_000)), OutputTokens: int64(number(t, d, "output", 1000)), Cost: run.Money(number(t, d, "cost", 0)),
			MaxChildren: number(t, d, "children", 3), Parallelism: number(t, d, "parallelism", 2), Deadline: time.Hour, ToolFailureEnds: d.HasArg("terminate"), DenialEnds: d.HasArg("denial-ends"),
		}
		if d.HasArg("deadline") {
			limits.Deadline = duration(t, d, "deadline")
		}
		return run.Created{UID: "u", At: now, Limits: limits}
	case "prepared":
		return run.Prepared{At: now, Missing: missing, Context: 500, Question: 400}
	case "chosen":
		e := run.Chosen{Step: step, Attempt: attempt, At: now}
		var kind string
		d.ScanArgs(t, "choice", &kind)
		d.MaybeScanArgs(t, "model", &e.Choice.Model)
		d.MaybeScanArgs(t, "words", &e.Choice.Words)
		e.Choice.Kind = run.ChoiceKind(kind)
		for _, arg := range d.CmdArgs {
			if arg.Key == "tokens" {
				arg.Scan(t, 0, &e.Usage.Input)
				arg.Scan(t, 1, &e.Usage.Output)
				e.Usage.Reported = true
			}
		}
		return e
	case "reply":
		return reply(t, d, run.ModelReplied{Step: step, Attempt: attempt, At: now})
	case "model-failed":
		return run.ModelFailed{Step: step, Attempt: attempt, Failure: failure(t, d, now)}
	case "undercounted":
		return run.Undercounted{Step: step, Attempt: attempt, At: now, Input: int64(number(t, d, "input", 0))}
	case "previewed":
		expires := 10 * time.Minute
		if d.HasArg("expires") {
			expires = duration(t, d, "expires")
		}
		return run.Previewed{
			CallID: call, Attempt: attempt, At: now, Preview: run.Preview{ID: "p", Digest: "sha256:p", ResourceVersion: "7"},
			Ask: &run.Ask{Digest: digest, Expires: now.Add(expires)},
		}
	case "approved":
		return run.Approved{CallID: call, Digest: digest, At: now, Consent: run.Consent{Approval: "a-" + by, By: by}}
	case "denied":
		return run.Denied{CallID: call, Digest: digest, At: now, Reason: reason}
	case "voided":
		return run.Voided{CallID: call, At: now, Verdict: policy.Verdict{Code: "ToolChanged", Message: "The tool was changed."}}
	case "nothing-done":
		return run.NothingDone{CallID: call, Attempt: attempt, At: now}
	case "ok":
		return run.ToolSucceeded{CallID: call, Attempt: attempt, At: now, Digest: digest}
	case "failed":
		return run.ToolFailed{CallID: call, Attempt: attempt, Failure: failure(t, d, now)}
	case "child-started":
		return run.ChildStarted{CallID: call, At: now, UID: "u-" + call}
	case "child-ended":
		e := run.ChildEnded{CallID: call, At: now, Digest: digest}
		if d.HasArg("steps") {
			e.Spent = &run.Spent{Steps: number(t, d, "steps", 0), Usage: run.Usage{
				ModelCalls: number(t, d, "steps", 0), ToolCalls: number(t, d, "toolcalls", 0), Children: number(t, d, "children", 0), Cost: run.Money(number(t, d, "cost", 0)),
				Tokens: run.TokenUsage{Input: int64(number(t, d, "input", 0)), Output: int64(number(t, d, "output", 0))},
			}}
		}
		if d.HasArg("code") {
			e.Failure = new(failure(t, d, now))
		}
		return e
	case "lost":
		return run.EffectLost{CallID: call, Attempt: attempt, At: now}
	case "not-sent":
		return run.NotSent{CallID: call, Step: step, Attempt: attempt, At: now}
	case "suspend":
		return run.Suspend{At: now}
	case "resumed":
		return run.Resumed{At: now}
	case "refused":
		return run.Refused{At: now, Detail: "AbovePolicy", Message: "That is too much."}
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
				p := proposed(e.Step, i, v)
				if p.Rules.Approvals > 0 && !p.Rules.Preview {
					p.Ask = &run.Ask{Digest: "d", Expires: e.At.Add(10 * time.Minute)}
				}
				e.Calls = append(e.Calls, p)
			}
		case "tokens":
			arg.Scan(t, 0, &e.Usage.Input)
			arg.Scan(t, 1, &e.Usage.Output)
			e.Usage.Reported = true
		}
	}
	return e
}

// proposed makes a call of "tool+rules:Code", the code being that of the refusal wanted; both can be left out.
func proposed(step, i int, text string) run.ProposedCall {
	named, code, _ := strings.Cut(text, ":")
	tool, rules, _ := strings.Cut(named, "+")
	p := run.ProposedCall{
		Facts:       policy.Call{Tool: tool, Known: true},
		OperationID: fmt.Sprintf("op-s%dc%d", step, i+1), ArgumentsDigest: "sha256:x", Binding: run.Binding{UID: tool, Generation: 1},
	}
	for rule := range strings.SplitSeq(rules, "+") {
		switch rule {
		case "write":
			p.Rules.Write, p.Rules.Timeout = true, 10*time.Second
		case "slow":
			p.Rules.Timeout = 10 * time.Minute
		case "preview":
			p.Rules.Preview = true
		case "lookup":
			p.Rules.LookUp = true
		case "ask":
			p.Rules.Approvals = 1
		case "ask2":
			p.Rules.Approvals = 2
		case "child":
			p.Grant = &run.Grant{Steps: 2, ToolCalls: 3, InputTokens: 5000, OutputTokens: 200}
		case "nest":
			p.Grant = &run.Grant{Steps: 4, ToolCalls: 4, Children: 2, InputTokens: 20_000, OutputTokens: 400, Cost: 5_000_000}
		}
	}
	switch code {
	case policy.CodeNotPermitted:
		p.Facts.Unpermitted = "its ServiceAccount may not invoke it"
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

// router offers the models of the given names, which cost more the later they come; of those with a !, that they are off.
func router(t *testing.T, d *datadriven.TestData, names []string) *run.Router {
	t.Helper()
	offer := func(name string, price run.Money) run.Offer {
		o := run.Offer{Model: strings.TrimPrefix(name, "!"), Terms: run.Terms{MaxOutput: 100, Price: &run.Price{
			Input: price, CachedInput: price, Output: price, Reasoning: price,
		}}}
		if o.Model != name {
			o.Unfit = o.Model + " is off"
		}
		return o
	}
	r := &run.Router{}
	for i, name := range names {
		r.Candidates = append(r.Candidates, offer(name, run.Money(i+1)*1_000_000_000))
	}
	var chooser string
	if d.MaybeScanArgs(t, "chooser", &chooser) {
		r.Chooser = new(offer(chooser, 100_000_000))
	}
	return r
}

// holds are those of the names in vals: "run", "model" and tools.
func holds(vals []string) run.Holds {
	const why = "it is suspended"
	h := run.Holds{Tools: map[string]string{}}
	for _, name := range vals {
		switch name {
		case "run":
			h.Run = why
		case "model":
			h.Model = why
		default:
			h.Tools[name] = why
		}
	}
	return h
}

func failure(t *testing.T, d *datadriven.TestData, now time.Time) run.Failure {
	t.Helper()
	f := run.Failure{At: now, Message: "it did not work", Retryable: !d.HasArg("permanent"), MaxAttempts: 3, Backoff: time.Second}
	f.InDoubt, f.Changed, f.Unsent = d.HasArg("doubt"), d.HasArg("changed"), d.HasArg("unsent")
	f.Overload = d.HasArg("overload")
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
