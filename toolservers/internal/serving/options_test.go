// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
)

func TestParse_servesInTheClearOnlyWhereNobodyElseListens(t *testing.T) {
	tests := map[string]struct {
		args []string
		says string // empty: it is allowed
	}{
		"nothing":                     {nil, ""},
		"a free port":                 {[]string{"--listen", "127.0.0.1:0"}, ""},
		"another loopback address":    {[]string{"--listen", "127.9.9.9:1"}, ""},
		"loopback in IPv6":            {[]string{"--listen", "[::1]:1"}, ""},
		"loopback in both":            {[]string{"--listen", "[::ffff:127.0.0.1]:1"}, ""},
		"localhost":                   {[]string{"--listen", "localhost:1"}, ""},
		"all addresses":               {[]string{"--listen", ":1"}, "--tls-cert-file"},
		"all addresses, spelled out":  {[]string{"--listen", "0.0.0.0:1"}, "--plaintext"},
		"all addresses in IPv6":       {[]string{"--listen", "[::]:1"}, "--plaintext"},
		"another machine's":           {[]string{"--listen", "10.0.0.1:1"}, "--plaintext"},
		"a name like localhost":       {[]string{"--listen", "localhost.example.com:1"}, "--plaintext"},
		"all addresses on purpose":    {[]string{"--listen", ":1", "--plaintext"}, ""},
		"all addresses with TLS":      {[]string{"--listen", ":1", "--tls-cert-file", "c", "--tls-key-file", "k"}, ""},
		"a certificate without a key": {[]string{"--tls-cert-file", "c"}, "go together"},
		"a key without a certificate": {[]string{"--tls-key-file", "k"}, "go together"},
		"TLS and not":                 {[]string{"--plaintext", "--tls-cert-file", "c", "--tls-key-file", "k"}, "exclude"},
		"no address":                  {[]string{"--listen", "8471"}, "no address"},
		"an unknown flag":             {[]string{"--lisen", ":1"}, "not defined"},
		"an argument":                 {[]string{"serve"}, `unexpected argument "serve"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("server", "127.0.0.1:8471", tt.args, io.Discard, nil)
			if tt.says == "" {
				if err != nil {
					t.Errorf("%v: %v", tt.args, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v: %v, want %q", tt.args, err, tt.says)
			}
		})
	}
}

func TestParse_helps(t *testing.T) {
	var output bytes.Buffer
	own := func(flags *flag.FlagSet) { flags.Bool("own", false, "") }
	if _, err := Parse("server", "127.0.0.1:8471", []string{"--help"}, &output, own); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
	for _, name := range []string{"-listen", "-tls-cert-file", "-tls-key-file", "-plaintext", "-own"} {
		if !strings.Contains(output.String(), name) {
			t.Errorf("no word of %s: %s", name, output.String())
		}
	}
}
