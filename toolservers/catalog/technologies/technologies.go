// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package technologies is the catalog's two tools: search_technologies finds the web platform's features, get_technology
// tells all about one of them.
//
// Both answer for the end of a day, by what the dataset knows today. Two calls with the same arguments get the same answer
// for as long as the dataset is the same. The main type is Catalog.
package technologies

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/interlock-dev/interlock/toolservers/catalog/data"
	"github.com/interlock-dev/interlock/toolservers/catalog/search"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// The names of the tools.
const (
	SearchTool = "search_technologies"
	GetTool    = "get_technology"
)

//go:embed schemas/*.json
var schemas embed.FS

// A Catalog answers from one dataset. It is safe for concurrent use.
type Catalog struct {
	set   *data.Set
	index *search.Index
}

// New indexes the set. Close the catalog to free the index.
func New(ctx context.Context, set *data.Set) (*Catalog, error) {
	documents := make([]search.Document, 0, len(set.Features))
	for i := range set.Features {
		documents = append(documents, document(set, &set.Features[i]))
	}
	index, err := search.New(ctx, documents)
	if err != nil {
		return nil, err
	}
	return &Catalog{set, index}, nil
}

// document makes a feature findable by its IDs too, the former ones included, and by the names of its groups and snapshots.
func document(set *data.Set, f *data.Feature) search.Document {
	keywords := append([]string{f.ID}, set.FormerIDs(f.ID)...)
	for _, g := range set.NamedGroups(f) {
		keywords = append(keywords, g.Name)
	}
	for _, s := range set.NamedSnapshots(f) {
		keywords = append(keywords, s.Name)
	}
	return search.Document{ID: f.ID, Name: f.Name, Keywords: strings.Join(keywords, " "), Text: f.Description}
}

// Ready says whether the catalog can answer.
func (c *Catalog) Ready(ctx context.Context) error { return c.index.Ping(ctx) }

// Close frees the index. Calls under way may fail.
func (c *Catalog) Close() error { return c.index.Close() }

// Tools gives both tools.
func (c *Catalog) Tools() ([]tool.Tool, error) {
	searchTool, err := describe(tool.Tool{
		Name:  SearchTool,
		Title: "Search web technologies",
		Description: "Find web platform features (CSS, HTML, JavaScript, Web APIs) by words, with their Baseline status: whether " +
			"all major browsers have them. With asOf, the status is that of a past day. Use get_technology for browser versions.",
		Call: c.search,
	})
	if err != nil {
		return nil, err
	}
	getTool, err := describe(tool.Tool{
		Name:  GetTool,
		Title: "Get a web technology",
		Description: "Tell all about one web platform feature: its Baseline status, the browser versions that have it and when " +
			"they came out, its specifications, and whether its use is discouraged. With asOf, by the end of a past day.",
		Call: c.get,
	})
	if err != nil {
		return nil, err
	}
	return []tool.Tool{searchTool, getTool}, nil
}

// describe adds the schemas that are kept under the tool's name.
func describe(t tool.Tool) (tool.Tool, error) {
	var err error
	if t.InputSchema, err = schemas.ReadFile("schemas/" + t.Name + ".input.json"); err != nil {
		return tool.Tool{}, fmt.Errorf("describing %s: %w", t.Name, err)
	}
	if t.OutputSchema, err = schemas.ReadFile("schemas/" + t.Name + ".output.json"); err != nil {
		return tool.Tool{}, fmt.Errorf("describing %s: %w", t.Name, err)
	}
	return t, nil
}

// decode reads arguments that the schema has let through.
func decode[T any](arguments json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(arguments, &v); err != nil {
		return v, fmt.Errorf("reading arguments that fit their schema: %w", err)
	}
	return v, nil
}

// day is the one that an answer is for.
func (c *Catalog) day(asOf data.Date) data.Date {
	if asOf == "" {
		return c.set.Through
	}
	return asOf
}
