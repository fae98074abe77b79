// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/interlock-dev/interlock/toolservers/internal/serving"
)

// listen is where the server is found unless it is told otherwise.
const listen = "127.0.0.1:8472"

// options are the command line.
type options struct {
	serving.Options
	database     string
	seed         string
	outboxURL    string
	audience     string
	previewsLast time.Duration
	faults       string
}

func parseOptions(args []string, output io.Writer) (options, error) {
	var o options
	var err error
	o.Options, err = serving.Parse("payments", listen, args, output, func(flags *flag.FlagSet) {
		flags.StringVar(&o.database, "database", "payments.db", "an SQLite `file`, or the postgres:// URL of a database")
		flags.StringVar(&o.seed, "seed", "", "a JSON `file` with the payments that an empty database gets; left out, it gets a few examples")
		flags.StringVar(&o.outboxURL, "outbox-url", "", "the `URL` that is told of each refund by POST; left out, the messages are kept")
		flags.StringVar(&o.audience, "audience", "", "let in only tokens for this `audience`, by a TokenReview of the cluster of "+
			"KUBECONFIG or of the pod; left out, nobody is asked for one, and only this machine can be listened on")
		flags.DurationVar(&o.previewsLast, "preview-ttl", time.Hour, "how long a preview can be committed")
		flags.StringVar(&o.faults, "faults", "", "for tests: a JSON `file` that says what is to go wrong, read at each request")
	})
	if err != nil {
		return options{}, err
	}
	return o, o.check()
}

// check refuses what would let anybody give money away.
func (o options) check() error {
	if o.audience == "" && !o.IsLoopback() {
		return fmt.Errorf("--listen %s can be reached from other machines: give --audience, so that it is known who calls", o.Listen)
	}
	if o.faults != "" && !o.IsLoopback() {
		return errors.New("--faults is for tests, and goes with a loopback address only")
	}
	if o.previewsLast < time.Second {
		return errors.New("--preview-ttl is to be a second at least")
	}
	if o.outboxURL == "" {
		return nil
	}
	if u, err := url.Parse(o.outboxURL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("--outbox-url is no http:// or https:// URL")
	}
	return nil
}
