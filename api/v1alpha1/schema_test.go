// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// A schema is what a CRD says of the value at one place.
type schema struct {
	apiextensionsv1.JSONSchemaProps
}

// freeForm are the objects that may hold anything: JSON Schemas, and the arguments of scripted calls. What bounds them is the
// size of a request to the API server.
var freeForm = []string{
	"ToolBinding spec.inputSchema",
	"ToolBinding status.definition.inputSchema",
	"ModelBinding spec.scripted.turns[].calls[].arguments",
}

func TestSchemas_sayWhatEachFieldIs(t *testing.T) {
	for kind := range kinds {
		walk(schemaOf(t, kind), "", func(path string, s schema) {
			if s.Description == "" && !strings.HasSuffix(path, "[]") {
				t.Errorf("%s %s has no description: kubectl explain has nothing to say of it", kind, path)
			}
		})
	}
}

// What kubectl explain says of a number is what the API server does.
func TestSchemas_sayTheBoundsOfNumbers(t *testing.T) {
	for kind := range kinds {
		walk(schemaOf(t, kind), "", func(path string, s schema) {
			b := s.bound()
			if b.Default == "" || b.Minimum == nil || b.Maximum == nil {
				return
			}
			want := fmt.Sprintf("Default %s, between %d and %d", b.Default, *b.Minimum, *b.Maximum)
			if said := strings.Join(strings.Fields(s.Description), " "); !strings.Contains(said, want) {
				t.Errorf("%s %s does not say %q, but %q", kind, path, want, said)
			}
		})
	}
}

func TestSchemas_boundAllThatCanGrow(t *testing.T) {
	for kind := range kinds {
		walk(schemaOf(t, kind), "", func(path string, s schema) {
			if !s.isBounded() && !slices.Contains(freeForm, kind+" "+path) {
				t.Errorf("%s %s can grow without a bound", kind, path)
			}
		})
	}
}

func TestSchemas_haveARowForEachRule(t *testing.T) {
	for kind, expected := range expectedErrors() {
		walk(schemaOf(t, kind), "", func(path string, s schema) {
			for _, rule := range s.XValidations {
				if !complain(expected, boundCase{}.field(path), rule.Message) {
					t.Errorf("no row has the rule at %s %q: %s", kind, path, rule.Message)
				}
			}
		})
	}
}

// expectedErrors is what the tables expect to be told, by Kind.
func expectedErrors() map[string][]string {
	return map[string][]string{
		"AgentRun": slices.Concat(agentRunCreates.errors(), agentRunUpdates.errors(), oldRunUpdates.errors()),
		"ToolBinding": slices.Concat(
			httpToolCreates.errors(), mcpToolCreates.errors(), httpAddresses().errors(), mcpAddresses().errors()),
		"ModelBinding": slices.Concat(modelCreates.errors(), scriptCreates.errors(), modelAddresses().errors()),
		"RunPolicy":    runPolicyCreates.errors(),
		"Approval":     approvalUpdates.errors(),
		"Turn":         slices.Concat(turnCreates.errors(), turnUpdates.errors()),
	}
}

func schemaOf(t *testing.T, kind string) schema {
	t.Helper()
	plural := strings.TrimSuffix(strings.ToLower(kind)+"s", "ys")
	if plural != strings.ToLower(kind)+"s" {
		plural += "ies"
	}
	file := filepath.Join(crdDirectory, "interlock.dev_"+plural+".yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return schema{*crd.Spec.Versions[0].Schema.OpenAPIV3Schema}
}

// walk calls visit for s and all that is below it, but for metadata, which is not ours.
func walk(s schema, path string, visit func(string, schema)) {
	visit(path, s)
	if s.Items != nil {
		walk(schema{*s.Items.Schema}, path+"[]", visit)
	}
	for name, p := range s.Properties {
		if path != "" || (name != "metadata" && name != "apiVersion" && name != "kind") {
			walk(schema{p}, strings.TrimPrefix(path+"."+name, "."), visit)
		}
	}
}

func (s schema) isBounded() bool {
	switch s.Type {
	case "string":
		return s.MaxLength != nil || len(s.Enum) > 0 || s.Format == "date-time"
	case "array":
		return s.MaxItems != nil
	case "object":
		if s.AdditionalProperties != nil {
			return s.MaxProperties != nil && schema{*s.AdditionalProperties.Schema}.isBounded()
		}
		return len(s.Properties) > 0 && s.XPreserveUnknownFields == nil
	}
	return true
}

func (s schema) bound() bound {
	whole := func(f *float64) *int64 {
		if f == nil {
			return nil
		}
		return new(int64(*f))
	}
	b := bound{
		MinLength: s.MinLength, MaxLength: s.MaxLength, MinItems: s.MinItems, MaxItems: s.MaxItems,
		Minimum: whole(s.Minimum), Maximum: whole(s.Maximum), Pattern: s.Pattern, Required: s.Required,
	}
	for _, v := range s.Enum {
		b.Enum = append(b.Enum, strings.Trim(string(v.Raw), `"`))
	}
	if s.Default != nil {
		b.Default = string(s.Default.Raw)
	}
	return b
}
