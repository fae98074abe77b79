// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/interlock-dev/interlock/internal/text"
)

// lineWidth is where lines of foreign words are folded. A terminal that folds them itself would begin the next line at the left,
// where it could pass for one of ours.
const lineWidth = 76

// visibleLines makes text of several lines fit to be printed, and keeps its lines.
func visibleLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = text.Visible(line)
	}
	return strings.Join(lines, "\n")
}

// An output prints, and remembers the first failure: what could not be shown must not be signed.
type output struct {
	to  io.Writer
	err error
}

// Write makes an output one for the printers of others, too.
func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.to.Write(p)
	o.err = err
	return n, err
}

func (o *output) printf(format string, args ...any) { _, _ = fmt.Fprintf(o, format, args...) }

// quote prints words that nobody vouches for: each line has a bar before it, also the rest of one that is too long.
func (o *output) quote(words string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(words, "\n"), "\n") {
		bar := "  |"
		for _, part := range fold(text.Visible(line)) {
			if part != "" {
				part = " " + part
			}
			o.printf("%s%s\n", bar, part)
			bar = "  :"
		}
	}
}

// field prints one line of ours; a value that is empty is left out.
func (o *output) field(name, value string) {
	if value != "" {
		o.printf("  %-13s %s\n", name+":", text.Visible(value))
	}
}

// table prints rows below their headings, as kubectl does.
func (o *output) table(headings []string, rows [][]string) error {
	table := &metav1.Table{}
	for _, heading := range headings {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: heading, Type: "string"})
	}
	for _, row := range rows {
		var cells []any
		for _, cell := range row {
			cells = append(cells, text.Visible(cell))
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	out := printers.GetNewTabWriter(o)
	if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, out); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return out.Flush()
}

// fold cuts a line into parts of at most lineWidth characters, counting as two all that may be drawn wide.
func fold(line string) []string {
	const firstWide = '\u1100'
	var parts []string
	start, width := 0, 0
	for i, r := range line {
		columns := 1
		if r >= firstWide {
			columns = 2
		}
		if width += columns; width > lineWidth {
			parts = append(parts, line[start:i])
			start, width = i, columns
		}
	}
	return append(parts, line[start:])
}

// formatTime writes a time as the API does; empty if there is none.
func formatTime(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// formatLeft says how long it is from now until t.
func formatLeft(now, t time.Time) string {
	if left := t.Sub(now); left > 0 {
		return duration.HumanDuration(left)
	}
	return "expired"
}
