// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tooltest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-dev/interlock/internal/tool"
)

// soon is how long what ought to happen at once may take on a busy machine.
const soon = 5 * time.Second

// RunPort holds a server against the contract of the port.
func RunPort(t *testing.T, newServer NewServer) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, NewServer){
		"numbers come back as they are":                                numbers,
		"a result is cut to its bound":                                 cut,
		"an error of the tool keeps its code and loses what is unsafe": coded,
		"a server that is not there has not seen the call":             gone,
		"a call that gets no answer in time is in doubt":               silent,
		"a call whose context is done is not sent":                     over,
		"calls side by side get their own answers":                     sideBySide,
		"who gives up disturbs nobody":                                 givingUp,
		"closing ends the calls under way":                             closing,
	} {
		t.Run(name, func(t *testing.T) { test(t, newServer) })
	}
}

func numbers(t *testing.T, newServer NewServer) {
	t.Helper()
	for _, data := range []string{
		`{"big":9007199254740993,"bigger":123456789012345678901234567890,"small":1e-400}`, `{"beyond":1e400,"exact":1.10}`, `-9007199254740993`,
		`null`, `""`, `[]`,
	} {
		result, err := newServer(t, Behaviour{Data: json.RawMessage(data)}).Execute(t.Context(), Call(`{}`))
		// A protocol may have no way to say null; it must not make something else of it.
		if data == "null" && string(result.Data) == `""` {
			continue
		}
		if err != nil || string(result.Data) != data || result.Truncated || result.Size != int64(len(data)) {
			t.Errorf("got %s, size %d, truncated %t, %v, want %s", result.Data, result.Size, result.Truncated, err, data)
		}
	}
}

func cut(t *testing.T, newServer NewServer) {
	t.Helper()
	object := `{"text":"` + strings.Repeat(`é\"`, 10_000) + `"}`
	words := strings.Repeat(`<é>"`, 10_000)
	quoted, err := json.Marshal(words)
	if err != nil {
		t.Fatal(err)
	}
	for data, whole := range map[string]string{object: object, string(quoted): words} {
		call := Call(`{}`)
		call.MaxResultBytes = 1000
		result, err := newServer(t, Behaviour{Data: json.RawMessage(data)}).Execute(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		var beginning string
		if err := json.Unmarshal(result.Data, &beginning); err != nil || !strings.HasPrefix(whole, beginning) {
			t.Errorf("the data is not a string that holds the beginning: %.60s, %v", result.Data, err)
		}
		if !result.Truncated || len(result.Data) > 1000 || len(result.Data) < 800 || result.Size < int64(len(whole)) {
			t.Errorf("got %d bytes of %d, truncated %t", len(result.Data), result.Size, result.Truncated)
		}
	}
}

func coded(t *testing.T, newServer NewServer) {
	t.Helper()
	failing := func(f Failure) error {
		_, err := newServer(t, Behaviour{Fail: &f}).Execute(t.Context(), Call(`{}`))
		return err
	}
	e := WantError(t, failing(Failure{"OutOfStock", "sold \x1b[31mout\u202e " + strings.Repeat("x", 5000), true}), "OutOfStock", tool.Refused, true)
	if !strings.HasPrefix(e.Message, "sold [31mout x") || len(e.Message) > tool.MaxMessageBytes {
		t.Errorf("the message is %.40q of %d bytes", e.Message, len(e.Message))
	}
	for _, code := range []string{"not a code!", "", strings.Repeat("x", 65), "Ünknown", "a\u202eb"} {
		WantError(t, failing(Failure{code, "no", false}), tool.CodeToolError, tool.Refused, false)
	}
}

func gone(t *testing.T, newServer NewServer) {
	t.Helper()
	_, err := newServer(t, Behaviour{Gone: true}).Execute(t.Context(), Call(`{}`))
	WantError(t, err, tool.CodeUnavailable, tool.NotSent, true)
}

func silent(t *testing.T, newServer NewServer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var given time.Time
	server := newServer(t, Behaviour{Hang: func() { given = time.Now(); cancel() }})
	_, err := server.Execute(ctx, Call(`{}`))
	WantError(t, err, tool.CodeTimeout, tool.InDoubt, true)
	if took := time.Since(given); took > soon {
		t.Errorf("it returned %s after the call was given up", took)
	}
}

func over(t *testing.T, newServer NewServer) {
	t.Helper()
	server := newServer(t, Behaviour{Hang: func() { t.Error("the server was asked") }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := server.Execute(ctx, Call(`{}`))
	WantError(t, err, tool.CodeTimeout, tool.NotSent, true)
}

func sideBySide(t *testing.T, newServer NewServer) {
	t.Helper()
	server := newServer(t, Behaviour{})
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			arguments := fmt.Sprintf(`{"n":%d}`, i)
			result, err := server.Execute(t.Context(), Call(arguments))
			if err != nil || string(result.Data) != arguments {
				t.Errorf("got %s, %v, want %s", result.Data, err, arguments)
			}
		})
	}
	calls.Wait()
}

func givingUp(t *testing.T, newServer NewServer) {
	t.Helper()
	server := newServer(t, Behaviour{})
	var calls sync.WaitGroup
	for i := range 40 {
		calls.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%2 == 0 {
				calls.Go(cancel)
			}
			if _, err := server.Execute(ctx, Call(`{}`)); err != nil && i%2 != 0 {
				t.Errorf("a call that was not given up: %v", err)
			}
		})
	}
	calls.Wait()
}

func closing(t *testing.T, newServer NewServer) {
	t.Helper()
	asked := make(chan struct{}, 3)
	server := newServer(t, Behaviour{Hang: func() { asked <- struct{}{} }})
	failed := make(chan error, 3)
	for range 3 {
		go func() { _, err := server.Execute(t.Context(), Call(`{}`)); failed <- err }()
	}
	for range 3 {
		<-asked
	}
	begin := time.Now()
	server.Close()
	for range 3 {
		WantError(t, <-failed, "", tool.InDoubt, true)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("closing took %s", took)
	}
	_, err := server.Execute(t.Context(), Call(`{}`))
	WantError(t, err, tool.CodeUnavailable, tool.NotSent, true)
	server.Close()
}
