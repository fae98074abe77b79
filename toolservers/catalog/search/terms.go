// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTerms bounds a query's terms: FTS5 limits how deep an expression may be, and nobody means more.
const maxTerms = 32

// minPrefix is the shortest term that also matches the beginning of longer words. Shorter ones would match nearly all.
const minPrefix = 3

// quote takes the words apart into terms, each an FTS5 string. Such a string ends at its closing quote alone, and a term
// holds only letters, digits and the marks that belong to them, so it can hold no quote, operator or column name.
func quote(words string) []string {
	fields := strings.FieldsFunc(words, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.N, unicode.M)
	})
	terms := make([]string, 0, min(len(fields), maxTerms))
	for _, field := range fields {
		// A mark alone is no word.
		if !strings.ContainsFunc(field, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N) }) {
			continue
		}
		if len(terms) == maxTerms {
			break
		}
		term := `"` + field + `"`
		if utf8.RuneCountInString(field) >= minPrefix {
			term += "*"
		}
		terms = append(terms, term)
	}
	return terms
}
