// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package chatserver

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// An Answer is what the server says to one request. The zero value is an empty body with status 200.
type Answer struct {
	// Status is 200 if zero.
	Status int
	// Header is set over the server's own, which are Content-Type and X-Request-Id.
	Header http.Header
	// Completion is sent as Chat Completions has it. If nil, Body is sent as it is.
	Completion *Completion
	Body       string
	// Hold delays the answer until it is closed, the client leaves or the server closes.
	Hold <-chan struct{}
	// Fault breaks the connection while the answer is being sent.
	Fault Fault
}

// A Fault is a way in which a connection fails.
type Fault string

// The faults.
const (
	// Reset: the connection is reset before any of the answer.
	Reset Fault = "Reset"
	// Truncate: the connection is closed after half of the body.
	Truncate Fault = "Truncate"
	// Endless: the body is valid JSON so far, and goes on until the client leaves.
	Endless Fault = "Endless"
)

// Always answers every request with a.
func Always(a Answer) func(Request) Answer {
	return func(Request) Answer { return a }
}

// Sequence answers the nth request with the nth answer, and what comes after the last with a 500.
func Sequence(answers ...Answer) func(Request) Answer {
	return func(r Request) Answer {
		if r.N > len(answers) {
			return Failure(http.StatusInternalServerError, "script_ended", fmt.Sprintf("there are %d answers", len(answers)))
		}
		return answers[r.N-1]
	}
}

// Text is an answer of a few words with their usage.
func Text(text string) Answer {
	return Answer{Completion: &Completion{Text: text, Usage: &Usage{Prompt: 10, Completion: 5}}}
}

// Failure is an error answer as the API writes it.
func Failure(status int, code, message string) Answer {
	body := object{"error": object{"message": message, "type": "test_error", "param": nil, "code": code}}
	return Answer{Status: status, Body: body.String()}
}

func (a Answer) write(w http.ResponseWriter, r *http.Request, req Request, closed <-chan struct{}) {
	if a.Fault == Reset {
		reset(w)
		return
	}
	body := a.Body
	if a.Completion != nil {
		body = a.Completion.body(req)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", fmt.Sprintf("req-%d", req.N))
	for name, values := range a.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	status := a.Status
	if status == 0 {
		status = http.StatusOK
	}
	switch a.Fault {
	case Truncate:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		body = body[:len(body)/2]
	case Endless, Reset:
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client may be gone, which is its right
	if a.Fault == Endless {
		goOn(w, r, closed)
	}
}

// goOn writes the inside of a JSON string until the client has had enough.
func goOn(w http.ResponseWriter, r *http.Request, closed <-chan struct{}) {
	chunk := []byte(`{"choices":[{"message":{"content":"` + strings.Repeat("a", 32<<10))
	for r.Context().Err() == nil {
		select {
		case <-closed:
			return
		default:
		}
		if _, err := w.Write(chunk); err != nil {
			return
		}
		chunk = chunk[len(chunk)-32<<10:]
	}
}

// reset closes the connection so that the client sees a reset rather than an orderly end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 cannot be hijacked; its stream is aborted instead
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
