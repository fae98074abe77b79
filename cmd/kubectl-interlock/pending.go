// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

type pendingOptions struct {
	allNamespaces, all bool
}

func pendingCommand(a *app) *cobra.Command {
	var o pendingOptions
	c := &cobra.Command{
		Use:   "pending",
		Short: "List the calls that wait for your approval",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return a.pending(c.Context(), o) },
	}
	c.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "List the calls of all namespaces.")
	c.Flags().BoolVar(&o.all, "all", false, "List those that you may not approve, too.")
	return c
}

func (a *app) pending(ctx context.Context, o pendingOptions) error {
	c, namespace, err := a.cluster.connect()
	if err != nil {
		return err
	}
	if o.allNamespaces {
		namespace = ""
	}
	var runs v1alpha1.AgentRunList
	if err := c.List(ctx, &runs, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing the runs: %w", err)
	}
	may := permissions{client: c, known: map[client.ObjectKey]bool{}}
	var rows [][]string
	hidden := 0
	for _, run := range runs.Items {
		for _, asked := range run.Status.PendingApprovals {
			if !o.all {
				allowed, err := may.approve(ctx, client.ObjectKey{Namespace: run.Namespace, Name: asked.Tool})
				if err != nil {
					return err
				}
				if !allowed {
					hidden++
					continue
				}
			}
			rows = append(rows, a.pendingRow(&run, asked))
		}
	}
	if hidden > 0 {
		a.errOut.printf("%d more wait for others; --all lists them.\n", hidden)
	}
	if len(rows) == 0 {
		a.errOut.printf("Nothing waits for your approval.\n")
		return nil
	}
	return a.out.table([]string{"Namespace", "Run", "Call", "Tool", "Requested By", "Expires In", "Summary"}, rows)
}

func (a *app) pendingRow(run *v1alpha1.AgentRun, asked v1alpha1.PendingApproval) []string {
	summary := "<no preview>"
	if asked.FromTool != nil && asked.FromTool.Summary != "" {
		summary = shorten(asked.FromTool.Summary)
	}
	requestedBy := run.Spec.RequestedBy
	if requestedBy == "" {
		requestedBy = "<unknown>"
	}
	return []string{run.Namespace, run.Name, asked.CallID, asked.Tool, requestedBy, formatLeft(a.clock.Now(), asked.Expires.Time), summary}
}

// shorten cuts a summary to what fits into a column.
func shorten(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// permissions asks the API server which tools' calls the user may approve, once a tool.
type permissions struct {
	client client.Client
	known  map[client.ObjectKey]bool
}

func (p permissions) approve(ctx context.Context, tool client.ObjectKey) (bool, error) {
	if allowed, ok := p.known[tool]; ok {
		return allowed, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Resource: "toolbindings", Verb: "approve", Namespace: tool.Namespace, Name: tool.Name,
		},
	}}
	if err := p.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether you may approve calls of %s: %w", tool, err)
	}
	p.known[tool] = review.Status.Allowed
	return review.Status.Allowed, nil
}
