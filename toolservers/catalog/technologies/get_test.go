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

func TestGet_tellsAll(t *testing.T) {
	d := openDesk(t)
	got, sources := call[getAnswer](t, d, GetTool, map[string]any{"id": "grid"})
	want := getAnswer{
		AsOf:        "2026-09-22",
		DataThrough: "2026-09-22",
		ID:          "grid",
		Name:        "Grid",
		Description: "CSS grid is a two-dimensional layout system, which lays content out in rows and columns.",
		Groups:      []named{{"grid", "Grid"}},
		Snapshots:   []named{},
		Specs:       []string{"https://drafts.csswg.org/css-grid-3/"},
		CanIUse:     []string{"css-grid"},
		Baseline:    baseline{Status: data.Widely, NewlySince: "2017-10-17", WidelySince: "2020-04-17"},
		Browsers: []browser{
			{"chrome", "Chrome", "57", "2017-03-09", false},
			{"chrome_android", "Chrome Android", "57", "2017-03-16", false},
			{"edge", "Edge", "16", "2017-10-17", false},
			{"firefox", "Firefox", "52", "2017-03-07", false},
			{"firefox_android", "Firefox for Android", "52", "2017-03-07", false},
			{"safari", "Safari", "10.1", "2017-03-27", false},
			{"safari_ios", "Safari on iOS", "10.3", "2017-03-27", false},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantSources := []tool.Source{{ID: "web-features:grid", Title: "Grid", URL: "https://webstatus.dev/features/grid"}}
	if diff := cmp.Diff(wantSources, sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestGet_answersForTheDay(t *testing.T) {
	d := openDesk(t)
	tests := map[data.Date]struct {
		want     baseline
		browsers int
	}{
		"2017-10-16": {baseline{Status: data.Limited}, 6},
		"2017-10-17": {baseline{Status: data.Newly, NewlySince: "2017-10-17"}, 7},
		"2020-04-16": {baseline{Status: data.Newly, NewlySince: "2017-10-17"}, 7},
		"2020-04-17": {baseline{Status: data.Widely, NewlySince: "2017-10-17", WidelySince: "2020-04-17"}, 7},
		"2000-01-01": {baseline{Status: data.Limited}, 0},
		"2999-01-01": {baseline{Status: data.Widely, NewlySince: "2017-10-17", WidelySince: "2020-04-17"}, 7},
	}
	for day, tt := range tests {
		got, _ := call[getAnswer](t, d, GetTool, map[string]any{"id": "grid", "asOf": day})
		if got.AsOf != day || got.Baseline != tt.want || len(got.Browsers) != tt.browsers {
			t.Errorf("as of %s: %s, %+v in %d browsers, want %+v in %d", day, got.AsOf, got.Baseline, len(got.Browsers), tt.want, tt.browsers)
		}
	}
}

// Every answer has to fit the output schema, today's and an early one; call checks that.
func TestGet_everyAnswerFitsTheSchema(t *testing.T) {
	d := openDesk(t)
	for _, f := range d.set.Features {
		call[getAnswer](t, d, GetTool, map[string]any{"id": f.ID})
		call[getAnswer](t, d, GetTool, map[string]any{"id": f.ID, "asOf": "2012-01-01"})
	}
}

func TestGet_saysWhenUseIsDiscouraged(t *testing.T) {
	got, _ := call[getAnswer](t, openDesk(t), GetTool, map[string]any{"id": "accessor-methods"})
	if got.Discouraged == nil || !strings.Contains(got.Discouraged.Reason, "Annex B") || len(got.Discouraged.AccordingTo) != 1 {
		t.Errorf("discouraged: %+v", got.Discouraged)
	}
}

func TestGet_saysThatADayIsAnUpperBound(t *testing.T) {
	d := openDesk(t)
	got, _ := call[getAnswer](t, d, GetTool, map[string]any{"id": "output"})
	if want := (baseline{data.Widely, "2018-10-02", "2021-04-02", true}); got.Baseline != want {
		t.Errorf("output: %+v, want %+v", got.Baseline, want)
	}
	got, _ = call[getAnswer](t, d, GetTool, map[string]any{"id": "bdo"})
	for _, b := range got.Browsers {
		if want := b.ID == "chrome" || b.ID == "safari" || b.ID == "safari_ios"; b.OrEarlier != want {
			t.Errorf("bdo in %s %s: orEarlier = %v", b.ID, b.Version, b.OrEarlier)
		}
	}
}

func TestGet_followsAMove(t *testing.T) {
	got, sources := call[getAnswer](t, openDesk(t), GetTool, map[string]any{"id": "masonry"})
	if got.ID != "grid-lanes" || got.MovedFrom != "masonry" || sources[0].ID != "web-features:grid-lanes" {
		t.Errorf("masonry is %s, moved from %q, by %v", got.ID, got.MovedFrom, sources)
	}
}

func TestGet_helpsOutWhenNothingIsThere(t *testing.T) {
	d := openDesk(t)
	for id, says := range map[string]string{
		"popvoer":         "close to it: popover",
		"flex":            "close to it: flexbox",
		"text-wrap-style": "was split; ask for one of: text-wrap, text-wrap-balance, text-wrap-pretty",
	} {
		if got := d.refused(t, tool.NotFound, GetTool, map[string]any{"id": id}); !strings.Contains(got, says) {
			t.Errorf("%s: %q, want %q", id, got, says)
		}
	}
	if got := d.refused(t, tool.NotFound, GetTool, map[string]any{"id": "zzzzzzzzzz"}); strings.Contains(got, "close to it") {
		t.Errorf("zzzzzzzzzz: %q", got)
	}
}

func TestGet_refusesArguments(t *testing.T) {
	d := openDesk(t)
	for _, arguments := range []map[string]any{
		{},
		{"id": ""},
		{"id": "Grid"},
		{"id": "-"},
		{"id": "grid\n"},
		{"id": strings.Repeat("a", 65)},
		{"id": "grid", "asOf": ""},
		{"id": "grid", "asOf": "2024"},
		{"id": "grid", "asOf": "2023-02-29"},
		{"id": "grid", "asOf": "2024-01-01T00:00:00Z"},
		{"id": "grid", "asOf": nil},
		{"id": "grid", "more": 1},
	} {
		d.refused(t, tool.InvalidArguments, GetTool, arguments)
	}
}
