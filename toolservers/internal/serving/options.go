// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// Options are the part of a command line that is about serving.
type Options struct {
	Listen    string
	CertFile  string
	KeyFile   string
	Plaintext bool
}

// Parse reads the command line of the named server, which listens at the given address unless it says otherwise. own
// registers the flags that the server has besides; nil, there are none. A call for help gets the flags on output.
func Parse(name, listen string, args []string, output io.Writer, own func(*flag.FlagSet)) (Options, error) {
	var o Options
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	// Errors are returned and printed once, by whoever gets them.
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.Listen, "listen", listen, "the `address` to listen on; port 0 takes a free one")
	flags.StringVar(&o.CertFile, "tls-cert-file", "", "a PEM `file` with the certificate chain; read again when it changes")
	flags.StringVar(&o.KeyFile, "tls-key-file", "", "a PEM `file` with the certificate's private key")
	flags.BoolVar(&o.Plaintext, "plaintext", false, "allow HTTP without TLS on an address that other machines can reach")
	if own != nil {
		own(flags)
	}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(output)
		flags.PrintDefaults()
	}
	if err != nil {
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, o.check()
}

// UsesTLS says whether the server speaks TLS.
func (o Options) UsesTLS() bool { return o.CertFile != "" }

// IsLoopback says whether only this machine can reach the server. It does not resolve names: what a name stands for can
// change.
func (o Options) IsLoopback() bool {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// check refuses what would serve in the clear by accident.
func (o Options) check() error {
	_, _, err := net.SplitHostPort(o.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen is no address: %w", err)
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("--tls-cert-file and --tls-key-file go together")
	case o.UsesTLS() && o.Plaintext:
		return errors.New("--plaintext and --tls-cert-file exclude each other")
	case !o.UsesTLS() && !o.Plaintext && !o.IsLoopback():
		return fmt.Errorf("--listen %s can be reached from other machines: give --tls-cert-file and --tls-key-file, "+
			"or allow HTTP without TLS with --plaintext", o.Listen)
	}
	return nil
}
