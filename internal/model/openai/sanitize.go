// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"regexp"
	"strings"
)

// fragment is how many characters of the key in a row make a word unfit to be shown.
const fragment = 6

var (
	plainCode  = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)
	plainLabel = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,255}$`)
)

// A sanitizer lets a word of the provider's through if it is plain and repeats no part of the key.
type sanitizer struct {
	// repeatsKey is a function so that the key is in no struct that could be printed.
	repeatsKey func(word string) bool
}

func newSanitizer(key string) sanitizer {
	return sanitizer{repeatsKey: func(word string) bool {
		if key == "" {
			return false
		}
		n := min(fragment, len(key))
		for i := 0; i+n <= len(word); i++ {
			if strings.Contains(key, word[i:i+n]) {
				return true
			}
		}
		return false
	}}
}

// code gives an error code back, or nothing.
func (s sanitizer) code(word string) string { return s.only(plainCode, word) }

// label gives a model's name or a request's ID back, or nothing.
func (s sanitizer) label(word string) string { return s.only(plainLabel, word) }

func (s sanitizer) only(shape *regexp.Regexp, word string) string {
	if !shape.MatchString(word) || s.repeatsKey(word) {
		return ""
	}
	return word
}
