// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kube is a tool server for Kubernetes: it reads and changes objects as the ServiceAccount that a run acts as, so
// that plain RBAC bounds what an agent can do. Changes go in two steps: a preview is a dry run with a diff, and a commit
// carries the version that was previewed. It speaks the HTTP tool protocol (toolservers/openapi.yaml).
//
// Who calls is known by a TokenReview; the server then impersonates them, and has no right of its own to any object but its
// records.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/interlock-dev/interlock/toolservers/internal/httpapi"
	"github.com/interlock-dev/interlock/toolservers/internal/serving"
	"github.com/interlock-dev/interlock/toolservers/internal/tokenreview"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/kube/changes"
	"github.com/interlock-dev/interlock/toolservers/kube/cluster"
	"github.com/interlock-dev/interlock/toolservers/kube/looks"
	"github.com/interlock-dev/interlock/toolservers/kube/records"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// From the first signal on, a second one ends the process at once.
	context.AfterFunc(ctx, stop)

	switch err := run(ctx, os.Args[1:], os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "kube:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done. Logs go to output, one JSON object a line.
func run(ctx context.Context, args []string, output io.Writer) error {
	o, err := parseOptions(args, output)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(output, nil))
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	served := cluster.New(config, mapper, o.namespaces)
	memory := records.New(client.CoreV1().ConfigMaps(o.recordsNamespace), time.Now)
	changer := changes.New(served, memory, o.settleAfter, time.Now)

	tools, err := looks.Tools(served)
	if err != nil {
		return err
	}
	writing, err := changer.Tools()
	if err != nil {
		return err
	}
	runner, err := tool.NewRunner("kubernetes", time.Now, log, append(tools, writing...)...)
	if err != nil {
		return err
	}
	reviewer, err := tokenreview.New(client.AuthenticationV1().TokenReviews(), o.audience, time.Now, log)
	if err != nil {
		return err
	}
	ready := func(ctx context.Context) error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	}
	handler := httpapi.New(runner, ready, time.Now, log, httpapi.WithLedger(changer), httpapi.WithAuthenticator(reviewer))

	clearing, stop := context.WithCancel(ctx)
	var clearers sync.WaitGroup
	defer clearers.Wait()
	defer stop()
	clearers.Go(func() { clearNowAndThen(clearing, memory, log) })
	return serving.Serve(ctx, o.Options, handler, log)
}

// clearNowAndThen keeps the records from growing for ever.
func clearNowAndThen(ctx context.Context, memory *records.Records, log *slog.Logger) {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		if err := memory.Clear(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "old records could not be cleared", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
