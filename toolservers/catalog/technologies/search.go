// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package technologies

import (
	"context"

	"github.com/interlock-dev/interlock/toolservers/catalog/data"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

const defaultLimit = 10

type searchArguments struct {
	Query    string      `json:"query"`
	AsOf     data.Date   `json:"asOf"`
	Baseline data.Status `json:"baseline"`
	Group    string      `json:"group"`
	// Limit is a float because 10.0 is an integer to JSON Schema, and not to encoding/json.
	Limit     float64 `json:"limit"`
	PageToken string  `json:"pageToken"`
}

type searchAnswer struct {
	AsOf          data.Date    `json:"asOf"`
	DataThrough   data.Date    `json:"dataThrough"`
	Match         string       `json:"match"`
	Total         int          `json:"total"`
	Technologies  []technology `json:"technologies"`
	NextPageToken string       `json:"nextPageToken,omitempty"`
}

type technology struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Groups      []string `json:"groups"`
	Baseline    baseline `json:"baseline"`
}

func (c *Catalog) search(ctx context.Context, op tool.Operation) (tool.Answer, error) {
	asked, err := decode[searchArguments](op.Arguments)
	if err != nil {
		return tool.Answer{}, err
	}
	asked.AsOf = c.day(asked.AsOf)
	if asked.Limit == 0 {
		asked.Limit = defaultLimit
	}
	if _, ok := c.set.Group(asked.Group); asked.Group != "" && !ok {
		return tool.Answer{}, tool.Errorf(tool.InvalidArguments, "at /group: there is no such group%s",
			closeTo(asked.Group, c.groupIDs()))
	}
	start, ok := c.readToken(asked)
	if !ok {
		return tool.Answer{}, badToken()
	}

	ids, all, err := c.index.Rank(ctx, asked.Query)
	if err != nil {
		return tool.Answer{}, err
	}
	found := c.filter(ids, asked)
	if start > 0 && start >= len(found) {
		return tool.Answer{}, badToken()
	}
	end := min(start+int(asked.Limit), len(found))
	return c.page(asked, found, start, end, all), nil
}

// filter keeps the order. The status is computed for the day that is asked about, by the same rule that get uses.
func (c *Catalog) filter(ids []string, asked searchArguments) []*data.Feature {
	found := make([]*data.Feature, 0, len(ids))
	for _, id := range ids {
		f, ok := c.set.Feature(id)
		if !ok {
			continue
		}
		if asked.Baseline != "" && f.Baseline.At(asked.AsOf).Status != asked.Baseline {
			continue
		}
		if asked.Group != "" && !c.set.InGroup(f, asked.Group) {
			continue
		}
		found = append(found, f)
	}
	return found
}

func (c *Catalog) page(asked searchArguments, found []*data.Feature, start, end int, all bool) tool.Answer {
	answer := searchAnswer{
		AsOf:         asked.AsOf,
		DataThrough:  c.set.Through,
		Match:        "any",
		Total:        len(found),
		Technologies: make([]technology, 0, end-start),
	}
	if all {
		answer.Match = "all"
	}
	sources := make([]tool.Source, 0, end-start)
	for _, f := range found[start:end] {
		answer.Technologies = append(answer.Technologies, technology{
			ID:          f.ID,
			Name:        f.Name,
			Description: f.Description,
			Groups:      orEmpty(f.Groups),
			Baseline:    asBaseline(f.Baseline.At(asked.AsOf)),
		})
		sources = append(sources, source(f))
	}
	if end < len(found) {
		answer.NextPageToken = c.token(asked, end)
	}
	return tool.Answer{Data: answer, Sources: sources}
}

func (c *Catalog) groupIDs() []string {
	ids := make([]string, 0, len(c.set.Groups))
	for _, g := range c.set.Groups {
		ids = append(ids, g.ID)
	}
	return ids
}
