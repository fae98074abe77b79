// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo is `make demo` and `make demo-approval`: it starts a control plane, the operator as its own ServiceAccount and
// a tool server, applies an example, and shows the run as it goes. It ends with 0 only if the run came to its answer.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func main() {
	keep := flag.Bool("keep", false, "leave everything up until it is interrupted")
	approval := flag.Bool("approval", false, "show a write that somebody approves, instead of the quickstart")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	show := quickstart
	if *approval {
		show = approve
	}
	err := onStage(ctx, func(s *stage) error {
		if err := show(ctx, s); err != nil {
			return err
		}
		if *keep {
			s.lookAround(ctx)
		}
		return nil
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	if !*keep {
		fmt.Println("Everything is stopped now. To keep it up and look around, set KEEP=1.")
	}
}

// expectAnswer makes an error of a run that did not come to its answer.
func expectAnswer(r *v1alpha1.AgentRun) error {
	if t := r.Status.Termination; t.Reason != v1alpha1.TerminationFinal {
		return fmt.Errorf("the run ended with %s", t.Reason)
	}
	return nil
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
