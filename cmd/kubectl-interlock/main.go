// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-interlock is a kubectl plugin for the people around AgentRuns: it shows what waits for approval, approves
// and denies, follows and cancels runs, and finds weak tool schemas. It does nothing that the API server would not let the
// user do with kubectl; what it adds is that it shows a call as it will be sent, and signs nothing else.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/printers"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	// The client library says all that a user needs to know in its errors.
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out, errOut := &output{to: os.Stdout}, &output{to: os.Stderr}
	a := &app{
		in: os.Stdin, out: out, errOut: errOut, clock: clock.RealClock{}, cluster: newKubeconfig(errOut),
		isTerminal: func() bool { return printers.IsTerminal(os.Stdin) },
	}
	err := a.execute(ctx, rootCommand(a), os.Args[1:])
	stop()
	if err != nil {
		errOut.printf("error: %s\n", visibleLines(err.Error()))
		os.Exit(1)
	}
}
