// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// options are the command line.
type options struct {
	listen    string
	certFile  string
	keyFile   string
	plaintext bool
}

func parseOptions(args []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("catalog", flag.ContinueOnError)
	// Errors are returned and printed once, by whoever gets them.
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8471", "the `address` to listen on; port 0 takes a free one")
	flags.StringVar(&o.certFile, "tls-cert-file", "", "a PEM `file` with the certificate chain; read again when it changes")
	flags.StringVar(&o.keyFile, "tls-key-file", "", "a PEM `file` with the certificate's private key")
	flags.BoolVar(&o.plaintext, "plaintext", false, "allow HTTP without TLS on an address that other machines can reach")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(output)
		flags.PrintDefaults()
	}
	if err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, o.check()
}

func (o options) usesTLS() bool { return o.certFile != "" }

// check refuses what would serve in the clear by accident.
func (o options) check() error {
	host, _, err := net.SplitHostPort(o.listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen is no address: %w", err)
	case (o.certFile == "") != (o.keyFile == ""):
		return errors.New("--tls-cert-file and --tls-key-file go together")
	case o.usesTLS() && o.plaintext:
		return errors.New("--plaintext and --tls-cert-file exclude each other")
	case !o.usesTLS() && !o.plaintext && !isLoopback(host):
		return fmt.Errorf("--listen %s can be reached from other machines: give --tls-cert-file and --tls-key-file, "+
			"or allow HTTP without TLS with --plaintext", o.listen)
	}
	return nil
}

// isLoopback does not resolve names: what a name stands for can change.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}
