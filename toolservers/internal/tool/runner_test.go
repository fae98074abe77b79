// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const word = `{"type": "object", "additionalProperties": false, "required": ["word"],
	"properties": {"word": {"type": "string", "maxLength": 10}, "day": {"type": "string", "format": "date"}}}`

// running makes a runner of one tool, "echo", that does what run does, and gives its log.
func running(t *testing.T, run func(context.Context, Operation) (Answer, error)) (*Runner, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	r, err := NewRunner("words@1", func() time.Time { return noon }, slog.New(slog.NewTextHandler(&log, nil)),
		Tool{Name: "echo", InputSchema: json.RawMessage(word), Call: run})
	if err != nil {
		t.Fatal(err)
	}
	return r, &log
}

// with gives an operation of those arguments.
func with(arguments string) Operation {
	return Operation{ID: "op-1", Arguments: json.RawMessage(arguments)}
}

func echo(_ context.Context, op Operation) (Answer, error) {
	return Answer{Data: map[string]string{"heard": string(op.Arguments)}, Sources: []Source{{ID: "s"}}}, nil
}

func TestCall_tellsWhatWhereAndWhen(t *testing.T) {
	r, _ := running(t, echo)
	got, err := r.Call(t.Context(), "echo", with(`{"word":"<b>"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Result{
		Data:          json.RawMessage(`{"heard":"{\"word\":\"<b>\"}"}`),
		Sources:       []Source{{ID: "s"}},
		ObservedAt:    noon,
		SourceVersion: "words@1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCall_alwaysListsSources(t *testing.T) {
	r, _ := running(t, func(context.Context, Operation) (Answer, error) { return Answer{}, nil })
	got, err := r.Call(t.Context(), "echo", with(`{"word":"a"}`))
	if err != nil || got.Sources == nil {
		t.Errorf("Call = %+v, %v", got, err)
	}
}

func TestCall_refusesWhatDoesNotFit(t *testing.T) {
	r, _ := running(t, echo)
	tests := map[string]struct {
		tool, arguments string
		want            Code
		says            string
	}{
		"a tool that is not there":         {"shout", `{}`, UnknownTool, "no such tool"},
		"a missing property":               {"echo", `{}`, InvalidArguments, "missing property 'word'"},
		"no arguments at all, which is {}": {"echo", ``, InvalidArguments, "missing property 'word'"},
		"a property too many":              {"echo", `{"word":"a","more":1}`, InvalidArguments, "'more' not allowed"},
		"a text too long":                  {"echo", `{"word":"elevenchars"}`, InvalidArguments, "at /word: maxLength"},
		"a day that does not exist":        {"echo", `{"word":"a","day":"2026-02-30"}`, InvalidArguments, "at /day"},
		"no object":                        {"echo", `["a"]`, InvalidArguments, "want object"},
		"no JSON":                          {"echo", `{"word":`, MalformedRequest, ""},
		"two values":                       {"echo", `{"word":"a"}{}`, MalformedRequest, ""},
		"a key twice":                      {"echo", `{"word":"a","word":"b"}`, MalformedRequest, "unique keys"},
		"no UTF-8":                         {"echo", "{\"word\":\"\xff\"}", MalformedRequest, "UTF-8"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := r.Call(t.Context(), tt.tool, with(tt.arguments))
			if err == nil || err.Code != tt.want || !strings.Contains(err.Message, tt.says) {
				t.Errorf("Call = %v, want %s with %q", err, tt.want, tt.says)
			}
		})
	}
}

func TestCall_boundsWhatItSaysOfArguments(t *testing.T) {
	r, err := NewRunner("", time.Now, slog.New(slog.DiscardHandler),
		Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object","additionalProperties":{"type":"string"}}`), Call: echo})
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]int{}
	for i := range 100 {
		arguments[strings.Repeat("k", 500+i)+"\n"] = i
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	_, refusal := r.Call(t.Context(), "echo", Operation{Arguments: raw})
	if refusal == nil || len(refusal.Message) > maxViolations*(2*maxText+20) || strings.Contains(refusal.Message, "\n") {
		t.Errorf("Call = %v", refusal)
	}
	if !strings.HasSuffix(refusal.Message, "; and 95 more") {
		t.Errorf("it does not say how much it leaves out: %v", refusal)
	}
}

func TestCall_keepsItsInsideToItself(t *testing.T) {
	tests := map[string]func(context.Context, Operation) (Answer, error){
		"an unknown error":       func(context.Context, Operation) (Answer, error) { return Answer{}, errors.New("disk on fire") },
		"a panic":                func(context.Context, Operation) (Answer, error) { panic("disk on fire") },
		"an answer without JSON": func(context.Context, Operation) (Answer, error) { return Answer{Data: make(chan int)}, nil },
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) {
			r, log := running(t, run)
			_, err := r.Call(t.Context(), "echo", with(`{"word":"secret"}`))
			if diff := cmp.Diff(Errorf(Internal, "the tool server failed"), err); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !strings.Contains(log.String(), "call failed") || strings.Contains(log.String(), "secret") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

func TestCall_passesOnWhatAToolSays(t *testing.T) {
	r, _ := running(t, func(context.Context, Operation) (Answer, error) {
		return Answer{}, Errorf(NotFound, "no %s", "word")
	})
	_, err := r.Call(t.Context(), "echo", with(`{"word":"a"}`))
	if diff := cmp.Diff(Errorf(NotFound, "no word"), err); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCall_endsWithItsContext(t *testing.T) {
	r, _ := running(t, func(ctx context.Context, _ Operation) (Answer, error) {
		<-ctx.Done()
		return Answer{}, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := r.Call(ctx, "echo", with(`{"word":"a"}`))
	if err == nil || err.Code != DeadlineExceeded || !err.Code.Retryable() {
		t.Errorf("Call = %v", err)
	}
}

func TestCall_answersNothingAfterItsDeadline(t *testing.T) {
	r, _ := running(t, echo)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Call(ctx, "echo", with(`{"word":"a"}`)); err == nil || err.Code != DeadlineExceeded {
		t.Errorf("Call = %v", err)
	}
}

func TestCall_turnsAwayWhenAllPlacesAreTaken(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	r, _ := running(t, func(context.Context, Operation) (Answer, error) {
		started <- struct{}{}
		<-release
		return Answer{}, nil
	})
	var calls sync.WaitGroup
	for range MaxRunning {
		calls.Go(func() {
			if _, err := r.Call(t.Context(), "echo", with(`{"word":"a"}`)); err != nil {
				t.Errorf("a call that had a place: %v", err)
			}
		})
	}
	for range MaxRunning {
		<-started
	}
	if _, err := r.Call(t.Context(), "echo", with(`{"word":"a"}`)); err == nil || err.Code != Overloaded || !err.Code.Retryable() {
		t.Errorf("Call = %v", err)
	}
	close(release)
	calls.Wait()
}

func TestNewRunner_refusesSchemas(t *testing.T) {
	for name, schema := range map[string]string{
		"no JSON":                      `{`,
		"no schema":                    `{"type": "thing"}`,
		"a reference to somebody else": `{"type": "object", "properties": {"a": {"$ref": "https://schemas.invalid/a.json"}}}`,
	} {
		if _, err := NewRunner("", nil, nil, Tool{Name: "t", InputSchema: json.RawMessage(schema), Call: echo}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
