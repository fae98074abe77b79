// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text makes words that came from outside (models, tools, users) fit to be stored and shown: without characters that hide
// or reorder, and within a bound. It knows nothing of what the words mean.
package text

import (
	"strings"
	"unicode"
)

// Clean makes text that came from outside fit to be stored and shown: valid UTF-8, without control characters other than
// new line and tab, and without the invisible ones that reorder or hide what a person reads. Joiners stay: some scripts are
// wrong without them.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\u200c' || r == '\u200d':
			return r
		case unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Clip cuts s to at most n bytes, between two characters.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
