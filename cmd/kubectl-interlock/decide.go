// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/text"
)

// decideOptions are those of approve and deny.
type decideOptions struct {
	decision            v1alpha1.Decision
	runName, callID     string
	reason, output      string
	isConfirmed, doWait bool
	timeout             time.Duration
}

func decideCommand(a *app, decision v1alpha1.Decision) *cobra.Command {
	o := decideOptions{decision: decision}
	verb := strings.ToLower(string(decision))
	c := &cobra.Command{
		Use:   verb + " RUN [CALL]",
		Short: "Show a call that waits for approval, and " + verb + " it",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			o.runName = args[0]
			if len(args) > 1 {
				o.callID = args[1]
			}
			return a.decide(c.Context(), o)
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.reason, "reason", "", "Why, for the record. The model is told the reason of a denial.")
	flags.BoolVarP(&o.isConfirmed, "yes", "y", false, "Don't ask for confirmation.")
	flags.StringVarP(&o.output, "output", "o", "", "Print the Approval as yaml or json, and don't create it.")
	flags.BoolVar(&o.doWait, "wait", true, "Wait until the run has taken the Approval into account.")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Second, "How long to wait.")
	if decision == v1alpha1.DecisionDeny {
		if err := c.MarkFlagRequired("reason"); err != nil {
			panic(err)
		}
	}
	return c
}

// decide shows a call and, when a person wants it so, answers for them. The answer is to what was shown: whatever happens to
// the run in the meantime, it has the digest made of that.
func (a *app) decide(ctx context.Context, o decideOptions) error {
	c, namespace, err := a.cluster.connect()
	if err != nil {
		return err
	}
	run := &v1alpha1.AgentRun{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.runName}, run); err != nil {
		return fmt.Errorf("reading the run: %w", err)
	}
	asked, err := pick(run, o.callID)
	if err != nil {
		return err
	}
	r, err := readRequest(ctx, c, run, asked)
	if err != nil {
		return err
	}
	shown := a.out
	if o.output != "" {
		shown = a.errOut
	}
	r.present(shown, a.clock.Now())
	if shown.err != nil {
		return fmt.Errorf("the call could not be shown, so nothing was sent: %w", shown.err)
	}
	if err := r.refusal(a.clock.Now()); err != nil {
		return err
	}
	if o.output != "" {
		return printApproval(a.out, r.named(r.answer(o)), o.output)
	}
	if o.decision == v1alpha1.DecisionApprove {
		a.warnOfSelfApproval(ctx, c, r)
	}
	if err := a.confirm(o, r.asked.CallID); err != nil {
		return err
	}
	return a.submit(ctx, c, r.answer(o), o)
}

// refusal is why nothing is signed; nil if all is well.
func (r *request) refusal(now time.Time) error {
	if differences := r.differences(); len(differences) > 0 {
		return fmt.Errorf("what is shown is not what the run asks about, so nothing was sent:\n- %s", strings.Join(differences, "\n- "))
	}
	if !now.Before(r.asked.Expires.Time) {
		return fmt.Errorf("the time to answer was over at %s; nothing was sent", formatTime(&r.asked.Expires))
	}
	return nil
}

// warnOfSelfApproval says beforehand what the operator may say afterwards. Not to know who asks is no reason to stop.
func (a *app) warnOfSelfApproval(ctx context.Context, c client.Client, r *request) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		a.errOut.printf("Warning: the API server doesn't say who you are: %s\n", visibleLines(err.Error()))
		return
	}
	switch review.Status.UserInfo.Username {
	case "":
	case r.run.Spec.RequestedBy:
		a.errOut.printf("Warning: you requested this run. Your approval counts only if the ToolBinding has selfApproval: Allowed.\n")
	case r.asked.Principal:
		a.errOut.printf("Warning: the run acts as you. Your approval does not count.\n")
	}
}

// confirm has a person type the call's ID: it is another one each time, so that it can't be typed from habit.
func (a *app) confirm(o decideOptions, callID string) error {
	if o.isConfirmed {
		return nil
	}
	if !a.isTerminal() {
		return errors.New("there is no terminal to ask for confirmation on: look at the call, and use --yes")
	}
	a.errOut.printf("\nType %s to %s the call: ", text.Visible(callID), strings.ToLower(string(o.decision)))
	typed, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the confirmation: %w", err)
	}
	if strings.TrimSpace(typed) != callID {
		return errors.New("that is not the call's ID; nothing was sent")
	}
	return nil
}

// printApproval writes an Approval as a file for others to apply.
func printApproval(w io.Writer, answer *v1alpha1.Approval, format string) error {
	printer, err := genericclioptions.NewJSONYamlPrintFlags().ToPrinter(format)
	if err != nil {
		return err
	}
	return printer.PrintObj(answer, w)
}
