// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package technologies

import "testing"

func TestDistance_countsSlips(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"grid", "grid", 0},
		{"", "grid", 4},
		{"grid", "", 4},
		{"gird", "grid", 1},
		{"grd", "grid", 1},
		{"griid", "grid", 1},
		{"brid", "grid", 1},
		{"popvoer-hnit", "popover-hint", 2},
		{"kitten", "sitting", 3},
	}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := distance(tt.b, tt.a); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}

func TestCloseTo_namesTheNearestFew(t *testing.T) {
	candidates := []string{"flexbox", "flexbox-gap", "grid", "grid-lanes", "subgrid", "has"}
	for want, says := range map[string]string{
		"gird":     "; close to it: grid",
		"flex":     "; close to it: flexbox, flexbox-gap",
		"grid":     "; close to it: grid, subgrid, grid-lanes",
		"ha":       "; close to it: has",
		"nonsense": "",
	} {
		if got := closeTo(want, candidates); got != says {
			t.Errorf("closeTo(%q) = %q, want %q", want, got, says)
		}
	}
}
