// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// Bounds on what is kept of a server's own words beside its data, in bytes.
const (
	maxCode          = 64
	maxSourceID      = 256
	maxSourceTitle   = 256
	maxSourceURL     = 1024
	maxSourceVersion = 256
)

// Bound makes a result of a server's JSON: compact, in valid UTF-8, with its numbers as they are, and cut to most bytes.
func Bound(data json.RawMessage, most int) (run.ToolResult, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return run.ToolResult{}, errors.New("the data is not JSON")
	}
	// Outside of a string nothing but ASCII is JSON, so that no more than text is changed.
	whole := bytes.ToValidUTF8(compact.Bytes(), []byte("\uFFFD"))
	result := run.ToolResult{Data: whole, Size: int64(len(whole))}
	if len(whole) <= most {
		return result, nil
	}
	// A text is cut as a text. Anything else becomes one.
	beginning := string(whole)
	if whole[0] == '"' {
		if err := json.Unmarshal(whole, &beginning); err != nil {
			return run.ToolResult{}, errors.New("the data is not JSON")
		}
	}
	// As a JSON string, what is kept grows by its escapes; it is cut until that fits, too.
	for kept := text.Clip(beginning, most); ; kept = text.Clip(kept, len(kept)*9/10) {
		cut, err := json.Marshal(kept)
		if err != nil {
			return run.ToolResult{}, errors.New("the data is not JSON")
		}
		if len(cut) <= most || kept == "" {
			result.Data, result.Truncated = cut, true
			return result, nil
		}
	}
}

// CleanCode gives a server's code if it is one (letters and digits, at most 64), and otherwise if not.
func CleanCode(code, otherwise string) string {
	if code == "" || len(code) > maxCode {
		return otherwise
	}
	for _, r := range code {
		if (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return otherwise
		}
	}
	return code
}

// CleanMessage makes a server's words fit to be shown to the model.
func CleanMessage(message string) string { return text.Clip(text.Clean(message), MaxMessageBytes) }

// CleanVersion makes a server's version of its data fit to be stored.
func CleanVersion(version string) string { return text.Clip(text.Clean(version), maxSourceVersion) }

// CleanSources makes sources fit to be stored and cited. What has no ID can't be cited, and is left out.
func CleanSources(sources []run.Source) []run.Source {
	var clean []run.Source
	for _, s := range sources {
		s = run.Source{
			ID: text.Clip(text.Clean(s.ID), maxSourceID), Title: text.Clip(text.Clean(s.Title), maxSourceTitle), URL: text.Clip(text.Clean(s.URL), maxSourceURL),
		}
		if s.ID == "" {
			continue
		}
		if clean = append(clean, s); len(clean) == run.MaxSources {
			break
		}
	}
	return clean
}
