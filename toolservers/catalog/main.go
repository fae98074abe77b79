// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Command catalog is a tool server over a real dataset: the web platform's features, from the npm package web-features.
// It serves two read-only tools by the HTTP tool protocol (toolservers/openapi.yaml) and by MCP, and needs nothing but its
// own binary: the dataset is embedded.
//
// It never writes anything, keeps nothing between calls and calls nobody.
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
	"runtime/debug"
	"syscall"
	"time"

	"github.com/interlock-dev/interlock/toolservers/catalog/data"
	"github.com/interlock-dev/interlock/toolservers/catalog/technologies"
	"github.com/interlock-dev/interlock/toolservers/internal/httpapi"
	"github.com/interlock-dev/interlock/toolservers/internal/mcpapi"
	"github.com/interlock-dev/interlock/toolservers/internal/serving"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// listen is where the server is found unless it is told otherwise.
const listen = "127.0.0.1:8471"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// From the first signal on, a second one ends the process at once.
	context.AfterFunc(ctx, stop)

	switch err := run(ctx, os.Args[1:], os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done. Logs go to output, one JSON object a line.
func run(ctx context.Context, args []string, output io.Writer) (err error) {
	o, err := serving.Parse("catalog", listen, args, output, nil)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(output, nil))

	set, err := data.Load()
	if err != nil {
		return err
	}
	catalog, err := technologies.New(ctx, set)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, catalog.Close()) }()
	tools, err := catalog.Tools()
	if err != nil {
		return err
	}
	runner, err := tool.NewRunner(set.Version, time.Now, log, tools...)
	if err != nil {
		return err
	}
	mcp := mcpapi.New("catalog", version(), runner, log)
	handler := httpapi.New(runner, catalog.Ready, time.Now, log, httpapi.WithMCP(mcp))

	return serving.Serve(ctx, o, handler, log.With("data", set.Version))
}

// version is what this binary was built from, where the build knows.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
