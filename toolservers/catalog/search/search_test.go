// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var garden = []Document{
	{ID: "rose", Name: "Rose", Keywords: "flower", Text: "It has thorns, and grows near an apple tree."},
	{ID: "apple", Name: "Apple", Keywords: "fruit", Text: "It grows on a tree."},
	{ID: "pear", Name: "Pear", Keywords: "fruit", Text: "It is like an apple."},
	{ID: "sour-crab", Name: "Malus", Keywords: "fruit", Text: "This is a long text, in which sour and crab are but two words of many that say little."},
	{ID: "crab", Name: "Sour crab, sour crab", Keywords: "fruit", Text: "Sour crab."},
	{ID: "pineapple", Name: "Pineapple", Keywords: "fruit", Text: "It grows on the ground."},
	{ID: "twin-b", Name: "Twin", Text: "Alike."},
	{ID: "twin-a", Name: "Twin", Text: "Alike."},
	{ID: "elderberry", Name: "Élderberry", Keywords: "berries", Text: "It grows wild: OR so they say, AND they are right."},
}

func plant(t *testing.T) *Index {
	t.Helper()
	x, err := New(t.Context(), garden)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func TestRank_findsWords(t *testing.T) {
	tests := map[string]struct {
		words string
		want  []string
		any   bool
	}{
		"a name weighs more than a text":           {words: "apple", want: []string{"apple", "pear", "rose"}},
		"every word has to be there":               {words: "apple thorns", want: []string{"rose"}},
		"or else any of them":                      {words: "thorns ground", want: []string{"pineapple", "rose"}, any: true},
		"a long word may go on":                    {words: "pine", want: []string{"pineapple"}},
		"a short one may not":                      {words: "pi", want: nil},
		"a word is found in its other forms":       {words: "berry growing", want: []string{"elderberry"}},
		"case and accents don't count":             {words: "ELDERBERRY", want: []string{"elderberry"}},
		"an exact name comes first":                {words: " Pear ", want: []string{"pear"}},
		"an exact ID comes first":                  {words: "Sour  Crab", want: []string{"sour-crab", "crab"}},
		"equals are in the order of their IDs":     {words: "twin", want: []string{"twin-a", "twin-b"}},
		"no letter at all finds nothing":           {words: "*?!", want: nil},
		"a mark alone is no word":                  {words: "\u0301", want: nil},
		"a script that SQLite does not know, too":  {words: "𞤀𞤁", want: nil},
		"what nobody has finds nothing":            {words: "xylophone", want: nil},
		"an operator is a word like any other":     {words: "OR", want: []string{"elderberry"}},
		"a word between hyphens and dots is found": {words: "--thorns..", want: []string{"rose"}},
	}
	x := plant(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, all, err := x.Rank(t.Context(), tt.words)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Rank(%q) (-want +got):\n%s", tt.words, diff)
			}
			if all == tt.any {
				t.Errorf("Rank(%q) has all words: %v", tt.words, all)
			}
		})
	}
}

func TestRank_takesQueryLanguageForWords(t *testing.T) {
	x := plant(t)
	for _, words := range []string{
		`" OR *`, `"`, `""`, `'`, `NEAR(`, `NEAR(apple rose, 1)`, `name:apple`, `{name text}:apple`, `-name:apple`, `^apple`, `apple*`,
		`apple NOT rose`, `apple AND`, `(((`, `apple\`, "apple\x00rose", "\x00", `'; DROP TABLE documents; --`, `?1`, `$words`, "%", "_",
		strings.Repeat("a ", 5000), strings.Repeat("(", 10000), strings.Repeat("apple", 2000),
	} {
		if _, _, err := x.Rank(t.Context(), words); err != nil {
			t.Errorf("Rank(%.40q): %v", words, err)
		}
	}
	// A column filter or NOT would leave out the rose, which has the apple in its text.
	for _, words := range []string{"name:apple", "apple NOT rose"} {
		if got, _, _ := x.Rank(t.Context(), words); !slices.Contains(got, "rose") {
			t.Errorf("Rank(%q) = %v", words, got)
		}
	}
}

func TestRank_stopsWithItsContext(t *testing.T) {
	x := plant(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := x.Rank(ctx, "apple"); err == nil {
		t.Error("a search went on after its caller had gone")
	}
}

func TestIndex_outlivesItsReaders(t *testing.T) {
	x := plant(t)
	x.reader.SetMaxIdleConns(0)
	for range 2 {
		if got, _, err := x.Rank(t.Context(), "apple"); err != nil || len(got) != 3 {
			t.Errorf("with no connection kept, Rank = %v, %v", got, err)
		}
	}
}

func TestIndex_isNotShared(t *testing.T) {
	x := plant(t)
	other, err := New(t.Context(), []Document{{ID: "apple", Name: "Another apple"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	var searches sync.WaitGroup
	for range 8 {
		searches.Go(func() {
			if got, _, err := x.Rank(t.Context(), "apple"); err != nil || len(got) != 3 {
				t.Errorf("Rank = %v, %v", got, err)
			}
			if got, _, err := other.Rank(t.Context(), "apple"); err != nil || len(got) != 1 {
				t.Errorf("Rank of the other = %v, %v", got, err)
			}
		})
	}
	searches.Wait()
}

func TestIndex_isReadOnly(t *testing.T) {
	x := plant(t)
	if _, err := x.reader.ExecContext(t.Context(), "DELETE FROM documents"); err == nil {
		t.Error("a reader could delete")
	}
}
