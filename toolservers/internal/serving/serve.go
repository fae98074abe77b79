// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving is how a tool server listens: its flags, TLS with a certificate that may be renewed, bounds on connections
// and an end that waits for the calls under way.
//
// It never serves in the clear to other machines unless it is told to, and knows nothing of what is served. The main
// function is Serve.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds on a connection. A call is bounded on its own, well below writeTimeout.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
	// ShutdownTimeout is how long the end waits for the calls under way.
	ShutdownTimeout = 15 * time.Second
)

// Serve listens and serves until ctx is done, then lets the calls under way end, for a while.
func Serve(ctx context.Context, o Options, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	if o.UsesTLS() {
		pair, err := loadKeyPair(o.CertFile, o.KeyFile, log)
		if err != nil {
			return err
		}
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.certificate}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	log.InfoContext(ctx, "listening", "address", listener.Addr().String(), "tls", o.UsesTLS())

	served := make(chan error, 1)
	go func() {
		if o.UsesTLS() {
			served <- server.ServeTLS(listener, "", "")
			return
		}
		served <- server.Serve(listener)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	log.InfoContext(ctx, "stopping")
	return stop(ctx, server, served)
}

// stop waits for the calls under way. Those that are not done in time are cut off, which is reported.
func stop(ctx context.Context, server *http.Server, served <-chan error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ShutdownTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("waiting for calls to end: %w", err), server.Close())
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
