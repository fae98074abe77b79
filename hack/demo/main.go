// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo is `make demo`: it starts a control plane, the operator as its own ServiceAccount and the catalog's tool
// server, applies examples/quickstart, and shows the run as it goes. It ends with 0 only if the run came to its answer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/test/cluster"
)

const (
	// catalogAddress is where examples/quickstart expects the catalog.
	catalogAddress = "127.0.0.1:8471"
	probeAddress   = "127.0.0.1:8472"
)

func main() {
	keep := flag.Bool("keep", false, "leave everything up until it is interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo(ctx, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, keep bool) (err error) {
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
	logs, err := os.MkdirTemp("", "interlock-demo-")
	if err != nil {
		return err
	}

	say("Starting the catalog, a tool server with the web platform's features, at " + catalogAddress + " ...")
	catalog := program{name: "catalog", args: []string{"bin/catalog", "--listen=" + catalogAddress}, logs: logs, ready: "http://" + catalogAddress + "/readyz"}
	if err := catalog.start(ctx); err != nil {
		return err
	}
	defer catalog.stop()
	say("Starting the operator, as ServiceAccount interlock-operator with what config/rbac gives it ...")
	kubeconfig, err := plane.KubeconfigFor(ctx, "interlock-system", "interlock-operator")
	if err != nil {
		return err
	}
	operator := program{
		name: "operator", logs: logs, ready: "http://" + probeAddress + "/readyz",
		args: []string{"bin/interlock", "--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=" + probeAddress},
	}
	if err := operator.start(ctx); err != nil {
		return err
	}
	defer operator.stop()

	say("Applying examples/quickstart: a model that answers from a script, two tools, and a run ...")
	if err := plane.Apply(ctx, "examples/quickstart"); err != nil {
		return err
	}
	r, err := follow(ctx, plane.AdminKubeconfig(), "default", "quickstart", 2*time.Minute)
	if err != nil {
		return fmt.Errorf("%w (what the programs printed is in %s)", err, logs)
	}
	showEnd(r)
	if r.Status.Termination.Reason != v1alpha1.TerminationFinal {
		return fmt.Errorf("the run did not come to its answer (what the programs printed is in %s)", logs)
	}
	table, err := plane.Kubectl(ctx, "get", "agentruns")
	if err != nil {
		return err
	}
	fmt.Printf("\n$ kubectl get agentruns\n%s\n", table)
	if keep {
		lookAround(plane.AdminKubeconfig(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), logs)
		<-ctx.Done()
		return nil
	}
	fmt.Println("Everything is stopped now. To keep it up and look around: KEEP=1 make demo")
	return os.RemoveAll(logs)
}

func lookAround(kubeconfig, kubectl, logs string) {
	fmt.Printf(`It all stays up until you press Ctrl-C. In another terminal:

  export KUBECONFIG=%s
  alias kubectl=%s
  kubectl describe agentrun quickstart      # what happened, step by step
  kubectl get turns                         # what was said and done, an object for each step
  kubectl get agentrun quickstart -o yaml   # the state machine in full
  kubectl explain agentrun.spec             # what each field means
  kubectl create -f - <<< "$(sed 's/name: quickstart/generateName: again-/' examples/quickstart/run.yaml)"

What the operator and the catalog print is in %s. Read on in docs/concepts.md.
`, kubeconfig, kubectl, logs)
}

func say(text string) { fmt.Println("» " + text) }

// indent puts text under a heading, in lines of readable length.
func indent(text string) string {
	const width = 96
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return "    " + strings.Join(append(lines, line), "\n    ")
}
