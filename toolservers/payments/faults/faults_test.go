// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A stage is a server with faults, and counts what was done.
type stage struct {
	url  string
	file string
	done atomic.Int64
	log  bytes.Buffer
	*Faults
}

func open(t *testing.T) *stage {
	t.Helper()
	s := &stage{file: filepath.Join(t.TempDir(), "faults.json")}
	s.Faults = New(s.file, slog.New(slog.NewTextHandler(&s.log, nil)))
	server := httptest.NewServer(s.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.done.Add(1) })))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ask writes the file, a moment later than the one before.
func (s *stage) ask(t *testing.T, faults string, later time.Duration) {
	t.Helper()
	if err := os.WriteFile(s.file, []byte(faults), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(later)
	if err := os.Chtimes(s.file, at, at); err != nil {
		t.Fatal(err)
	}
}

// call gives the status; zero if the connection was cut.
func (s *stage) call(t *testing.T, name string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/tools/"+name, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestHandler_doesAsTheFileSays(t *testing.T) {
	s := open(t)
	want := func(name string, status int, done int64) {
		t.Helper()
		before := s.done.Load()
		if got := s.call(t, name); got != status || s.done.Load()-before != done {
			t.Errorf("%s: %d, and %d were done", name, got, s.done.Load()-before)
		}
	}
	want("pay:commit", 200, 1) // there is no file

	s.ask(t, `{"pay:commit": {"loseAnswer": true, "times": 2}, "pay:preview": {"fail500": true}}`, time.Minute)
	want("pay:commit", 0, 1)
	want("pay:invoke", 200, 1)
	want("pay:commit", 0, 1)
	want("pay:commit", 200, 1)
	for range 3 {
		want("pay:preview", 500, 0)
	}

	s.ask(t, `{"pay:commit": {"loseAnswer": true, "times": 2}}`, 2*time.Minute)
	want("pay:commit", 0, 1)

	s.ask(t, `{"pay:commit": {"looseAnswer": true}}`, 3*time.Minute)
	want("pay:commit", 200, 1)
	if !strings.Contains(s.log.String(), "looseAnswer") {
		t.Errorf("no word of the mistake: %s", s.log.String())
	}
}

func TestHandler_isSlowBeforeAnythingElse(t *testing.T) {
	s := open(t)
	s.ask(t, `{"pay:commit": {"slow": 100, "times": 1}}`, 0)
	start := time.Now()
	if s.call(t, "pay:commit") != 200 || time.Since(start) < 100*time.Millisecond {
		t.Errorf("it took %s", time.Since(start))
	}
}

func TestDuplicate_isForMessages(t *testing.T) {
	s := open(t)
	s.ask(t, `{"outbox:deliver": {"duplicate": true, "times": 1}}`, 0)
	if !s.Duplicate() || s.Duplicate() {
		t.Error("it is not once")
	}
	if New("", nil).Duplicate() {
		t.Error("without a file, something goes wrong")
	}
}
