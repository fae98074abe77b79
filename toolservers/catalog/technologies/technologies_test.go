// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package technologies

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/toolservers/catalog/data"
	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A desk calls the tools as a server does, and holds every answer to its output schema.
type desk struct {
	set     *data.Set
	runner  *tool.Runner
	outputs map[string]*jsonschema.Schema
}

func openDesk(t *testing.T) *desk {
	t.Helper()
	set, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	tools, err := c.Tools()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := tool.NewRunner(set.Version, time.Now, slog.New(slog.DiscardHandler), tools...)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{set, runner, map[string]*jsonschema.Schema{}}
	for _, tl := range tools {
		d.outputs[tl.Name] = compileSchema(t, tl.OutputSchema)
	}
	return d
}

func compileSchema(t *testing.T, document json.RawMessage) *jsonschema.Schema {
	t.Helper()
	var v any
	if err := json.Unmarshal(document, &v); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:test", v); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("urn:test")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// call gives the answer, or fails the test.
func call[T any](t *testing.T, d *desk, name string, arguments map[string]any) (T, []tool.Source) {
	t.Helper()
	result, err := d.try(t, name, arguments)
	if err != nil {
		t.Fatalf("%s %v: %v", name, arguments, err)
	}
	var loose any
	var answer T
	if err := json.Unmarshal(result.Data, &loose); err != nil {
		t.Fatal(err)
	}
	if err := d.outputs[name].Validate(loose); err != nil {
		t.Errorf("%s %v breaks its output schema: %v", name, arguments, err)
	}
	if err := json.Unmarshal(result.Data, &answer); err != nil {
		t.Fatal(err)
	}
	return answer, result.Sources
}

func (d *desk) try(t *testing.T, name string, arguments map[string]any) (*tool.Result, *tool.Error) {
	t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return d.runner.Call(t.Context(), name, tool.Operation{Arguments: raw})
}

// refused fails the test unless the call is refused with the code.
func (d *desk) refused(t *testing.T, want tool.Code, name string, arguments map[string]any) string {
	t.Helper()
	_, err := d.try(t, name, arguments)
	if err == nil || err.Code != want {
		t.Fatalf("%s %v: %v, want %s", name, arguments, err, want)
	}
	return err.Message
}
