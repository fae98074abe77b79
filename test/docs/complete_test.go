// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Each Kind has a page, and the page has a word on each of its fields.
func TestDocs_haveEachField(t *testing.T) {
	crds, err := filepath.Glob(filepath.Join(repository, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(crds) == 0 {
		t.Fatalf("looking for CRDs: %d found, %v", len(crds), err)
	}
	for _, file := range crds {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal([]byte(read(t, file)), &crd); err != nil {
			t.Fatal(err)
		}
		page := filepath.Join("docs", "spec", crd.Spec.Names.Plural+".md")
		text := read(t, filepath.Join(repository, page))
		properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
		for _, part := range []string{"spec", "status"} {
			fields(properties[part], part, func(path string) {
				if !strings.Contains(text, "`"+path+"`") {
					t.Errorf("%s has nothing on `%s`", page, path)
				}
			})
		}
	}
}

// fields visits the fields below a schema. Those of a condition are the same in all of Kubernetes.
func fields(s apiextensionsv1.JSONSchemaProps, path string, visit func(string)) {
	for name, p := range s.Properties {
		field := path + "." + name
		visit(field)
		if p.Items != nil {
			p, field = *p.Items.Schema, field+"[]"
		}
		if name != "conditions" {
			fields(p, field, visit)
		}
	}
}

// What the operator says in one word, it says nowhere else what to do about: the pages must.
func TestDocs_haveEachReasonAndCode(t *testing.T) {
	pages := map[string]string{
		"api/v1alpha1/agentrun_types.go":     "agentruns.md",
		"api/v1alpha1/toolbinding_types.go":  "toolbindings.md",
		"api/v1alpha1/modelbinding_types.go": "modelbindings.md",
		"api/v1alpha1/runpolicy_types.go":    "runpolicies.md",
		"internal/run":                       "agentruns.md",
		"internal/policy":                    "agentruns.md",
		"internal/model":                     "agentruns.md",
		"internal/tool":                      "agentruns.md",
		"internal/controller":                "agentruns.md",
	}
	for source, page := range pages {
		text := read(t, filepath.Join(repository, "docs", "spec", page))
		for word, where := range words(t, filepath.Join(repository, source)) {
			if !strings.Contains(text, "`"+word+"`") {
				t.Errorf("docs/spec/%s has nothing on `%s` (%s)", page, word, where)
			}
		}
	}
}

// wordName is what a constant is called that holds a reason, a detail or a code.
var wordName = regexp.MustCompile(`^([Rr]eason|[Dd]etail|[Cc]ode|Termination)[A-Z]`)

// words finds the reasons and codes in Go files: constants that are called so, and what is put into a field Code.
func words(t *testing.T, source string) map[string]string {
	t.Helper()
	found := map[string]string{}
	files := token.NewFileSet()
	add := func(e ast.Expr) {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if word, err := strconv.Unquote(literal.Value); err == nil && word != "" {
				found[word] = files.Position(literal.Pos()).String()
			}
		}
	}
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		isTest := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test")
		if err != nil || entry.IsDir() || isTest || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if wordName.MatchString(name.Name) && i < len(n.Values) {
						add(n.Values[i])
					}
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
					add(n.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("looking for reasons and codes in %s: %d found, %v", source, len(found), err)
	}
	return found
}

var flagPattern = regexp.MustCompile(`flags\.\w+Var\(&[\w.]+, "([a-z-]+)"`)

func TestDocs_haveEachFlag(t *testing.T) {
	text := read(t, filepath.Join(repository, "docs", "operations.md"))
	flags := flagPattern.FindAllStringSubmatch(read(t, filepath.Join(repository, "cmd", "interlock", "main.go")), -1)
	if len(flags) == 0 {
		t.Fatal("no flags were found")
	}
	for _, flag := range flags {
		if !strings.Contains(text, "`--"+flag[1]+"`") {
			t.Errorf("docs/operations.md has nothing on --%s", flag[1])
		}
	}
}

var targetPattern = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `)

func TestDocs_haveEachMakeTarget(t *testing.T) {
	text := read(t, filepath.Join(repository, "DEVELOPMENT.md"))
	for _, target := range targetPattern.FindAllStringSubmatch(read(t, filepath.Join(repository, "Makefile")), -1) {
		if !strings.Contains(text, "`make "+target[1]+"`") {
			t.Errorf("DEVELOPMENT.md has nothing on make %s", target[1])
		}
	}
}

// Commands that are shown name files that are there.
func TestDocs_commandsNameWhatIsThere(t *testing.T) {
	path := regexp.MustCompile(`(?:^| )(?:\./)?((?:config|examples|docs|hack|toolservers|test|internal|cmd|api)/[\w./-]+)`)
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			if b.language != "console" {
				continue
			}
			for _, match := range path.FindAllStringSubmatch(b.text, -1) {
				if _, err := os.Stat(filepath.Join(repository, strings.TrimSuffix(match[1], "/..."))); err != nil {
					t.Errorf("%s:%d names %s, which is not there", page, b.line, match[1])
				}
			}
		}
	}
}
