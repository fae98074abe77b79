// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// ended says that a run has come to its end.
func ended(r *v1alpha1.AgentRun) bool { return r.Status.Termination != nil }

// follow prints a line for each change of a run's status until it is as far as wanted.
func follow(ctx context.Context, kubeconfig, namespace, name string, patience time.Duration, far func(*v1alpha1.AgentRun) bool) (*v1alpha1.AgentRun, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	watch, err := c.Watch(ctx, &v1alpha1.AgentRunList{}, client.InNamespace(namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)})
	if err != nil {
		return nil, fmt.Errorf("watching the run: %w", err)
	}
	defer watch.Stop()
	fmt.Printf("\n  %-8s %-5s %-16s %-7s %s\n", "TIME", "STEP", "PHASE", "TOKENS", "WHAT")
	begin, last := time.Now(), ""
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the run has not ended: %w", ctx.Err())
		case event, ok := <-watch.ResultChan():
			r, isRun := event.Object.(*v1alpha1.AgentRun)
			if !ok || !isRun {
				return nil, fmt.Errorf("the watch of the run ended: %v", event.Object)
			}
			if line := describe(r); line != last && r.Status.Phase != "" {
				fmt.Printf("  %-8s %s\n", fmt.Sprintf("%.1fs", time.Since(begin).Seconds()), line)
				last = line
			}
			if far(r) {
				return r, nil
			}
		}
	}
}

func describe(r *v1alpha1.AgentRun) string {
	s := r.Status
	var tokens int64
	if s.Usage != nil && s.Usage.TotalTokens != nil {
		tokens = *s.Usage.TotalTokens
	}
	what := ""
	switch {
	case s.Termination != nil:
		what = "ended: " + string(s.Termination.Reason)
	case s.ModelCall != nil:
		what = "asking the model" + callsText(s.Calls, "; before that: ")
	case len(s.PendingApprovals) > 0:
		what = "asking people" + callsText(s.Calls, ": ")
	case len(s.Calls) > 0:
		what = "calling tools" + callsText(s.Calls, ": ")
	default:
		if ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); ready != nil {
			what = ready.Message
		}
	}
	return fmt.Sprintf("%-5d %-16s %-7d %s", s.Step, s.Phase, tokens, what)
}

func callsText(calls []v1alpha1.CallStatus, prefix string) string {
	if len(calls) == 0 {
		return ""
	}
	texts := make([]string, len(calls))
	for i, c := range calls {
		texts[i] = fmt.Sprintf("%s %s", c.Tool, strings.ToLower(string(c.State)))
		if c.Code != "" {
			texts[i] += " (" + c.Code + ")"
		}
	}
	return prefix + strings.Join(texts, ", ")
}

// showEnd prints what the run came to.
func showEnd(r *v1alpha1.AgentRun) {
	t := r.Status.Termination
	fmt.Printf("\nThe run ended with %s. %s\n", t.Reason, t.Message)
	if r.Status.Result == nil {
		return
	}
	fmt.Printf("\nAnswer:\n%s\n", indent(r.Status.Result.Text))
	if len(r.Status.Result.Citations) > 0 {
		fmt.Print("\nSources that it cites:\n")
	}
	for _, c := range r.Status.Result.Citations {
		fmt.Printf("    [%s] %s\n        %s (from call %s, data %s)\n", c.ID, c.Title, c.URL, c.CallID, c.SourceVersion)
	}
}
