// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/text"
	"github.com/interlock-dev/interlock/internal/toollint"
)

type lintOptions struct {
	files         []string
	allNamespaces bool
	name          string
}

func lintCommand(a *app) *cobra.Command {
	var o lintOptions
	c := &cobra.Command{
		Use:   "lint [NAME | -f FILE...]",
		Short: "Find what ToolBindings leave too open",
		Long: "Find what the schemas and rules of ToolBindings leave too open: of one, of all in a namespace, of all there are, or of those in " +
			"files (- is the standard input). The exit code is 1 if something was found.",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(o.files) > 0:
				// A shell puts the other files that a pattern matches here.
				o.files = append(o.files, args...)
			case len(args) > 1 || (len(args) == 1 && o.allNamespaces):
				return errors.New("name one ToolBinding, or use --all-namespaces or -f")
			case len(args) == 1:
				o.name = args[0]
			}
			return a.lint(c.Context(), o)
		},
	}
	c.Flags().StringSliceVarP(&o.files, "filename", "f", nil, "Read ToolBindings from these files, and ask no cluster.")
	c.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Look at the ToolBindings of all namespaces.")
	return c
}

func (a *app) lint(ctx context.Context, o lintOptions) error {
	bindings, err := a.bindings(ctx, o)
	if err != nil {
		return err
	}
	found := 0
	for _, b := range bindings {
		name := b.Name
		if b.Namespace != "" {
			name = b.Namespace + "/" + name
		}
		tool := toolOf(&b)
		if len(tool.Schema) == 0 {
			a.errOut.printf("%s: its schema is the MCP server's, and not known here\n", text.Visible(name))
		}
		for _, finding := range toollint.Lint(tool) {
			found++
			a.out.printf("%s\n", text.Visible(name+" "+finding.String()))
		}
	}
	if found > 0 {
		return fmt.Errorf("found %d, in %d ToolBindings", found, len(bindings))
	}
	a.errOut.printf("Found nothing in %d ToolBindings.\n", len(bindings))
	return nil
}

// toolOf says a binding in the linter's words.
func toolOf(b *v1alpha1.ToolBinding) toollint.Tool {
	t := toollint.Tool{Effect: string(b.Spec.Effect), Protocol: string(b.Spec.Protocol), Idempotency: string(b.Spec.Idempotency)}
	if b.Spec.Approval != nil {
		t.Approval = string(b.Spec.Approval.Policy)
	}
	switch {
	case b.Spec.InputSchema != nil:
		t.Schema = b.Spec.InputSchema.Raw
	case b.Status.Definition != nil && b.Status.Definition.InputSchema != nil:
		t.Schema = b.Status.Definition.InputSchema.Raw
	}
	return t
}

func (a *app) bindings(ctx context.Context, o lintOptions) ([]v1alpha1.ToolBinding, error) {
	if len(o.files) > 0 {
		return a.bindingsInFiles(o.files)
	}
	c, namespace, err := a.cluster.connect()
	if err != nil {
		return nil, err
	}
	if o.name != "" {
		var b v1alpha1.ToolBinding
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.name}, &b); err != nil {
			return nil, fmt.Errorf("reading the ToolBinding: %w", err)
		}
		return []v1alpha1.ToolBinding{b}, nil
	}
	if o.allNamespaces {
		namespace = ""
	}
	var list v1alpha1.ToolBindingList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the ToolBindings: %w", err)
	}
	return list.Items, nil
}

func (a *app) bindingsInFiles(files []string) ([]v1alpha1.ToolBinding, error) {
	var all []v1alpha1.ToolBinding
	for _, file := range files {
		in := io.NopCloser(a.in)
		if file != "-" {
			opened, err := os.Open(filepath.Clean(file))
			if err != nil {
				return nil, err
			}
			in = opened
		}
		bindings, err := readBindings(in)
		_ = in.Close()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		all = append(all, bindings...)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no ToolBinding in these files")
	}
	return all, nil
}

// readBindings takes the ToolBindings from a stream of YAML documents, and leaves out what is of another kind.
func readBindings(in io.Reader) ([]v1alpha1.ToolBinding, error) {
	var all []v1alpha1.ToolBinding
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var content map[string]any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, err
		}
		take := func(o runtime.Object) error {
			b, err := bindingIn(o)
			if b != nil {
				all = append(all, *b)
			}
			return err
		}
		u := &unstructured.Unstructured{Object: content}
		if u.IsList() {
			err = u.EachListItem(take)
		} else {
			err = take(u)
		}
		if err != nil {
			return nil, err
		}
	}
}

// bindingIn is nil if o is of another kind.
func bindingIn(o runtime.Object) (*v1alpha1.ToolBinding, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || u.GroupVersionKind() != v1alpha1.GroupVersion.WithKind("ToolBinding") {
		return nil, nil
	}
	document, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	b := &v1alpha1.ToolBinding{}
	if err := json.Unmarshal(document, b); err != nil {
		return nil, err
	}
	return b, nil
}
