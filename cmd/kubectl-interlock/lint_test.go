// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func aBinding(namespace, name, schema string) *v1alpha1.ToolBinding {
	return &v1alpha1.ToolBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.ToolBindingSpec{
			Effect: v1alpha1.EffectReadOnly, InputSchema: &runtime.RawExtension{Raw: []byte(schema)},
		},
	}
}

func TestLint_looksWhereItIsTold(t *testing.T) {
	weak := "{\"type\":\"object\",\"properties\":{\"a\u202e\":{\"type\":\"string\"}}}"
	fromServer := aBinding("shop", "mcp", "")
	fromServer.Spec.InputSchema = nil
	fromServer.Status.Definition = &v1alpha1.ToolDefinition{InputSchema: &runtime.RawExtension{Raw: []byte(`{"type":"object","additionalProperties":true}`)}}
	for name, test := range map[string]struct {
		args                   []string
		wantOut, want, wantErr string
	}{
		"one that is fine": {args: []string{"lint", "fine"}, want: "Found nothing in 1 ToolBindings.\n"},
		"one that is weak": {
			args:    []string{"lint", "weak"},
			wantOut: "shop/weak /inputSchema/properties/a\\u{202e}: text of any kind and length: set maxLength, enum, const, format or pattern\n",
			wantErr: "found 1, in 1 ToolBindings",
		},
		"one whose schema is the server's": {
			args:    []string{"lint", "mcp"},
			wantOut: "shop/mcp /inputSchema: an object with any keys: list its properties, or set additionalProperties to a schema or to false\n",
			wantErr: "found 1",
		},
		"all of the namespace": {
			args: []string{"lint"}, wantErr: "found 2, in 3 ToolBindings",
			wantOut: "shop/mcp /inputSchema: an object with any keys: list its properties, or set additionalProperties to a schema or to false\n" +
				"shop/weak /inputSchema/properties/a\\u{202e}: text of any kind and length: set maxLength, enum, const, format or pattern\n",
		},
		"files": {
			args: []string{"lint", "-f", "testdata/lint.yaml", "testdata/lint_more.yaml"}, wantErr: "found 3, in 3 ToolBindings",
			want: "later: its schema is the MCP server's, and not known here\n",
			wantOut: "hr/mail /approval/policy: this write is made without asking anybody\n" +
				"hr/mail /inputSchema/properties/path: by its name it is a file path, and it can be any: set enum or pattern\n" +
				"listed /inputSchema/properties/numbers: a list without end: set maxItems\n",
		},
		"a file without any": {args: []string{"lint", "-f", "testdata/deny.yaml"}, wantErr: "no ToolBinding in these files"},
		"no file":            {args: []string{"lint", "-f", "testdata/none.yaml"}, wantErr: "no such file"},
		"one in all":         {args: []string{"lint", "-A", "weak"}, wantErr: "name one ToolBinding"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(aBinding("shop", "fine", `{"type":"object"}`), aBinding("shop", "weak", weak), fromServer, aBinding("hr", "open", weak))
			out, errOut, err := f.run(t, test.args...)
			checkError(t, err, test.wantErr)
			if out != test.wantOut {
				t.Errorf("found:\n%swant:\n%s", out, test.wantOut)
			}
			if errOut != test.want {
				t.Errorf("said %q, want %q", errOut, test.want)
			}
		})
	}
	_, _, err := newFixture(aBinding("shop", "weak", weak), aBinding("hr", "open", weak)).run(t, "lint", "--all-namespaces")
	checkError(t, err, "found 2, in 2 ToolBindings")
}
