// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/interlock-dev/interlock/internal/run"
)

// maxQuoted bounds what a message repeats of a script, in bytes.
const maxQuoted = 200

// check reports the first expectation that req does not meet. It is a permanent failure: asking again shows the same.
func (e *expectation) check(req run.ModelRequest) error {
	if e == nil {
		return nil
	}
	shown := sinceLastReply(req.Messages)
	for _, want := range e.Contains {
		if !slices.ContainsFunc(shown, func(m run.Message) bool { return strings.Contains(m.Text, want) }) {
			return invalid(fmt.Sprintf("turn %d expects a message that contains %s; none of the %d since the model last spoke does",
				req.Step, quote(want), len(shown)))
		}
	}
	if e.Tools == nil {
		return nil
	}
	want, got := set(e.Tools), offered(req.Tools)
	if !slices.Equal(want, got) {
		return invalid(fmt.Sprintf("turn %d expects the tools %s; on offer are %s",
			req.Step, quote(strings.Join(want, ", ")), quote(strings.Join(got, ", "))))
	}
	return nil
}

// sinceLastReply is what is new to the model: the messages after its own last one.
func sinceLastReply(messages []run.Message) []run.Message {
	for i, message := range slices.Backward(messages) {
		if message.Role == run.RoleAssistant {
			return messages[i+1:]
		}
	}
	return messages
}

func offered(tools []run.ToolDefinition) []string {
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return set(names)
}

func set(names []string) []string {
	all := map[string]bool{}
	for _, n := range names {
		all[n] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func quote(s string) string {
	if len(s) > maxQuoted {
		s = strings.ToValidUTF8(s[:maxQuoted], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
