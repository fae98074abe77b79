// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"strings"

	"github.com/interlock-dev/interlock/internal/run"
)

// maxCitations bounds the citations of one answer.
const maxCitations = 64

// Cited gives the sources that text names in square brackets and that a result in turns really had, in the order of the
// text, each once. What text names and no result had is not in it. Linear in the text and in the number of sources.
func Cited(text string, turns []Turn) []run.Citation {
	had := map[string]run.Citation{}
	for _, t := range turns {
		for _, r := range t.Results {
			for _, s := range r.Answer.Sources {
				if _, ok := had[s.ID]; !ok {
					had[s.ID] = run.Citation{
						Source: s, CallID: r.CallID, ObservedAt: r.Answer.ObservedAt, SourceVersion: r.Answer.SourceVersion,
					}
				}
			}
		}
	}
	var cited []run.Citation
	for len(cited) < maxCitations {
		_, rest, ok := strings.Cut(text, "[")
		if !ok {
			break
		}
		text = rest
		id, _, ok := strings.Cut(rest, "]")
		if !ok {
			break
		}
		// A bracket inside the brackets begins anew.
		id = id[strings.LastIndexByte(id, '[')+1:]
		if c, ok := had[id]; ok {
			cited = append(cited, c)
			delete(had, id)
		}
	}
	return cited
}
