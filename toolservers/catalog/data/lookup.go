// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package data

// A Redirect is an ID that is no feature any more.
type Redirect struct {
	ID string `json:"id"`
	// Kind is "moved" (exactly one target) or "split" (at least two).
	Kind    string   `json:"kind"`
	Targets []string `json:"targets"`
}

// A Group is a set of features that belong together. Groups form a forest.
type Group struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Parent string `json:"parent"`
}

// Feature gives the feature with this ID.
func (s *Set) Feature(id string) (*Feature, bool) {
	f, ok := s.features[id]
	return f, ok
}

// Redirect gives the redirect with this ID.
func (s *Set) Redirect(id string) (Redirect, bool) {
	r, ok := s.redirects[id]
	return r, ok
}

// Group gives the group with this ID.
func (s *Set) Group(id string) (Group, bool) {
	g, ok := s.groups[id]
	return g, ok
}

// InGroup says whether f is in the group or in one below it.
func (s *Set) InGroup(f *Feature, group string) bool {
	for _, id := range f.Groups {
		// The forest has as many levels as groups at the very most; the bound keeps a circle from holding us for ever.
		for range s.Groups {
			if id == group {
				return true
			}
			if id = s.groups[id].Parent; id == "" {
				break
			}
		}
	}
	return false
}

// FormerIDs lists the IDs that now lead to the feature.
func (s *Set) FormerIDs(feature string) []string {
	var ids []string
	for _, r := range s.Redirects {
		for _, t := range r.Targets {
			if t == feature {
				ids = append(ids, r.ID)
			}
		}
	}
	return ids
}

// BrowserName is what people call the browser with this ID.
func (s *Set) BrowserName(id string) string { return s.browsers[id].Name }

// NamedGroups gives the feature's groups with their names.
func (s *Set) NamedGroups(f *Feature) []Named {
	list := make([]Named, 0, len(f.Groups))
	for _, id := range f.Groups {
		list = append(list, Named{id, s.groups[id].Name})
	}
	return list
}

// NamedSnapshots gives the feature's snapshots with their names.
func (s *Set) NamedSnapshots(f *Feature) []Named {
	list := make([]Named, 0, len(f.Snapshots))
	for _, id := range f.Snapshots {
		list = append(list, s.snapshots[id])
	}
	return list
}
