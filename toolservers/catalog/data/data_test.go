// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package data

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T) *Set {
	t.Helper()
	s, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLoad_holdsTheWholePackage(t *testing.T) {
	s := load(t)
	if s.Version != "web-features@3.40.0" {
		t.Errorf("Version = %q", s.Version)
	}
	if got := len(s.Features); got != 1204 {
		t.Errorf("%d features, want 1204", got)
	}
	if got := len(s.Redirects); got != 12 {
		t.Errorf("%d redirects, want 12", got)
	}
	if got := len(s.Browsers); got != 7 {
		t.Errorf("%d browsers, want 7", got)
	}
	if !slices.IsSortedFunc(s.Features, func(a, b Feature) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("the features are not sorted by ID")
	}
}

// These days were public before there was such a dataset: browser vendors announced them.
func TestBaseline_isWhatIsPubliclyKnown(t *testing.T) {
	tests := map[string]Baseline{
		"grid":              {Status: Widely, Low: "2017-10-17", High: "2020-04-17"}, // Edge 16 was the last
		"container-queries": {Status: Widely, Low: "2023-02-14", High: "2025-08-14"}, // Firefox 110
		"has":               {Status: Widely, Low: "2023-12-19", High: "2026-06-19"}, // Firefox 121
		"nesting":           {Status: Widely, Low: "2023-12-11", High: "2026-06-11"}, // Safari 17.2
		"dialog":            {Status: Widely, Low: "2022-03-14", High: "2024-09-14"}, // Safari 15.4
		"async-await":       {Status: Widely, Low: "2017-04-05", High: "2019-10-05"}, // Edge 15
		"popover":           {Status: Newly, Low: "2025-01-27"},                      // Safari 18.3
		"view-transitions":  {Status: Newly, Low: "2025-10-14"},                      // Firefox 144
		"webgpu":            {Status: Limited},
		"output":            {Status: Widely, Low: "2018-10-02", High: "2021-04-02", OrEarlier: true},
	}
	s := load(t)
	for id, want := range tests {
		f, ok := s.Feature(id)
		if !ok {
			t.Errorf("%s is missing", id)
			continue
		}
		if diff := cmp.Diff(want, f.Baseline); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// The release days come from another table of the package than the Baseline days: by the definition of Baseline, the one
// follows from the other.
func TestBaseline_followsFromReleases(t *testing.T) {
	s := load(t)
	checked := 0
	for _, f := range s.Features {
		if f.Baseline.Low == "" {
			continue
		}
		checked++
		if len(f.Support) != len(s.Browsers) {
			t.Errorf("%s is %s in %d browsers", f.ID, f.Baseline.Status, len(f.Support))
		}
		last := slices.MaxFunc(f.Support, func(a, b Support) int { return strings.Compare(string(a.Released), string(b.Released)) })
		if last.Released != f.Baseline.Low {
			t.Errorf("%s: the last browser had it on %s, and it became newly available on %s", f.ID, last.Released, f.Baseline.Low)
		}
		if f.Baseline.High != "" && f.Baseline.High != thirtyMonthsAfter(t, f.Baseline.Low) {
			t.Errorf("%s: newly available on %s, widely on %s", f.ID, f.Baseline.Low, f.Baseline.High)
		}
	}
	if checked < 700 {
		t.Errorf("only %d features have ever been Baseline", checked)
	}
}

// thirtyMonthsAfter stops at the end of a shorter month: from 31 May it is 30 November.
func thirtyMonthsAfter(t *testing.T, day Date) Date {
	t.Helper()
	start, err := time.Parse(time.DateOnly, string(day))
	if err != nil {
		t.Fatal(err)
	}
	end := start.AddDate(0, 30, 0)
	if end.Day() != start.Day() {
		end = end.AddDate(0, 0, -end.Day())
	}
	return Date(end.Format(time.DateOnly))
}

func TestSet_knowsNothingAfterThrough(t *testing.T) {
	s := load(t)
	for _, f := range s.Features {
		if diff := cmp.Diff(f.Baseline, f.Baseline.At(s.Through)); diff != "" {
			t.Errorf("%s is not on %s what the package says it is (-package +computed):\n%s", f.ID, s.Through, diff)
		}
		if got := len(f.SupportAt(s.Through)); got != len(f.Support) {
			t.Errorf("%s: %d of %d browsers by %s", f.ID, got, len(f.Support), s.Through)
		}
	}
}
