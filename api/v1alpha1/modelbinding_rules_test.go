// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func aModel() *v1alpha1.ModelBinding {
	return &v1alpha1.ModelBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"},
		Spec:       v1alpha1.ModelBindingSpec{OpenAI: &v1alpha1.OpenAIModel{Model: "large"}},
	}
}

func aScript() *v1alpha1.ModelBinding {
	return &v1alpha1.ModelBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"},
		Spec: v1alpha1.ModelBindingSpec{Scripted: &v1alpha1.ScriptedModel{Turns: []v1alpha1.ScriptedTurn{
			{Calls: []v1alpha1.ScriptedCall{{Tool: "search"}}},
			{Text: "That is all."},
		}}},
	}
}

const wantModelName = ": the name of a ModelBinding has at most 63 of a-z, 0-9 and '-', without dots"

var modelCreates = table[*v1alpha1.ModelBinding]{
	"it has all that it needs":             {mutate: func(*v1alpha1.ModelBinding) {}},
	"its name is as long as a name can be": {mutate: func(b *v1alpha1.ModelBinding) { b.Name = strings.Repeat("x", 63) }},
	"its name is too long": {
		mutate:     func(b *v1alpha1.ModelBinding) { b.Name = strings.Repeat("x", 64) },
		wantErrors: []string{wantModelName},
	},
	"its name has a dot": {
		mutate:     func(b *v1alpha1.ModelBinding) { b.Name = "large.1" },
		wantErrors: []string{wantModelName},
	},
	"what is cached costs as much": {mutate: func(b *v1alpha1.ModelBinding) {
		b.Spec.Price = &v1alpha1.ModelPrice{Input: "0.3", CachedInput: "0.30", Output: "0"}
	}},
	"what is cached costs more": {
		mutate: func(b *v1alpha1.ModelBinding) {
			b.Spec.Price = &v1alpha1.ModelPrice{Input: "9", CachedInput: "10", Output: "1"}
		},
		wantErrors: []string{"spec.price: cachedInput must not be above input: before a request, all of it counts as not cached"},
	},
	"it is two models": {
		mutate:     func(b *v1alpha1.ModelBinding) { b.Spec.Scripted = aScript().Spec.Scripted },
		wantErrors: []string{"spec: exactly one of the fields in [openai scripted] must be set"},
	},
	"it is no model": {
		mutate:     func(b *v1alpha1.ModelBinding) { b.Spec = v1alpha1.ModelBindingSpec{MaxOutputTokens: 1} },
		wantErrors: []string{"spec: exactly one of the fields in [openai scripted] must be set"},
	},
}

var scriptCreates = table[*v1alpha1.ModelBinding]{
	"it has all that it needs":   {mutate: func(*v1alpha1.ModelBinding) {}},
	"a turn may say nothing":     {mutate: func(b *v1alpha1.ModelBinding) { b.Spec.Scripted.Turns[0] = v1alpha1.ScriptedTurn{} }},
	"an ID may be empty":         {mutate: func(b *v1alpha1.ModelBinding) { firstCall(b).ID = new("") }},
	"raw arguments may be empty": {mutate: func(b *v1alpha1.ModelBinding) { firstCall(b).RawArguments = new("") }},
	"a call has arguments of both kinds": {
		mutate: func(b *v1alpha1.ModelBinding) {
			firstCall(b).Arguments, firstCall(b).RawArguments = &runtime.RawExtension{Raw: []byte(`{}`)}, new("{}")
		},
		wantErrors: []string{"spec.scripted.turns[0].calls[0]: set arguments or rawArguments, not both"},
	},
	"the script is in two places": {
		mutate: func(b *v1alpha1.ModelBinding) {
			b.Spec.Scripted.ConfigMap = &v1alpha1.ConfigMapKey{Name: "scripts", Key: "search.yaml"}
		},
		wantErrors: []string{"spec.scripted: exactly one of the fields in [turns configMap] must be set"},
	},
	"the script is nowhere": {
		mutate:     func(b *v1alpha1.ModelBinding) { b.Spec.Scripted.Turns = nil },
		wantErrors: []string{"spec.scripted: exactly one of the fields in [turns configMap] must be set"},
	},
	"it expects a tool twice": {
		mutate: func(b *v1alpha1.ModelBinding) {
			b.Spec.Scripted.Turns[0].Expect = &v1alpha1.ScriptedExpectation{Tools: []string{"search", "search"}}
		},
		wantErrors: []string{`spec.scripted.turns[0].expect.tools[1]: Duplicate value: "search"`},
	},
}

func firstCall(b *v1alpha1.ModelBinding) *v1alpha1.ScriptedCall {
	return &b.Spec.Scripted.Turns[0].Calls[0]
}

func modelAddresses() table[*v1alpha1.ModelBinding] {
	return addressRows(
		"spec.openai: baseURL must begin with https://; to send prompts and the API key in the clear, set plaintext: Allowed",
		"spec.openai.baseURL: baseURL must be an http or https address with a host, and without credentials, query and fragment",
		func(b *v1alpha1.ModelBinding, url string, p v1alpha1.PlaintextPolicy) {
			b.Spec.OpenAI.BaseURL, b.Spec.OpenAI.Plaintext = url, p
		})
}

func TestModelBinding_create(t *testing.T) {
	t.Run("openai", func(t *testing.T) { checkCreate(t, aModel, modelCreates) })
	t.Run("scripted", func(t *testing.T) { checkCreate(t, aScript, scriptCreates) })
}

func TestModelBinding_address(t *testing.T) { checkCreate(t, aModel, modelAddresses()) }

func TestModelBinding_canBeChanged(t *testing.T) {
	checkUpdate(t, aModel, table[*v1alpha1.ModelBinding]{
		"the model":    {mutate: func(b *v1alpha1.ModelBinding) { b.Spec.OpenAI.Model = "small" }},
		"the provider": {mutate: func(b *v1alpha1.ModelBinding) { b.Spec = aScript().Spec }},
		"the key": {mutate: func(b *v1alpha1.ModelBinding) {
			b.Spec.OpenAI.APIKeySecret = &v1alpha1.SecretKey{Name: "keys", Key: "large"}
		}},
	})
}

func TestModelBinding_isFilledIn(t *testing.T) {
	b := aModel()
	check(t, api.Create(t.Context(), b, client.DryRunAll), nil)
	want := aModel().Spec
	want.MaxOutputTokens, want.TimeoutSeconds = 4096, 120
	want.Retry = v1alpha1.RetryPolicy{MaxAttempts: 3, BackoffMilliseconds: 1000}
	want.Concurrency.Max = 16
	if diff := cmp.Diff(want, b.Spec); diff != "" {
		t.Errorf("what is filled in differs (-want +got):\n%s", diff)
	}
}

func TestModelBinding_unknownFieldsAreRefused(t *testing.T) {
	for path, where := range map[string]string{"spec": "spec.apiKey", "spec.openai": "spec.openai.apiKey", "spec.openai.apiKeySecret": "spec.openai.apiKeySecret.apiKey"} {
		o := changed(t, []*unstructured.Unstructured{read(t, "modelbinding_openai.yaml")}, path, withField("apiKey", "x"))
		check(t, api.Create(t.Context(), o, client.DryRunAll), []string{`unknown field "` + where + `"`})
	}
}
