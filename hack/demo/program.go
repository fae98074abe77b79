// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A program runs beside the demo and ends with it.
type program struct {
	name, logs string
	args, env  []string
	// ready answers with 200 once the program does its work.
	ready string

	cmd *exec.Cmd
	// ended is closed once the program has, and err says how.
	ended chan struct{}
	err   error
}

const startTimeout = time.Minute

func (p *program) start(ctx context.Context) error {
	if response, err := http.Get(p.ready); err == nil { //nolint:noctx // a loopback address
		_ = response.Body.Close()
		return fmt.Errorf("something answers at %s already: is another demo up?", p.ready)
	}
	log, err := os.Create(filepath.Join(p.logs, p.name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(p.args[0], p.args[1:]...) //nolint:noctx // stopped by stop, which asks first
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, append(os.Environ(), p.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting the %s: %w", p.name, err)
	}
	p.ended = make(chan struct{})
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return p.waitUntilReady(ctx, log.Name())
}

func (p *program) waitUntilReady(ctx context.Context, log string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("the %s ended at once: %w\n%s", p.name, p.err, text)
		case <-ctx.Done():
			p.stop()
			return fmt.Errorf("the %s is not ready: %w; see %s", p.name, ctx.Err(), log)
		case <-tick.C:
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.ready, nil)
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				continue
			}
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
}

// stop asks the program to end, and insists after a while.
func (p *program) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
	}
}
