// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package data

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRedirect_leadsToFeatures(t *testing.T) {
	s := load(t)
	want := map[string]Redirect{
		"masonry":         {ID: "masonry", Kind: "moved", Targets: []string{"grid-lanes"}},
		"text-wrap-style": {ID: "text-wrap-style", Kind: "split", Targets: []string{"text-wrap", "text-wrap-balance", "text-wrap-pretty"}},
	}
	for id, want := range want {
		got, _ := s.Redirect(id)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
		if _, ok := s.Feature(id); ok {
			t.Errorf("%s is a feature as well", id)
		}
	}
	if diff := cmp.Diff([]string{"display-grid-lanes", "masonry"}, s.FormerIDs("grid-lanes")); diff != "" {
		t.Errorf("former IDs of grid-lanes (-want +got):\n%s", diff)
	}
}

func TestInGroup_climbsToTheTop(t *testing.T) {
	s := load(t)
	grid, ok := s.Feature("grid")
	if !ok {
		t.Fatal("grid is missing")
	}
	// grid is below layout, which is below css.
	for group, want := range map[string]bool{"grid": true, "layout": true, "css": true, "javascript": false, "": false} {
		if got := s.InGroup(grid, group); got != want {
			t.Errorf("InGroup(grid, %q) = %v, want %v", group, got, want)
		}
	}
}

func TestInGroup_endsInACircle(t *testing.T) {
	s := &Set{Groups: []Group{{ID: "a", Parent: "b"}, {ID: "b", Parent: "a"}}}
	s.index()
	if s.InGroup(&Feature{Groups: []string{"a"}}, "c") {
		t.Error("a is in c")
	}
}

func TestCheck_refusesWhatPointsNowhere(t *testing.T) {
	tests := map[string]Set{
		"group":    {Features: []Feature{{ID: "f", Groups: []string{"g"}}}},
		"snapshot": {Features: []Feature{{ID: "f", Snapshots: []string{"s"}}}},
		"browser":  {Features: []Feature{{ID: "f", Support: []Support{{Browser: "b"}}}}},
		"feature":  {Redirects: []Redirect{{ID: "r", Kind: "moved", Targets: []string{"f"}}}},
	}
	for what, s := range tests {
		s.index()
		if s.check() == nil {
			t.Errorf("an unknown %s is accepted", what)
		}
	}
}
