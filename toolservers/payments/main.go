// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Command payments is a tool server that can do damage: it keeps payments and gives money back. It serves two tools that
// read and one that refunds, in two steps, by the HTTP tool protocol (toolservers/openapi.yaml), over SQLite or PostgreSQL.
//
// It moves no real money: the refunds are rows, and a message to whoever would move it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/interlock-dev/interlock/toolservers/internal/httpapi"
	"github.com/interlock-dev/interlock/toolservers/internal/serving"
	"github.com/interlock-dev/interlock/toolservers/internal/tokenreview"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/payments/database"
	"github.com/interlock-dev/interlock/toolservers/payments/faults"
	"github.com/interlock-dev/interlock/toolservers/payments/ledger"
	"github.com/interlock-dev/interlock/toolservers/payments/outbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// From the first signal on, a second one ends the process at once.
	context.AfterFunc(ctx, stop)

	switch err := run(ctx, os.Args[1:], os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done. Logs go to output, one JSON object a line.
func run(ctx context.Context, args []string, output io.Writer) (err error) {
	o, err := parseOptions(args, output)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(output, nil))
	if o.faults != "" {
		// Every line says that what it tells may be on purpose.
		log = log.With("faults", o.faults)
	}
	db, err := database.Open(ctx, o.database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	books := ledger.New(db, o.previewsLast, time.Now)
	if err := seed(ctx, books, o.seed); err != nil {
		return err
	}
	handler, err := newHandler(o, books, log)
	if err != nil {
		return err
	}
	trouble := faults.New(o.faults, log)

	if o.outboxURL != "" {
		sender := outbox.New(db, o.outboxURL, trouble.Duplicate, time.Now, log)
		sending, stop := context.WithCancel(ctx)
		var senders sync.WaitGroup
		defer senders.Wait()
		defer stop()
		senders.Go(func() { sender.Run(sending) })
	}
	return serving.Serve(ctx, o.Options, trouble.Handler(handler), log)
}

func seed(ctx context.Context, books *ledger.Ledger, file string) error {
	payments := ledger.Examples
	if file != "" {
		var err error
		if payments, err = os.ReadFile(file); err != nil { //nolint:gosec // the file is whoever's who starts the server
			return fmt.Errorf("reading the payments to begin with: %w", err)
		}
	}
	return books.Seed(ctx, payments)
}

func newHandler(o options, books *ledger.Ledger, log *slog.Logger) (http.Handler, error) {
	tools, err := books.Tools()
	if err != nil {
		return nil, err
	}
	runner, err := tool.NewRunner(ledger.SourceVersion, time.Now, log, tools...)
	if err != nil {
		return nil, err
	}
	parts := []httpapi.Option{httpapi.WithLedger(books)}
	if o.audience != "" {
		reviewer, err := newReviewer(o.audience, log)
		if err != nil {
			return nil, err
		}
		parts = append(parts, httpapi.WithAuthenticator(reviewer))
	}
	return httpapi.New(runner, books.Ready, time.Now, log, parts...), nil
}

// newReviewer asks the cluster of KUBECONFIG, or the one that the pod is in.
func newReviewer(audience string, log *slog.Logger) (*tokenreview.Reviewer, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster that knows the callers: %w", err)
	}
	client, err := authentication.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	return tokenreview.New(client.TokenReviews(), audience, time.Now, log)
}
