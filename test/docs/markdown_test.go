// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// pages are the Markdown files of the repository, as paths from its root. What is generated is a page, too.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name == "bin" || (strings.HasPrefix(name, ".") && name != "..")):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".md"):
			return nil
		}
		page, err := filepath.Rel(repository, path)
		found = append(found, page)
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("looking for pages: %d found, %v", len(found), err)
	}
	return found
}

// A line is one line of a page, with its number. Inside a fenced block, fence is what the block opened with.
type line struct {
	text, fence string
	number      int
}

func lines(t *testing.T, page string) []line {
	t.Helper()
	var all []line
	fence := ""
	for i, text := range strings.Split(read(t, filepath.Join(repository, page)), "\n") {
		mark := strings.TrimSpace(text)
		switch {
		case fence == "" && strings.HasPrefix(mark, "```"):
			fence = mark
		case fence != "" && mark == "```":
			fence = ""
		default:
			all = append(all, line{text, fence, i + 1})
		}
	}
	if fence != "" {
		t.Errorf("%s ends inside of a block that begins with %s", page, fence)
	}
	return all
}

// A block is a fenced block of a page.
type block struct {
	language, text string
	line           int
}

// isInvalid reports whether the block shows what is refused: it is marked with "yaml invalid".
func (b block) isInvalid() bool { return b.language == "yaml invalid" }

func (b block) isYAML() bool { return b.language == "yaml" || b.isInvalid() }

func blocks(t *testing.T, page string) []block {
	t.Helper()
	var all []block
	last := line{}
	for _, l := range lines(t, page) {
		switch {
		case l.fence == "":
		case last.fence != "" && l.number == last.number+1:
			all[len(all)-1].text += l.text + "\n"
		default:
			all = append(all, block{strings.TrimPrefix(l.fence, "```"), l.text + "\n", l.number})
		}
		last = l
	}
	return all
}

// A link leads from a page to a place in the repository.
type link struct {
	target string
	line   int
}

var (
	linkPattern = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codePattern = regexp.MustCompile("`[^`]*`")
)

func links(t *testing.T, page string) []link {
	t.Helper()
	var all []link
	for _, l := range lines(t, page) {
		if l.fence != "" {
			continue
		}
		for _, match := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(l.text, ""), -1) {
			if target := match[1]; !strings.Contains(target, "://") && !strings.HasPrefix(target, "mailto:") {
				all = append(all, link{target, l.number})
			}
		}
	}
	return all
}

// anchors are the fragments under which the headings of a page can be linked to.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, l := range lines(t, page) {
		if heading := strings.TrimLeft(l.text, "#"); l.fence == "" && strings.HasPrefix(heading, " ") && heading != l.text {
			all[anchor(strings.TrimSpace(heading))] = true
		}
	}
	return all
}

func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
