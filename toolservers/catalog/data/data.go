// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package data holds the catalog's dataset: the web platform's features, when each became Baseline, and which browser
// version brought it. It is the npm package web-features, cut down by hack/catalog-data and embedded here.
//
// The package answers what is true of a feature on a given day, by what the dataset knows today. It never reads the
// clock: without a day, the last one that the dataset covers (Set.Through) is meant. The main type is Set.
package data

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed technologies.json
var technologies []byte

// A Set is the whole dataset. It is not changed once it is loaded.
type Set struct {
	// Version names the package and its version, such as web-features@3.40.0.
	Version string `json:"dataVersion"`
	// Through is the newest day that the dataset knows anything about.
	Through Date `json:"dataThrough"`
	// Browsers are those that Baseline looks at.
	Browsers []Named `json:"browsers"`
	Groups   []Group `json:"groups"`
	// Snapshots are dated editions of a specification, such as ecmascript-2020.
	Snapshots []Named    `json:"snapshots"`
	Redirects []Redirect `json:"redirects"`
	// Features are sorted by ID.
	Features []Feature `json:"features"`

	features  map[string]*Feature
	redirects map[string]Redirect
	groups    map[string]Group
	snapshots map[string]Named
	browsers  map[string]Named
}

// A Feature is one technology.
type Feature struct {
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	Groups      []string     `json:"groups"`
	Snapshots   []string     `json:"snapshots"`
	Specs       []string     `json:"specs"`
	CanIUse     []string     `json:"caniuse"`
	Baseline    Baseline     `json:"baseline"`
	Support     []Support    `json:"support"`
	Discouraged *Discouraged `json:"discouraged"`
}

// A Named is something that has an ID and a name for people.
type Named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Discouraged says that a feature should no longer be used. The dataset gives no day on which that began.
type Discouraged struct {
	Reason       string   `json:"reason"`
	AccordingTo  []string `json:"accordingTo"`
	Alternatives []string `json:"alternatives,omitempty"`
	RemovalDate  Date     `json:"removalDate,omitempty"`
}

// Load reads the embedded dataset. It refuses one that points at what it does not hold.
func Load() (*Set, error) {
	s := &Set{}
	if err := json.Unmarshal(technologies, s); err != nil {
		return nil, fmt.Errorf("reading the embedded dataset: %w", err)
	}
	s.index()
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("checking the embedded dataset: %w", err)
	}
	return s, nil
}

func (s *Set) index() {
	s.features = make(map[string]*Feature, len(s.Features))
	for i := range s.Features {
		s.features[s.Features[i].ID] = &s.Features[i]
	}
	s.redirects = make(map[string]Redirect, len(s.Redirects))
	for _, r := range s.Redirects {
		s.redirects[r.ID] = r
	}
	s.groups = make(map[string]Group, len(s.Groups))
	for _, g := range s.Groups {
		s.groups[g.ID] = g
	}
	s.snapshots = byID(s.Snapshots)
	s.browsers = byID(s.Browsers)
}

func byID(list []Named) map[string]Named {
	m := make(map[string]Named, len(list))
	for _, n := range list {
		m[n.ID] = n
	}
	return m
}

func (s *Set) check() error {
	for _, f := range s.Features {
		for _, g := range f.Groups {
			if _, ok := s.groups[g]; !ok {
				return fmt.Errorf("feature %s is in the unknown group %s", f.ID, g)
			}
		}
		for _, id := range f.Snapshots {
			if _, ok := s.snapshots[id]; !ok {
				return fmt.Errorf("feature %s is in the unknown snapshot %s", f.ID, id)
			}
		}
		for _, b := range f.Support {
			if _, ok := s.browsers[b.Browser]; !ok {
				return fmt.Errorf("feature %s is in the unknown browser %s", f.ID, b.Browser)
			}
		}
	}
	for _, r := range s.Redirects {
		for _, t := range r.Targets {
			if _, ok := s.features[t]; !ok {
				return fmt.Errorf("%s leads to the unknown feature %s", r.ID, t)
			}
		}
	}
	return nil
}
