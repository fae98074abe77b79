// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"time"

	"github.com/interlock-dev/interlock/toolservers/internal/serving"
)

// listen is where the server is found unless it is told otherwise.
const listen = "127.0.0.1:8473"

// options are the command line.
type options struct {
	serving.Options
	audience         string
	namespaces       []string
	recordsNamespace string
	settleAfter      time.Duration
}

func parseOptions(args []string, output io.Writer) (options, error) {
	var o options
	var namespaces string
	var err error
	o.Options, err = serving.Parse("kube", listen, args, output, func(flags *flag.FlagSet) {
		flags.StringVar(&o.audience, "audience", "tools.interlock.dev/kube", "the `audience` of the tokens that callers show")
		flags.StringVar(&namespaces, "namespaces", "", "the `namespaces` whose objects are served, with commas between them; * for all. Required")
		flags.StringVar(&o.recordsNamespace, "records-namespace", "", "the `namespace` that holds the records of operations. Required")
		flags.DurationVar(&o.settleAfter, "settle-after", 15*time.Second, "how long an operation without an answer counts as under way; then the object is asked whether it was done")
	})
	if err != nil {
		return options{}, err
	}
	for namespace := range strings.SplitSeq(namespaces, ",") {
		if namespace = strings.TrimSpace(namespace); namespace != "" {
			o.namespaces = append(o.namespaces, namespace)
		}
	}
	return o, o.check()
}

func (o options) check() error {
	switch {
	case len(o.namespaces) == 0:
		return errors.New("--namespaces is required: which namespaces are to be served? * is for all")
	case o.recordsNamespace == "":
		return errors.New("--records-namespace is required: where are operations to be recorded?")
	case o.audience == "":
		return errors.New("--audience is not to be empty")
	case o.settleAfter < time.Second:
		return errors.New("--settle-after is to be a second at least")
	}
	return nil
}
