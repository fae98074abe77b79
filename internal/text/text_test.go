// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"testing"

	"github.com/interlock-dev/interlock/internal/text"
)

func TestClean_takesOutWhatHidesOrReorders(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\nc":                        "a\tb\nc",
		"a\x1b[31mb\x00":                 "a[31mb",
		"pay \u202e001\u202c to":         "pay 001 to",
		"a\u200bb\ufeff":                 "ab",
		"\xff":                           "\ufffd",
		"\u0645\u06cc\u200c\u062e\u0648": "\u0645\u06cc\u200c\u062e\u0648",
	} {
		if got := text.Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestClip_cutsBetweenCharacters(t *testing.T) {
	for _, test := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"a€b", 3, "a"}, {"a€b", 4, "a€"}, {"€", 0, ""}} {
		if got := text.Clip(test.in, test.n); got != test.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", test.in, test.n, got, test.want)
		}
	}
}
