// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package technologies

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/toolservers/catalog/data"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

func ids(answer searchAnswer) []string {
	list := make([]string, 0, len(answer.Technologies))
	for _, t := range answer.Technologies {
		list = append(list, t.ID)
	}
	return list
}

func TestSearch_bestFitComesFirst(t *testing.T) {
	d := openDesk(t)
	for query, want := range map[string]string{
		"grid":                  "grid",
		"flexbox":               "flexbox",
		":has()":                "has",
		"view transitions api":  "view-transitions",
		"dark mode":             "color-scheme",
		"css nesting":           "nesting",
		"seperators":            "numeric-separators", // by its former ID
		"async iterators":       "async-iterators",
		"promise.withResolvers": "promise-withresolvers",
	} {
		got, sources := call[searchAnswer](t, d, SearchTool, map[string]any{"query": query})
		if len(got.Technologies) == 0 || got.Technologies[0].ID != want {
			t.Errorf("%q finds %v, want %s first", query, ids(got), want)
			continue
		}
		if len(sources) != len(got.Technologies) || sources[0].ID != "web-features:"+want || sources[0].URL != "https://webstatus.dev/features/"+want {
			t.Errorf("%q rests on %v", query, sources)
		}
	}
}

func TestSearch_answersForTheDay(t *testing.T) {
	d := openDesk(t)
	status := func(asOf string) baseline {
		t.Helper()
		arguments := map[string]any{"query": "container queries"}
		if asOf != "" {
			arguments["asOf"] = asOf
		}
		got, _ := call[searchAnswer](t, d, SearchTool, arguments)
		for _, found := range got.Technologies {
			if found.ID == "container-queries" {
				return found.Baseline
			}
		}
		t.Fatalf("as of %q: %v", asOf, ids(got))
		return baseline{}
	}
	for asOf, want := range map[string]baseline{
		"2023-02-13": {Status: data.Limited},
		"2023-02-14": {Status: data.Newly, NewlySince: "2023-02-14"},
		"2025-08-13": {Status: data.Newly, NewlySince: "2023-02-14"},
		"2025-08-14": {Status: data.Widely, NewlySince: "2023-02-14", WidelySince: "2025-08-14"},
		"":           {Status: data.Widely, NewlySince: "2023-02-14", WidelySince: "2025-08-14"},
	} {
		if got := status(asOf); got != want {
			t.Errorf("as of %q: %+v, want %+v", asOf, got, want)
		}
	}
}

func TestSearch_filters(t *testing.T) {
	d := openDesk(t)
	for name, tt := range map[string]struct {
		arguments map[string]any
		has, not  string
	}{
		"by status":                 {map[string]any{"query": "popover", "baseline": "newly"}, "popover", "popover-hint"},
		"by status on the day":      {map[string]any{"query": "popover", "baseline": "limited", "asOf": "2025-01-26"}, "popover", ""},
		"by another status on it":   {map[string]any{"query": "popover", "baseline": "newly", "asOf": "2025-01-26"}, "", "popover"},
		"by group":                  {map[string]any{"query": "grid", "group": "grid"}, "grid", "grid-lanes"},
		"by a group above":          {map[string]any{"query": "grid", "group": "css"}, "grid", ""},
		"by a group it is not part": {map[string]any{"query": "grid", "group": "javascript"}, "", "grid"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := call[searchAnswer](t, d, SearchTool, tt.arguments)
			list := " " + strings.Join(ids(got), " ") + " "
			if tt.has != "" && !strings.Contains(list, " "+tt.has+" ") {
				t.Errorf("%v finds%s, and not %s", tt.arguments, list, tt.has)
			}
			if tt.not != "" && strings.Contains(list, " "+tt.not+" ") {
				t.Errorf("%v finds%s", tt.arguments, list)
			}
		})
	}
}

func TestSearch_saysWhatItMatched(t *testing.T) {
	d := openDesk(t)
	for query, want := range map[string]string{"grid": "all", "grid xylophone": "any", "*": "all"} {
		if got, _ := call[searchAnswer](t, d, SearchTool, map[string]any{"query": query}); got.Match != want {
			t.Errorf("%q matches %s, want %s", query, got.Match, want)
		}
	}
}

func TestSearch_findingNothingIsAnAnswer(t *testing.T) {
	got, sources := call[searchAnswer](t, openDesk(t), SearchTool, map[string]any{"query": "xylophone"})
	want := searchAnswer{AsOf: "2026-09-22", DataThrough: "2026-09-22", Match: "all", Technologies: []technology{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if sources == nil || len(sources) != 0 {
		t.Errorf("sources: %#v, want an empty list", sources)
	}
}

func TestSearch_refusesArguments(t *testing.T) {
	d := openDesk(t)
	for _, arguments := range []map[string]any{
		{},
		{"query": ""},
		{"query": strings.Repeat("a", 201)},
		{"query": strings.Repeat(`"`, 10000)},
		{"query": []string{"grid"}},
		{"query": "grid", "baseline": "high"},
		{"query": "grid", "group": "CSS"},
		{"query": "grid", "limit": 0},
		{"query": "grid", "limit": 51},
		{"query": "grid", "limit": 1.5},
		{"query": "grid", "limit": "10"},
		{"query": "grid", "asOf": "2023-02-29"},
		{"query": "grid", "pageToken": ""},
		{"query": "grid", "pageToken": strings.Repeat("a", 65)},
		{"query": "grid", "offset": 1},
	} {
		d.refused(t, tool.InvalidArguments, SearchTool, arguments)
	}
	if got := d.refused(t, tool.InvalidArguments, SearchTool, map[string]any{"query": "grid", "group": "layuot"}); !strings.Contains(got, "close to it: layout") {
		t.Errorf("an unknown group: %q", got)
	}
}

func TestSearch_takesWholeNumbersHoweverWritten(t *testing.T) {
	d := openDesk(t)
	result, err := d.runner.Call(t.Context(), SearchTool, tool.Operation{Arguments: []byte(`{"query":"css","limit":2.0}`)})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Sources) != 2 {
		t.Errorf("limit 2.0 gives %d", len(result.Sources))
	}
}
