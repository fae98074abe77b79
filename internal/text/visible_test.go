// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/interlock-dev/interlock/internal/text"
)

func TestVisible_showsWhatHidesReordersOrDeceives(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"a colour":                        {"\x1b[31mred\x1b[0m", `\u{1b}[31mred\u{1b}[0m`},
		"a new title of the window":       {"\x1b]0;x\x07", `\u{1b}]0;x\u{7}`},
		"a C1 control":                    {"\u009b2J", `\u{9b}2J`},
		"back to the start of the line":   {"drop\rkeep\b", `drop\u{d}keep\u{8}`},
		"a line of its own":               {"a\nb\tc\u2028d", `a\u{a}b\u{9}c\u{2028}d`},
		"text from right to left":         {"pay \u202e001\u202c to", `pay \u{202e}001\u{202c} to`},
		"isolates":                        {"\u2066a\u2069", `\u{2066}a\u{2069}`},
		"no width":                        {"ad\u200bmin\u2060\ufeff\u00ad", `ad\u{200b}min\u{2060}\u{feff}\u{ad}`},
		"joiners":                         {"ad\u200dmin\u200c", `ad\u{200d}min\u{200c}`},
		"a tag, which models read":        {"ok\U000e0041", `ok\u{e0041}`},
		"variation selectors":             {"ok\ufe0f\U000e0101", `ok\u{fe0f}\u{e0101}`},
		"letters that are blank":          {"a\u3164b\u115f", `a\u{3164}b\u{115f}`},
		"a blank pattern of dots":         {"a\u2800b", `a\u{2800}b`},
		"other spaces":                    {"a\u00a0b\u3000c", `a\u{a0}b\u{3000}c`},
		"for private use":                 {"a\ue000", `a\u{e000}`},
		"not assigned":                    {"a\U000e0fff", `a\u{e0fff}`},
		"a Cyrillic letter in a word":     {"p\u0430ypal.com", `p\u{430}ypal.com`},
		"a Greek letter in a word":        {"c\u03bfm", `c\u{3bf}m`},
		"a Cherokee letter in a word":     {"\u13aaoogle", `\u{13aa}oogle`},
		"a whole word that passes":        {"pay \u0430\u0441\u0435 now", `pay \u{430}\u{441}\u{435} now`},
		"a full-width word":               {"\uff41\uff44min", `\u{ff41}\u{ff44}min`},
		"a mathematical letter":           {"\U0001d41admin", `\u{1d41a}dmin`},
		"the Kelvin sign":                 {"\u212a8s", `\u{212a}8s`},
		"a Bengali digit that looks like": {"1\u09ea50", `1\u{9ea}50`},
		"a mark on a digit":               {"1\u0301", `1\u{301}`},
		"a mark on nothing":               {" \u0301", ` \u{301}`},
		"struck out":                      {"a\u0338 =\u0338", `a\u{338} =\u{338}`},
		"a heap of marks":                 {"e\u0301\u0302\u0303", "e\u0301\u0302" + `\u{303}`},
		"no UTF-8":                        {"a\xff\xc3", `a\x{ff}\x{c3}`},
		"the replacement character":       {"a\ufffd", "a\ufffd"},
		"what looks like an escape":       {`\u{202e} \x{ff}`, `\u{5c}u{202e} \u{5c}x{ff}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text.Visible(test.in); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestVisible_leavesHonestTextAlone(t *testing.T) {
	for _, s := range []string{
		"", "Refund 12.50 EUR of payment pay_1001.", `{"path":"C:\\users","n":1e-7}`, "Zürich, naïve, Łódź, ı", "e\u0301le\u0300ve", "tiếng Việt",
		"Привет, мир", "Ελληνικά", "שָׁלוֹם", "مرحبا ١٢٣", "GET ١٢٣", "हिन्दी १२", "ไทย", "用Kubernetes部署3个Pod", "データをGETする", "한국어", "m² → ½ €", "👍",
	} {
		if got := text.Visible(s); got != s {
			t.Errorf("got %s, want %s", got, s)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "a\u202eb", "\xff\xfe", `\u{41}`, "p\u0430y", "\u0301", "a\u0301\u0302\u0303"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := text.Visible(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q has something that can't be seen at byte %d", got, i)
		}
	})
}
