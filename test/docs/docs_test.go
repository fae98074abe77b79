// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs_test holds the documentation to what is there: the API server takes every object that is shown or shipped as
// an example, and every link within the repository leads somewhere.
package docs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// api is the API server that the tests share. It refuses unknown and repeated fields, as kubectl has it do.
var api client.Client

// repository is the root of the source tree.
var repository = filepath.Join("..", "..")

func TestMain(m *testing.M) { os.Exit(withAPIServer(m)) }

func withAPIServer(m *testing.M) int {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "These tests need an API server, and KUBEBUILDER_ASSETS says of none: run `make test-e2e`.")
		return 1
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(repository, "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	defer func() { _ = env.Stop() }()
	if err == nil {
		config.QPS = -1
		api, err = client.New(config, client.Options{Scheme: runtime.NewScheme(), FieldValidation: metav1.FieldValidationStrict})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	return m.Run()
}

func TestDocs_theAPIServerTakesWhatIsShown(t *testing.T) {
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			if !b.isYAML() {
				continue
			}
			for _, d := range documents(t, b.text) {
				t.Run(fmt.Sprintf("%s:%d %s", page, b.line, d.GetName()), func(t *testing.T) {
					err := d.apply(t)
					switch {
					case b.isInvalid() && err == nil:
						t.Errorf("it is marked as invalid, and the API server takes it:\n%s", b.text)
					case !b.isInvalid() && err != nil:
						t.Errorf("the API server does not take it: %v\n%s", err, b.text)
					}
				})
			}
		}
	}
}

func TestDocs_theAPIServerTakesWhatIsShipped(t *testing.T) {
	for _, folder := range []string{"config/samples", "examples/quickstart", "examples/approval"} {
		files, err := filepath.Glob(filepath.Join(repository, folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("there is nothing in %s: %v", folder, err)
		}
		for _, file := range files {
			for _, d := range documents(t, read(t, file)) {
				t.Run(strings.TrimPrefix(file, repository)+" "+d.GetName(), func(t *testing.T) {
					if err := d.apply(t); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

func TestDocs_linksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		for _, l := range links(t, page) {
			file, fragment, _ := strings.Cut(l.target, "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(repository, target)); err != nil {
				t.Errorf("%s:%d links to %s, which is not there", page, l.line, l.target)
			} else if fragment != "" && !anchors(t, target)[fragment] {
				t.Errorf("%s:%d links to %s, where there is no such heading", page, l.line, l.target)
			}
		}
	}
}

// A document is an object, and the text that it was written as.
type document struct {
	unstructured.Unstructured
	text []byte
}

// documents are the objects in a YAML text. What has no apiVersion is a piece of one and is left out, as is what only kustomize
// reads.
func documents(t *testing.T, text string) []document {
	t.Helper()
	var all []document
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		one, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		d := document{text: one}
		if err == nil {
			err = yaml.Unmarshal(one, &d.Object)
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if d.GetAPIVersion() != "" && d.GetKind() != "Kustomization" {
			all = append(all, d)
		}
	}
}

// apply has the API server check d as kubectl has it: strictly, and here without storing it.
func (d document) apply(t *testing.T) error {
	t.Helper()
	o := d.DeepCopy()
	if o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	// A namespace has to be there for what is in it.
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetName(o.GetNamespace())
	if err := api.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if o.GetName() == "" {
		return api.Create(t.Context(), o, client.DryRunAll)
	}
	return api.Patch(t.Context(), o, client.RawPatch(types.ApplyPatchType, d.text),
		client.DryRunAll, client.ForceOwnership, client.FieldOwner("docs"))
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
