// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/toolservers/payments/database"
	"github.com/interlock-dev/interlock/toolservers/payments/database/databasetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// A receiver notes what comes, and answers with the statuses in turn, and with 204 after them.
type receiver struct {
	mu       sync.Mutex
	statuses []int
	came     []string
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.came = append(c.came, r.Method+" "+r.Header.Get(HeaderID)+" "+string(body))
	status := http.StatusNoContent
	if len(c.statuses) > 0 {
		status, c.statuses = c.statuses[0], c.statuses[1:]
	}
	w.Header().Set("Location", "/elsewhere")
	w.WriteHeader(status)
}

func (c *receiver) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.came...)
}

func store(t *testing.T, db *database.DB, from, to int) {
	t.Helper()
	err := db.Write(t.Context(), func(tx *database.Tx) error {
		for i := from; i <= to; i++ {
			if _, err := tx.Exec(t.Context(), `INSERT INTO outbox (id, body, created_at) VALUES ($1, $2, 'now')`,
				fmt.Sprintf("msg_%d", i), fmt.Sprintf("{%d}", i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *receiver) sender(t *testing.T, db *database.DB, twice bool) *Sender {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return New(db, server.URL+"/hook", func() bool { return twice }, time.Now, slog.New(slog.DiscardHandler))
}

func TestDeliver_sendsAllInOrderAndOnce(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			db := databasetest.Open(t, place(t))
			c := &receiver{}
			s := c.sender(t, db, false)
			store(t, db, 1, batch+3)
			for range 2 {
				if err := s.deliver(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			var want []string
			for i := 1; i <= batch+3; i++ {
				want = append(want, fmt.Sprintf("POST msg_%d {%d}", i, i))
			}
			if diff := cmp.Diff(want, c.got()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeliver_sendsAgainWhatWasNotTaken(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			db := databasetest.Open(t, place(t))
			c := &receiver{statuses: []int{204, 500, 302}}
			s := c.sender(t, db, false)
			store(t, db, 1, 3)
			for i := range 2 {
				if err := s.deliver(t.Context()); err == nil {
					t.Errorf("attempt %d: no word of the failure", i+1)
				}
			}
			if err := s.deliver(t.Context()); err != nil {
				t.Error(err)
			}
			want := []string{"POST msg_1 {1}", "POST msg_2 {2}", "POST msg_2 {2}", "POST msg_2 {2}", "POST msg_3 {3}"}
			if diff := cmp.Diff(want, c.got()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeliver_sendsTwiceIfItIsToldTo(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			db := databasetest.Open(t, place(t))
			c := &receiver{}
			s := c.sender(t, db, true)
			store(t, db, 1, 1)
			if err := s.deliver(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"POST msg_1 {1}", "POST msg_1 {1}"}, c.got()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun_goesOnUntilItIsStopped(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			db := databasetest.Open(t, place(t))
			c := &receiver{statuses: []int{500}}
			s := c.sender(t, db, false)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				s.Run(ctx)
				close(ended)
			}()
			store(t, db, 1, 1)
			for len(c.got()) < 2 {
				time.Sleep(10 * time.Millisecond)
			}
			store(t, db, 2, 2)
			for len(c.got()) < 3 {
				time.Sleep(10 * time.Millisecond)
			}
			cancel()
			<-ended
			if diff := cmp.Diff([]string{"POST msg_1 {1}", "POST msg_1 {1}", "POST msg_2 {2}"}, c.got()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
