// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Visible makes s fit to be judged by a person at a terminal, on one line: what would act on the terminal, hide, reorder or
// pass for something else is shown as an escape such as \u{202e}, and a byte that is no UTF-8 as \x{ff}. That is:
// controls (new line and tab among them), format characters and all else that is invisible; spaces other than the usual one;
// marks that strike out or stand on nothing; letters and digits of another script within a Latin word, and whole words
// that pass for Latin ones; and what only looks like ASCII, such as mathematical letters. A backslash that could be taken
// for the beginning of an escape is escaped as well, so that no text can pass for another.
func Visible(s string) string {
	var b strings.Builder
	latin := strings.ContainsFunc(s, isLatin)
	for len(s) > 0 {
		n := wordLength(s)
		if n == 0 {
			n = writeOne(&b, s)
		} else {
			writeWord(&b, s[:n], latin)
		}
		s = s[n:]
	}
	return b.String()
}

// wordLength is how many bytes of s are letters, digits and marks upon them.
func wordLength(s string) int {
	for i, r := range s {
		inWord := r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || (i > 0 && unicode.IsMark(r)))
		if !inWord {
			return i
		}
	}
	return len(s)
}

// writeOne writes the first character of s, which belongs to no word, and says how long it is.
func writeOne(b *strings.Builder, s string) int {
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && n == 1:
		fmt.Fprintf(b, `\x{%02x}`, s[0])
	case !isPlain(r) || unicode.IsMark(r) || strings.HasPrefix(s, `\u{`) || strings.HasPrefix(s, `\x{`):
		escape(b, r)
	default:
		b.WriteRune(r)
	}
	return n
}

// writeWord writes one word. inLatin is whether there is Latin elsewhere, so that a word could be meant to be read as such.
func writeWord(b *strings.Builder, word string, inLatin bool) {
	foreign := strings.ContainsFunc(word, isLatinOrASCIIDigit)
	lookAlike := inLatin && passesForLatin(word)
	marks, letter := 0, false
	for _, r := range word {
		if unicode.IsMark(r) {
			marks++
		} else {
			marks, letter = 0, unicode.IsLetter(r)
		}
		switch {
		case !isPlain(r), passesForASCII(r), lookAlike && !isASCII(r), foreign && isForeign(r):
			escape(b, r)
		case marks > 0 && (!letter || marks > maxMarks):
			escape(b, r)
		default:
			b.WriteRune(r)
		}
	}
}

// maxMarks is how many marks a letter may carry: Vietnamese and Hebrew need two, and a heap of them hides what is around.
const maxMarks = 2

func escape(b *strings.Builder, r rune) { fmt.Fprintf(b, `\u{%x}`, r) }

func isASCII(r rune) bool { return r < utf8.RuneSelf }

func isLatin(r rune) bool { return unicode.IsLetter(r) && unicode.Is(unicode.Latin, r) }

func isLatinOrASCIIDigit(r rune) bool { return isLatin(r) || (r >= '0' && r <= '9') }

// isPlain reports whether r can be seen, and leaves what is around it alone.
func isPlain(r rune) bool {
	switch {
	case !unicode.IsPrint(r), unicode.Is(unicode.Me, r):
		return false
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return false
	case r >= '\u0334' && r <= '\u0338', r >= '\u20d0' && r <= '\u20f0':
		// Strokes and frames: with them, "=" reads as "not equal".
		return false
	}
	// The two that are blank but count as a symbol.
	return r != '\u2800' && r != '\U0001d159'
}

// isForeign reports whether r is a letter or digit that has no business in a word with Latin letters or ASCII digits. The
// scripts of East Asia are written next to Latin without a space, and are not mistaken for it.
func isForeign(r rune) bool {
	if isASCII(r) || unicode.IsMark(r) || isLatin(r) {
		return false
	}
	if unicode.IsDigit(r) {
		return true
	}
	return !unicode.In(r, unicode.Common, unicode.Inherited, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul)
}

// passesForASCII reports whether r is a letter or digit that differs from an ASCII one in its looks alone.
func passesForASCII(r rune) bool {
	if isASCII(r) || unicode.IsMark(r) {
		return false
	}
	plain := norm.NFKC.String(string(r))
	return !strings.ContainsFunc(plain, func(r rune) bool { return !isASCII(r) })
}

// passesForLatin reports whether each letter of word is one of another script that looks like a Latin one.
func passesForLatin(word string) bool {
	isAlike := func(r rune) bool { return slices.Contains(lookAlikes, r) }
	return strings.ContainsFunc(word, isAlike) &&
		!strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsDigit(r) && !isAlike(r) })
}

// lookAlikes are the Cyrillic, Greek and Armenian letters that most typefaces draw like a Latin one, from Unicode's
// confusables.txt.
var lookAlikes = []rune("АВЕЅІЈКМНОРСТУХҮҺԌԚԜӀ" + "авеѕіјкмнорстухүһԁԍԛԝӏѵ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϳ" + "αικνορυχγϲ" + "ՍՏԼՕօսոզցհյ")
