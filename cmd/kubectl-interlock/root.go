// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// An app is what the commands share.
type app struct {
	in          io.Reader
	out, errOut *output
	clock       clock.PassiveClock
	cluster     cluster
	// isTerminal reports whether a person can be asked on in.
	isTerminal func() bool
}

// execute runs the command of root that args name. What could not be printed is an error, too.
func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) error {
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		return err
	}
	return a.out.err
}

// A cluster is where the commands do their work. It is asked for when a command runs, since the flags are not read before.
type cluster interface {
	// connect gives a client, and the namespace that the user has chosen.
	connect() (client.WithWatch, string, error)
	// addFlags adds the flags by which the user chooses.
	addFlags(*cobra.Command)
}

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-interlock",
		Short:         "Approve, follow and check what agents do",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl interlock"},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	a.cluster.addFlags(root)
	root.AddCommand(
		pendingCommand(a), showCommand(a), decideCommand(a, v1alpha1.DecisionApprove), decideCommand(a, v1alpha1.DecisionDeny),
		cancelCommand(a), watchCommand(a), lintCommand(a),
	)
	return root
}

// newScheme knows Kubernetes' own kinds and Interlock's.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// A kubeconfig is the cluster that kubectl would use, with kubectl's flags.
type kubeconfig struct {
	flags    *genericclioptions.ConfigFlags
	warnings *output
}

func newKubeconfig(warnings *output) *kubeconfig {
	return &kubeconfig{genericclioptions.NewConfigFlags(true), warnings}
}

func (k *kubeconfig) addFlags(c *cobra.Command) { k.flags.AddFlags(c.PersistentFlags()) }

func (k *kubeconfig) connect() (client.WithWatch, string, error) {
	namespace, _, err := k.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config, err := k.flags.ToRESTConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.WarningHandler = warningPrinter{k.warnings}
	c, err := client.NewWithWatch(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, "", fmt.Errorf("reaching the cluster: %w", err)
	}
	return c, namespace, nil
}

// A warningPrinter prints the API server's warnings, which may quote what a model wrote.
type warningPrinter struct{ out *output }

func (p warningPrinter) HandleWarningHeader(code int, _, message string) {
	if code == 299 && message != "" {
		p.out.printf("Warning: %s\n", visibleLines(message))
	}
}
