// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/interlock-dev/interlock/toolservers/internal/httpapi/httpapitest"
	"github.com/interlock-dev/interlock/toolservers/internal/serving/servingtest"
	"github.com/interlock-dev/interlock/toolservers/payments/database/databasetest"
)

// spawn starts the server as a process, which the test can kill.
func spawn(t *testing.T, args ...string) (*counter, *exec.Cmd) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	command.Env = append(os.Environ(), asPayments+"=1")
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	address := servingtest.Listening(t, bufio.NewScanner(log))
	go func() { _, _ = io.Copy(io.Discard, log) }()
	return &counter{Client: httpapitest.NewClient(t, "http://"+address)}, command
}

func kill(t *testing.T, command *exec.Cmd) {
	t.Helper()
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
}

// The server is killed while the receiver has the message and has not said so. The refund stays, and the message comes again
// under its ID.
func TestMain_deliversAgainAfterItWasKilled(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			place := place(t)
			came, dead := make(chan string, 10), make(chan struct{})
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				came <- r.Header.Get("Idempotency-Key") + " " + string(body)
				select {
				case <-dead:
				default:
					<-r.Context().Done()
				}
				w.WriteHeader(http.StatusNoContent)
			}))
			defer receiver.Close()
			args := []string{"--database", place, "--outbox-url", receiver.URL}

			c, first := spawn(t, args...)
			header := c.previewed(t, "op-1")
			if status, answer := c.send(t, commitPath, refundOfTwelveFifty, header); status != http.StatusOK {
				t.Fatalf("%d: %v", status, answer)
			}
			message := <-came
			kill(t, first)
			close(dead)

			c, second := spawn(t, args...)
			if again := <-came; again != message {
				t.Errorf("the message came again as another:\n%s\n%s", message, again)
			}
			if status, operation := c.operation(t); status != http.StatusOK || operation["state"] != "Succeeded" {
				t.Errorf("%d: %v", status, operation)
			}
			kill(t, second)
		})
	}
}

// The server is killed at any moment of a commit. It was done once or not at all, and sending it again does what is missing.
func TestMain_finishesWhatAKillCutOff(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			place := place(t)
			c, command := spawn(t, "--database", place)
			header := c.previewed(t, "op-1")
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+commitPath, strings.NewReader(refundOfTwelveFifty))
				r.Header = header
				if response, err := once.Do(r); err == nil {
					_ = response.Body.Close()
				}
			}()
			kill(t, command)
			<-sent

			c, command = spawn(t, "--database", place)
			defer kill(t, command)
			if status, answer := c.send(t, commitPath, refundOfTwelveFifty, header); status != http.StatusOK {
				t.Errorf("%d: %v", status, answer)
			}
			_, answer := c.send(t, "/v1/tools/get_payment:invoke", `{"paymentId":"pay_1001"}`, c.header("op-2"))
			if p := answer["data"].(map[string]any)["payment"].(map[string]any); p["refundedMinor"] != 1250.0 {
				t.Errorf("%v", p)
			}
		})
	}
}
