// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestReadPreview_showsEverythingThatIsInIt(t *testing.T) {
	for name, test := range map[string]struct{ raw, wantSummary, wantRest string }{
		"a name in other letters":    {`{"SUMMARY":"b","summary":"a"}`, "a", `"SUMMARY": "b"`},
		"a member of another type":   {`{"cost":12,"summary":"a"}`, "a", `"cost": 12`},
		"a list of another type":     {`{"resources":["x",1],"summary":"a"}`, "a", `"resources": [`},
		"what the protocol has not":  {`{"note":"x","summary":"a"}`, "a", `"note": "x"`},
		"nothing beside the summary": {`{"id":"1","summary":"a"}`, "a", ""},
		"no object":                  {`"Approve me"`, "", `"Approve me"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := readPreview(test.raw)
			if p.summary != test.wantSummary {
				t.Errorf("the summary is %q, want %q", p.summary, test.wantSummary)
			}
			if !strings.Contains(p.rest, test.wantRest) || (test.wantRest == "" && p.rest != "") {
				t.Errorf("the rest is %s, want %s in it", p.rest, test.wantRest)
			}
		})
	}
}

func TestFold_leavesNoLineToTheTerminal(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want int
	}{
		"an empty line":        {"", 1},
		"one that fits":        {strings.Repeat("x", lineWidth), 1},
		"one that is too long": {strings.Repeat("x", lineWidth+1), 2},
		"wide characters":      {strings.Repeat("字", lineWidth/2+1), 2},
	} {
		t.Run(name, func(t *testing.T) {
			parts := fold(test.line)
			if len(parts) != test.want || strings.Join(parts, "") != test.line {
				t.Errorf("got %q, want %d parts", parts, test.want)
			}
		})
	}
}
