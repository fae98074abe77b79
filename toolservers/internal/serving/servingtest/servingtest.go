// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servingtest starts tool servers for tests, and finds out where they listen.
package servingtest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"testing"
)

// Start runs a server until the test ends, and gives its address. run is the server's: it logs to output, and the line that
// tells the address is the first.
func Start(t *testing.T, run func(ctx context.Context, args []string, output io.Writer) error, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log, output := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, args, output)
		_ = output.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	lines := bufio.NewScanner(log)
	address := Listening(t, lines)
	// The rest is read on, or the server would wait for us.
	go func() {
		for lines.Scan() {
			continue
		}
	}()
	return address
}

// Listening reads the line that tells the address.
func Listening(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	if !lines.Scan() {
		t.Fatal("the server ended at once")
	}
	var line struct {
		Msg, Address string
	}
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Msg != "listening" {
		t.Fatalf("the first line is %s (%v)", lines.Text(), err)
	}
	return line.Address
}
