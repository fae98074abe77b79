// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package technologies

import (
	"context"
	"strings"

	"github.com/interlock-dev/interlock/toolservers/catalog/data"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

type getArguments struct {
	ID   string    `json:"id"`
	AsOf data.Date `json:"asOf"`
}

type getAnswer struct {
	AsOf        data.Date         `json:"asOf"`
	DataThrough data.Date         `json:"dataThrough"`
	ID          string            `json:"id"`
	MovedFrom   string            `json:"movedFrom,omitempty"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Groups      []named           `json:"groups"`
	Snapshots   []named           `json:"snapshots"`
	Specs       []string          `json:"specs"`
	CanIUse     []string          `json:"caniuse"`
	Baseline    baseline          `json:"baseline"`
	Browsers    []browser         `json:"browsers"`
	Discouraged *data.Discouraged `json:"discouraged,omitempty"`
}

type browser struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Released  data.Date `json:"released"`
	OrEarlier bool      `json:"orEarlier,omitempty"`
}

func (c *Catalog) get(_ context.Context, op tool.Operation) (tool.Answer, error) {
	asked, err := decode[getArguments](op.Arguments)
	if err != nil {
		return tool.Answer{}, err
	}
	f, err := c.find(asked.ID)
	if err != nil {
		return tool.Answer{}, err
	}
	day := c.day(asked.AsOf)
	answer := getAnswer{
		AsOf:        day,
		DataThrough: c.set.Through,
		ID:          f.ID,
		Name:        f.Name,
		Description: f.Description,
		Groups:      asNamed(c.set.NamedGroups(f)),
		Snapshots:   asNamed(c.set.NamedSnapshots(f)),
		Specs:       orEmpty(f.Specs),
		CanIUse:     orEmpty(f.CanIUse),
		Baseline:    asBaseline(f.Baseline.At(day)),
		Browsers:    c.browsers(f.SupportAt(day)),
		Discouraged: f.Discouraged,
	}
	if f.ID != asked.ID {
		answer.MovedFrom = asked.ID
	}
	return tool.Answer{Data: answer, Sources: []tool.Source{source(f)}}, nil
}

// find follows an ID that has moved. One that was split is no technology any more, and the caller has to choose: a guess
// would answer another question than the one that was asked.
func (c *Catalog) find(id string) (*data.Feature, error) {
	if f, ok := c.set.Feature(id); ok {
		return f, nil
	}
	r, ok := c.set.Redirect(id)
	if !ok {
		return nil, tool.Errorf(tool.NotFound, "there is no technology %q%s", id, closeTo(id, c.featureIDs()))
	}
	f, ok := c.set.Feature(r.Targets[0])
	if !ok || len(r.Targets) > 1 {
		return nil, tool.Errorf(tool.NotFound, "the technology %q was split; ask for one of: %s", id, strings.Join(r.Targets, ", "))
	}
	return f, nil
}

func (c *Catalog) featureIDs() []string {
	ids := make([]string, 0, len(c.set.Features))
	for i := range c.set.Features {
		ids = append(ids, c.set.Features[i].ID)
	}
	return ids
}

func (c *Catalog) browsers(support []data.Support) []browser {
	list := make([]browser, 0, len(support))
	for _, s := range support {
		list = append(list, browser{s.Browser, c.set.BrowserName(s.Browser), s.Version, s.Released, s.OrEarlier})
	}
	return list
}
