// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package data

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// published is the part of the package's own data.json that is compared, as its authors write it.
type published struct {
	Browsers map[string]struct {
		Releases []struct {
			Version string
			Date    Date
		}
	}
	Features map[string]struct {
		Kind, Name, Description string
		Group, Spec             []string
		Status                  struct {
			Baseline any
			Low      Date              `json:"baseline_low_date"`
			High     Date              `json:"baseline_high_date"`
			Support  map[string]string `json:"support"`
		}
	}
}

// TestLoad_agreesWithThePackage reads the npm package itself, where hack/catalog-data/generate.sh has put it. Elsewhere
// there is nothing to compare with, and generate.sh --check compares the whole file in its own way.
func TestLoad_agreesWithThePackage(t *testing.T) {
	raw, err := os.ReadFile(filepath.FromSlash("../../../hack/catalog-data/node_modules/web-features/data.json"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the npm package is not installed: run hack/catalog-data/generate.sh --check")
	}
	if err != nil {
		t.Fatal(err)
	}
	var p published
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}

	s := load(t)
	for id, want := range p.Features {
		f, ok := s.Feature(id)
		if ok != (want.Kind == "feature") {
			t.Errorf("%s is a %s", id, want.Kind)
		}
		if !ok {
			continue
		}
		// The one spec URL that the package gets wrong is corrected in ours.
		specs := strings.ReplaceAll(strings.Join(f.Specs, " "), "sec-%25iteratorprototype%25-", "sec-%iteratorprototype%-")
		got := []any{f.Name, f.Description, f.Groups, specs, baselineWord(f.Baseline.Status), marked(f.Baseline.Low, f), marked(f.Baseline.High, f)}
		if diff := cmp.Diff([]any{want.Name, want.Description, want.Group, strings.Join(want.Spec, " "), want.Status.Baseline, want.Status.Low, want.Status.High}, got); diff != "" {
			t.Errorf("%s (-package +ours):\n%s", id, diff)
		}
		p.compareSupport(t, f, want.Status.Support)
	}
}

func (p *published) compareSupport(t *testing.T, f *Feature, want map[string]string) {
	t.Helper()
	if len(f.Support) != len(want) {
		t.Errorf("%s: %d browsers, want %d", f.ID, len(f.Support), len(want))
	}
	for _, s := range f.Support {
		version := s.Version
		if s.OrEarlier {
			version = "≤" + version
		}
		if version != want[s.Browser] {
			t.Errorf("%s: %s %s, want %s", f.ID, s.Browser, version, want[s.Browser])
		}
		for _, r := range p.Browsers[s.Browser].Releases {
			if r.Version == strings.TrimPrefix(version, "≤") && r.Date != s.Released {
				t.Errorf("%s: %s %s was released on %s, want %s", f.ID, s.Browser, s.Version, s.Released, r.Date)
			}
		}
	}
}

func baselineWord(s Status) any {
	switch s {
	case Widely:
		return "high"
	case Newly:
		return "low"
	case Limited:
		return false
	}
	return nil
}

func marked(day Date, f *Feature) Date {
	if day != "" && f.Baseline.OrEarlier {
		return "≤" + day
	}
	return day
}
