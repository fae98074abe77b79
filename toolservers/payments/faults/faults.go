// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults makes the server misbehave on request, so that tests can see how its callers bear it. It is for tests and
// nothing else.
//
// What is to go wrong stands in a file that is read at each request. The main type is Faults.
package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/interlock-dev/interlock/toolservers/internal/httpapi"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// Outbox is where the file says what goes wrong with messages; calls are named by tool and verb, such as
// "refund_payment:commit".
const Outbox = "outbox:deliver"

// A Fault is what goes wrong.
type Fault struct {
	// LoseAnswer lets the call be done, and cuts the connection instead of answering.
	LoseAnswer bool `json:"loseAnswer"`
	// Slow is how many milliseconds pass before anything else.
	Slow int `json:"slow"`
	// Fail500 answers with 500 before anything is done.
	Fail500 bool `json:"fail500"`
	// Duplicate has the outbox deliver the next message twice.
	Duplicate bool `json:"duplicate"`
	// Times is how often it goes wrong, counted from when the file was written; 0 stands for always.
	Times int `json:"times"`
}

// Faults reads what is to go wrong. It is safe for concurrent use.
type Faults struct {
	file string
	log  *slog.Logger

	mu      sync.Mutex
	written time.Time
	used    map[string]int
}

// New makes Faults of the file; without a file, nothing goes wrong.
func New(file string, log *slog.Logger) *Faults {
	return &Faults{file: file, log: log, used: map[string]int{}}
}

// Duplicate says whether the next message is to be delivered twice.
func (f *Faults) Duplicate() bool { return f.take(Outbox).Duplicate }

// Handler puts the faults before and behind next.
func (f *Faults) Handler(next http.Handler) http.Handler {
	if f.file == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, isCall := strings.CutPrefix(r.URL.Path, "/v1/tools/")
		if !isCall {
			next.ServeHTTP(w, r)
			return
		}
		fault := f.take(name)
		pass(r.Context(), time.Duration(fault.Slow)*time.Millisecond)
		switch {
		case fault.Fail500:
			httpapi.WriteError(w, r, tool.Errorf(tool.Internal, "the tool server failed, as it was told to"))
		case fault.LoseAnswer:
			next.ServeHTTP(unheard{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// take gives what goes wrong now, and counts it.
func (f *Faults) take(name string) Fault {
	if f.file == "" {
		return Fault{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	faults, written, err := read(f.file)
	if err != nil {
		f.log.Error("the file of faults can't be read", "error", err)
		return Fault{}
	}
	if !written.Equal(f.written) {
		f.written, f.used = written, map[string]int{}
	}
	fault := faults[name]
	if fault.Times > 0 && f.used[name] >= fault.Times {
		return Fault{}
	}
	f.used[name]++
	return fault
}

// read takes a file that is not there for one that asks for nothing.
func read(file string) (faults map[string]Fault, written time.Time, err error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	raw, err := os.ReadFile(file) //nolint:gosec // the file is whoever's who starts the server
	if err != nil {
		return nil, time.Time{}, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	// A fault that is misspelt would be one that a test misses.
	d.DisallowUnknownFields()
	if err := d.Decode(&faults); err != nil {
		return nil, time.Time{}, fmt.Errorf("decoding: %w", err)
	}
	return faults, info.ModTime(), nil
}

// pass lets time go by, unless ctx is done before.
func pass(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// unheard is answered into, and nobody hears it.
type unheard struct{ header http.Header }

func (u unheard) Header() http.Header         { return u.header }
func (u unheard) Write(b []byte) (int, error) { return len(b), nil }
func (u unheard) WriteHeader(int)             {}
