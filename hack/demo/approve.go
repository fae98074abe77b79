// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

const (
	// kubeAddress is where examples/approval expects the tool server for Kubernetes.
	kubeAddress = "127.0.0.1:8473"
	shop        = "shop"
	scaling     = "more-replicas"
)

// approve shows a run that scales a Deployment once somebody has approved.
func approve(ctx context.Context, s *stage) error {
	if err := prepareShop(ctx, s); err != nil {
		return err
	}
	developer, err := s.plane.KubeconfigForUser("developer")
	if err != nil {
		return err
	}
	approver, err := s.plane.KubeconfigForUser("approver")
	if err != nil {
		return err
	}
	say("The user developer creates the run ...")
	if err := as(ctx, developer, kubectl(), "create", "--filename=examples/approval/run.yaml"); err != nil {
		return err
	}
	r, err := follow(ctx, s.plane.AdminKubeconfig(), shop, scaling, time.Minute, func(r *v1alpha1.AgentRun) bool {
		return len(r.Status.PendingApprovals) > 0 || ended(r)
	})
	if err != nil {
		return err
	}
	if len(r.Status.PendingApprovals) == 0 {
		return expectAnswer(r)
	}
	fmt.Println()
	say("The run waits. The user approver, who has the approver's role and no other, looks at it and approves ...")
	if err := as(ctx, approver, "bin/kubectl-interlock", "approve", scaling, "--namespace="+shop, "--yes"); err != nil {
		return err
	}
	if r, err = follow(ctx, s.plane.AdminKubeconfig(), shop, scaling, time.Minute, ended); err != nil {
		return err
	}
	showEnd(r)
	if err := expectAnswer(r); err != nil {
		return err
	}
	return audit(ctx, s, r)
}

// prepareShop applies the example and starts its tool server, as a ServiceAccount of its own.
func prepareShop(ctx context.Context, s *stage) error {
	say("Applying examples/approval: a Deployment, who may do what, a tool that writes, and a model that answers from a script ...")
	for _, path := range []string{"toolservers/kube/deploy/rbac.yaml", "examples/approval"} {
		if err := s.plane.Apply(ctx, path); err != nil {
			return err
		}
	}
	say("Starting toolservers/kube at " + kubeAddress + ", which acts as whoever a run acts as ...")
	kubeconfig, err := s.plane.KubeconfigFor(ctx, "default", "kube")
	if err != nil {
		return err
	}
	return s.start(ctx, &program{
		name: "kube", env: []string{"KUBECONFIG=" + kubeconfig}, ready: "http://" + kubeAddress + "/readyz",
		args: []string{"bin/kube", "--listen=" + kubeAddress, "--namespaces=" + shop, "--records-namespace=default"},
	})
}

// audit prints what is on record about the change.
func audit(ctx context.Context, s *stage, r *v1alpha1.AgentRun) error {
	fmt.Print("\nWhat is on record:\n\n")
	for _, look := range [][]string{
		{"get", "agentruns", "--namespace=" + shop},
		{"get", "approvals", "--namespace=" + shop},
		{"get", "turns", "--namespace=" + shop, "--selector=interlock.dev/run-uid=" + string(r.UID), "--output=jsonpath=" +
			`{range .items[*].spec.results[?(@.approvedBy)]}{.callID}{"  "}{.state}{"  "}{.operationID}{"\n      approved by "}{.approvedBy[*].approver}{" as "}{.approvalDigest}{"\n"}{end}`},
		{"get", "deployment", "web", "--namespace=" + shop, "--output=jsonpath=" +
			`{.metadata.name}{" has "}{.spec.replicas}{" replicas, generation "}{.metadata.generation}{"\n      changed by operation "}{.metadata.annotations.interlock\.dev/operations}{"\n"}`},
		{"get", "events", "--namespace=" + shop, "--field-selector=involvedObject.name=" + scaling, "--sort-by=.metadata.creationTimestamp", "--output=custom-columns=REASON:.reason,NOTE:.message"},
	} {
		text, err := s.plane.Kubectl(ctx, look...)
		if err != nil {
			return err
		}
		fmt.Println(text)
	}
	s.commands = `  kubectl describe agentrun more-replicas -n shop        # what happened, step by step
  kubectl get approvals -n shop -o yaml                  # who approved what
  kubectl get turns -n shop -o yaml                      # what was said and done
`
	return nil
}
