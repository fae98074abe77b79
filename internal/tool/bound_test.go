// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/interlock-dev/interlock/internal/tool"
)

// TestBound_keepsWithinItsBound: whatever the data and the bound, what comes out is JSON in valid UTF-8 that fits, and a
// result that is cut holds the beginning of the whole.
func TestBound_keepsWithinItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := any(rapid.String().Draw(t, "text"))
		if rapid.Bool().Draw(t, "nested") {
			value = map[string]any{"a": value, "b": []any{1, nil}}
		}
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		most := rapid.IntRange(2, 200).Draw(t, "most")
		got, err := tool.Bound(data, most)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Data) > most || !json.Valid(got.Data) || !utf8.Valid(got.Data) || got.Size != int64(len(data)) || got.Truncated != (len(data) > most) {
			t.Fatalf("got %q, size %d, truncated %t of %q", got.Data, got.Size, got.Truncated, data)
		}
		if !got.Truncated {
			return
		}
		whole, isText := value.(string)
		if !isText {
			whole = string(data)
		}
		var beginning string
		if err := json.Unmarshal(got.Data, &beginning); err != nil || !strings.HasPrefix(whole, beginning) {
			t.Fatalf("%q is not the beginning of %q", beginning, whole)
		}
	})
}

func TestBound_refusesWhatIsNotJSON(t *testing.T) {
	for _, data := range []string{"", "{", "1 2", "\xff"} {
		if got, err := tool.Bound(json.RawMessage(data), 100); err == nil {
			t.Errorf("%q became %s", data, got.Data)
		}
	}
}
