// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package technologies

import (
	"github.com/interlock-dev/interlock/toolservers/catalog/data"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// baseline is how answers write a data.Baseline.
type baseline struct {
	Status      data.Status `json:"status"`
	NewlySince  data.Date   `json:"newlySince,omitempty"`
	WidelySince data.Date   `json:"widelySince,omitempty"`
	OrEarlier   bool        `json:"orEarlier,omitempty"`
}

func asBaseline(b data.Baseline) baseline { return baseline{b.Status, b.Low, b.High, b.OrEarlier} }

// named is how answers write what has an ID and a name.
type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func asNamed(list []data.Named) []named {
	out := make([]named, 0, len(list))
	for _, n := range list {
		out = append(out, named(n))
	}
	return out
}

// source is the page that shows a feature to people.
func source(f *data.Feature) tool.Source {
	return tool.Source{ID: "web-features:" + f.ID, Title: f.Name, URL: "https://webstatus.dev/features/" + f.ID}
}

// orEmpty makes a missing list an empty one: the schemas promise a list.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
