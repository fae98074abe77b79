// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"
)

func TestParseOptions_refusesWhatIsNotSafe(t *testing.T) {
	tls := []string{"--tls-cert-file", "c", "--tls-key-file", "k"}
	tests := map[string]struct {
		args []string
		says string // empty: it is allowed
	}{
		"nothing":                 {nil, ""},
		"all addresses":           {append(tls, "--listen", ":1", "--audience", "payments"), ""},
		"in the clear on purpose": {[]string{"--listen", ":1", "--audience", "payments", "--plaintext"}, ""},
		"in the clear":            {[]string{"--listen", ":1", "--audience", "payments"}, "--plaintext"},
		"open to all":             {append(tls, "--listen", ":1"), "--audience"},
		"faults here":             {[]string{"--faults", "f.json"}, ""},
		"faults for others":       {append(tls, "--listen", ":1", "--audience", "payments", "--faults", "f.json"), "--faults"},
		"previews of no time":     {[]string{"--preview-ttl", "10ms"}, "--preview-ttl"},
		"an outbox":               {[]string{"--outbox-url", "https://hooks.example.com/refunds"}, ""},
		"an outbox nowhere":       {[]string{"--outbox-url", "hooks.example.com"}, "--outbox-url"},
		"an outbox in a file":     {[]string{"--outbox-url", "file:///tmp/out"}, "--outbox-url"},
		"an unknown flag":         {[]string{"--databse", "x"}, "not defined"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseOptions(tt.args, io.Discard)
			if tt.says == "" && err != nil {
				t.Errorf("%v: %v", tt.args, err)
			}
			if tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%v: %v, want %q", tt.args, err, tt.says)
			}
		})
	}
}
