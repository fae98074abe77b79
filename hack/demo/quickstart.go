// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"
)

// catalogAddress is where examples/quickstart expects the catalog.
const catalogAddress = "127.0.0.1:8471"

// quickstart shows a run that looks things up and answers.
func quickstart(ctx context.Context, s *stage) error {
	say("Starting the catalog, a tool server with the web platform's features, at " + catalogAddress + " ...")
	err := s.start(ctx, &program{
		name: "catalog", args: []string{"bin/catalog", "--listen=" + catalogAddress}, ready: "http://" + catalogAddress + "/readyz",
	})
	if err != nil {
		return err
	}
	say("Applying examples/quickstart: a model that answers from a script, two tools, and a run ...")
	if err := s.plane.Apply(ctx, "examples/quickstart"); err != nil {
		return err
	}
	r, err := follow(ctx, s.plane.AdminKubeconfig(), "default", "quickstart", 2*time.Minute, ended)
	if err != nil {
		return err
	}
	showEnd(r)
	if err := expectAnswer(r); err != nil {
		return err
	}
	table, err := s.plane.Kubectl(ctx, "get", "agentruns")
	if err != nil {
		return err
	}
	fmt.Printf("\n$ kubectl get agentruns\n%s\n", table)
	s.commands = `  kubectl describe agentrun quickstart                   # what happened, step by step
  kubectl get turns                                      # what was said and done, an object for each step
  kubectl get agentrun quickstart -o yaml                # the state machine in full
  kubectl create -f - <<< "$(sed 's/name: quickstart/generateName: again-/' examples/quickstart/run.yaml)"
`
	return nil
}
