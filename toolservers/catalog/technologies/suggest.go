// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package technologies

import (
	"cmp"
	"slices"
	"strings"
)

const maxSuggestions = 3

// closeTo words a hint at those candidates that want may have meant; empty if none looks like it.
func closeTo(want string, candidates []string) string {
	type near struct {
		id       string
		distance int
	}
	var found []near
	for _, id := range candidates {
		// One slip in three letters is still a slip; a whole name inside the other is meant at any distance.
		d := distance(want, id)
		if d <= max(1, len(want)/3) || (len(want) >= 3 && strings.Contains(id, want)) {
			found = append(found, near{id, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.id, b.id))
	})
	if len(found) == 0 {
		return ""
	}
	ids := make([]string, 0, maxSuggestions)
	for _, n := range found[:min(len(found), maxSuggestions)] {
		ids = append(ids, n.id)
	}
	return "; close to it: " + strings.Join(ids, ", ")
}

// distance is how many letters have to be put in, taken out, replaced or swapped with the next to make b of a (optimal string
// alignment). Both are short: the schemas see to that.
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, row[j-1]+1, above[j]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
