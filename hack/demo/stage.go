// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/interlock-dev/interlock/test/cluster"
)

// probeAddress is where the operator says that it is ready.
const probeAddress = "127.0.0.1:8474"

// A stage is what every demo needs: a control plane with Interlock installed, and the operator at work.
type stage struct {
	plane *cluster.Cluster
	logs  string
	// commands are what to try when everything stays up.
	commands string
	programs []*program
}

// onStage sets the stage, lets the demo play, and clears it all away.
func onStage(ctx context.Context, play func(*stage) error) (err error) {
	say("Starting a Kubernetes control plane on this machine ...")
	plane, err := cluster.Start(ctx, cluster.Options{CRDs: []string{"config/crd/bases"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	for _, path := range []string{"config/manager/namespace.yaml", "config/rbac"} {
		if err := plane.Apply(ctx, path); err != nil {
			return err
		}
	}
	if err := plane.InstallAdmission(ctx, "config/admission"); err != nil {
		return err
	}
	logs, err := os.MkdirTemp("", "interlock-demo-")
	if err != nil {
		return err
	}
	s := &stage{plane: plane, logs: logs}
	defer s.clear()
	say("Starting the operator, as ServiceAccount interlock-operator with what config/rbac gives it ...")
	kubeconfig, err := plane.KubeconfigFor(ctx, "interlock-system", "interlock-operator")
	if err != nil {
		return err
	}
	err = s.start(ctx, &program{
		name: "operator", ready: "http://" + probeAddress + "/readyz",
		args: []string{"bin/interlock", "--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=" + probeAddress},
	})
	if err != nil {
		return err
	}
	if err := play(s); err != nil {
		return fmt.Errorf("%w (what the programs printed is in %s)", err, logs)
	}
	return os.RemoveAll(logs)
}

func (s *stage) start(ctx context.Context, p *program) error {
	p.logs = s.logs
	if err := p.start(ctx); err != nil {
		return err
	}
	s.programs = append(s.programs, p)
	return nil
}

func (s *stage) clear() {
	for _, p := range s.programs {
		p.stop()
	}
}

// as runs a program as somebody, and prints what it prints.
func as(ctx context.Context, kubeconfig, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return nil
}

func kubectl() string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl") }

// lookAround says what to try, and waits until it is interrupted.
func (s *stage) lookAround(ctx context.Context) {
	fmt.Printf(`It all stays up until you press Ctrl-C. In another terminal:

  export KUBECONFIG=%s
  alias kubectl=%s
%s  kubectl explain agentrun.spec                          # what each field means

What the programs print is in %s. Read on in docs/concepts.md.
`, s.plane.AdminKubeconfig(), kubectl(), s.commands, s.logs)
	<-ctx.Done()
}
