// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package data

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBaselineAt_countsTheWholeDay(t *testing.T) {
	grid := Baseline{Status: Widely, Low: "2017-10-17", High: "2020-04-17"}
	tests := map[string]struct {
		day  Date
		want Baseline
	}{
		"the day before it is newly available":  {"2017-10-16", Baseline{Status: Limited}},
		"the day it becomes newly available":    {"2017-10-17", Baseline{Status: Newly, Low: "2017-10-17"}},
		"the day before it is widely available": {"2020-04-16", Baseline{Status: Newly, Low: "2017-10-17"}},
		"the day it becomes widely available":   {"2020-04-17", grid},
		"long after":                            {"2999-12-31", grid},
		"long before":                           {"1969-12-31", Baseline{Status: Limited}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, grid.At(tt.day)); diff != "" {
				t.Errorf("At(%s) (-want +got):\n%s", tt.day, diff)
			}
		})
	}
}

func TestBaselineAt_doesNotInventWhatIsToCome(t *testing.T) {
	newly := Baseline{Status: Newly, Low: "2026-01-01"}
	if got := newly.At("2999-12-31"); got != newly {
		t.Errorf("At(2999-12-31) = %+v, and the dataset does not know that it became widely available", got)
	}
}

func TestSupportAt_needsTheReleaseByThatDay(t *testing.T) {
	f, ok := load(t).Feature("grid")
	if !ok {
		t.Fatal("grid is missing")
	}
	tests := []struct {
		day  Date
		want []string
	}{
		{"2017-03-06", nil},
		{"2017-03-07", []string{"firefox 52", "firefox_android 52"}},
		{"2017-03-09", []string{"chrome 57", "firefox 52", "firefox_android 52"}},
		{"2017-10-16", []string{"chrome 57", "chrome_android 57", "firefox 52", "firefox_android 52", "safari 10.1", "safari_ios 10.3"}},
		{"2017-10-17", []string{"chrome 57", "chrome_android 57", "edge 16", "firefox 52", "firefox_android 52", "safari 10.1", "safari_ios 10.3"}},
	}
	for _, tt := range tests {
		var got []string
		for _, s := range f.SupportAt(tt.day) {
			got = append(got, s.Browser+" "+s.Version)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", tt.day, diff)
		}
	}
}
