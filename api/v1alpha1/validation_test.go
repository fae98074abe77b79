// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1_test puts the Kinds to a real API server: what it takes, what it refuses, with which words, and what it
// fills in.
package v1alpha1_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// api is the API server that all tests share. It refuses unknown and repeated fields, as kubectl has it do.
var api client.Client

// namespace is the one that all objects are in. What a test stores there it takes away again.
const namespace = "validation"

var crdDirectory = filepath.Join("..", "..", "config", "crd", "bases")

func TestMain(m *testing.M) {
	os.Exit(withControlPlane(m))
}

func withControlPlane(m *testing.M) int {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "These tests need an API server, and KUBEBUILDER_ASSETS says of none: run `make test-api`.")
		return 1
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{crdDirectory}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	defer func() { _ = env.Stop() }()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server, or giving it the CRDs:", err)
		return 1
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	err = errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err == nil {
		api, err = client.New(config, client.Options{Scheme: scheme, FieldValidation: metav1.FieldValidationStrict})
	}
	if err == nil {
		err = api.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "preparing the API server:", err)
		return 1
	}
	return m.Run()
}

// A row is a change to a valid object, and what the API server says of the changed one.
type row[T client.Object] struct {
	mutate func(T)
	// wantErrors are parts of what the API server says, one for each thing that it finds wrong. None: it takes the object.
	wantErrors []string
}

// A table is rows by a sentence.
type table[T client.Object] map[string]row[T]

// errors gives all that the rows of a table expect to be told.
func (rows table[T]) errors() []string {
	var all []string
	for _, r := range rows {
		all = append(all, r.wantErrors...)
	}
	return all
}

// checkCreate creates base with each row's change; nothing is stored.
func checkCreate[T client.Object](t *testing.T, base func() T, rows table[T]) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			o := base()
			r.mutate(o)
			check(t, api.Create(t.Context(), o, client.DryRunAll), r.wantErrors)
		})
	}
}

// checkUpdate stores base, and makes each row's change to it; no change is stored.
func checkUpdate[T client.Object](t *testing.T, base func() T, rows table[T]) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			o := base()
			store(t, o)
			r.mutate(o)
			check(t, api.Update(t.Context(), o, client.DryRunAll), r.wantErrors)
		})
	}
}

// store creates o for the length of a test.
func store(t *testing.T, o client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), o); err != nil {
		t.Fatalf("creating %s: %v", o.GetName(), err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), o); err != nil {
			t.Errorf("deleting %s: %v", o.GetName(), err)
		}
	})
}

// check compares what the API server said with what it should have said: all of it, and no more.
func check(t *testing.T, err error, want []string) {
	t.Helper()
	if len(want) == 0 {
		if err != nil {
			t.Fatalf("it was refused: %v", err)
		}
		return
	}
	got := complaints(err)
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.Contains(g, w) }) {
			t.Errorf("the API server does not say\n\t%s\nbut\n\t%s", w, strings.Join(got, "\n\t"))
		}
	}
	if len(got) != len(want) {
		t.Errorf("the API server finds %d things wrong, and should find %d. It says\n\t%s", len(got), len(want), strings.Join(got, "\n\t"))
	}
}

// complaints gives the things that err says are wrong with an object, each after its field.
func complaints(err error) []string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	switch {
	case err == nil:
		return nil
	case !ok || (!apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err)):
		return []string{"no complaint about the object: " + err.Error()}
	case status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0:
		return []string{err.Error()}
	}
	var all []string
	for _, c := range status.ErrStatus.Details.Causes {
		// Where one thing is wrong, rules that need to know it are left out, and the API server says so.
		if !strings.Contains(c.Message, "some validation rules were not checked") {
			all = append(all, strings.TrimPrefix(c.Field, "<nil>")+": "+invalidValue.ReplaceAllString(c.Message, ""))
		}
	}
	return all
}

// invalidValue is what the API server says before the message of a rule: the value, or a name for it.
var invalidValue = regexp.MustCompile(`^Invalid value: ("([^"\\]|\\.)*": |\d+: )?`)

// complain reports whether one of all is about field, or what is in it, and has text.
func complain(all []string, field, text string) bool {
	return slices.ContainsFunc(all, func(c string) bool {
		about, message, _ := strings.Cut(c, ": ")
		return strings.HasPrefix(index.ReplaceAllString(about, ""), field) && strings.Contains(message, text)
	})
}

// index is a place in a list, within the name of a field.
var index = regexp.MustCompile(`\[[^]]*\]`)

// read reads an object of testdata, of which the tests make others.
func read(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// parse makes an object of YAML, with whatever is in it.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(asJSON); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	o.SetNamespace(namespace)
	return o
}
