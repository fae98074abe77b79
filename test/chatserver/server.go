// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chatserver is a model endpoint for tests: it speaks Chat Completions without streaming, answers as it is told,
// records what it was asked, and keeps the bill.
//
// A test chooses each answer by what is in the request, as a real model does, and can make the nth request fail in any of
// the ways that endpoints and networks fail: a status, a header, silence, a reset, a body that is cut off, that never ends
// or that is not JSON. The server never retries, never streams and holds no opinion on what it is asked.
//
// The main type is Server; an Answer is one thing it says.
package chatserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Limits, so that a client that runs wild does not take the test process with it.
const (
	maxBodyBytes = 8 << 20
	maxRecorded  = 256
)

// A Server answers POST requests to any path that ends in /chat/completions. It is safe for concurrent use.
type Server struct {
	// Key, if set, must come as the bearer token of each request; others are answered with a 401. Set it before the first
	// request.
	Key string

	answer func(Request) Answer
	closed chan struct{}
	close  func()

	mu       sync.Mutex
	nth      map[int]Answer
	seen     int
	requests []Request
	bill     Bill
}

// A Bill is what a provider would charge for.
type Bill struct {
	// Completions counts the answers that hold a completion, also those that the client never received: a provider charges
	// from the moment it has begun.
	Completions int
	// PromptTokens and CompletionTokens add up their usage.
	PromptTokens, CompletionTokens int64
}

// New makes a server that answers each request as answer says; see Always and Sequence.
func New(answer func(Request) Answer) *Server {
	s := &Server{answer: answer, closed: make(chan struct{}), nth: map[int]Answer{}}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	return s
}

// Start serves s on a free port until the test ends and returns the base URL to configure, which ends in /v1.
func Start(tb testing.TB, s *Server) string {
	tb.Helper()
	srv := httptest.NewServer(s)
	tb.Cleanup(func() {
		s.Close()
		srv.Close()
	})
	return srv.URL + "/v1"
}

// Close lets go of every request that is held. A process that serves s itself calls it before it stops listening.
func (s *Server) Close() { s.close() }

// Nth makes the nth request, counted from 1, be answered with a, whatever the server would have said.
func (s *Server) Nth(n int, a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nth[n] = a
}

// Seen counts the requests so far, to whatever path.
func (s *Server) Seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// Requests returns the newest requests, at most 256, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Bill returns what a provider would have charged so far.
func (s *Server) Bill() Bill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bill
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		http.Error(w, "the request is too long or was cut off", http.StatusRequestEntityTooLarge)
		return
	}
	req := s.record(r, body)
	a := s.choose(req)
	if a.Hold != nil {
		select {
		case <-a.Hold:
		case <-s.closed:
		case <-r.Context().Done():
		}
	}
	a.write(w, r, req, s.closed)
}

func (s *Server) record(r *http.Request, body []byte) Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen++
	req := newRequest(s.seen, r, body)
	if len(s.requests) == maxRecorded {
		s.requests = s.requests[1:]
	}
	s.requests = append(s.requests, req)
	return req
}

// choose decides on the answer and puts it on the bill.
func (s *Server) choose(req Request) Answer {
	s.mu.Lock()
	a, planned := s.nth[req.N]
	s.mu.Unlock()
	if refusal := req.refusal(s.Key); refusal != nil {
		return *refusal
	}
	if !planned {
		a = s.answer(req)
	}
	s.charge(a)
	return a
}

func (s *Server) charge(a Answer) {
	if a.Completion == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bill.Completions++
	if u := a.Completion.Usage; u != nil {
		s.bill.PromptTokens += u.Prompt
		s.bill.CompletionTokens += u.Completion
	}
}
