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

func anHTTPTool() *v1alpha1.ToolBinding {
	return &v1alpha1.ToolBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "search"},
		Spec: v1alpha1.ToolBindingSpec{
			Description: "Searches.", Effect: v1alpha1.EffectReadOnly,
			InputSchema: &runtime.RawExtension{Raw: []byte(`{"type":"object"}`)},
			Backend:     v1alpha1.ToolBackend{HTTP: &v1alpha1.HTTPBackend{URL: "https://search.tools.svc", Tool: "search"}},
		},
	}
}

func anMCPTool() *v1alpha1.ToolBinding {
	return &v1alpha1.ToolBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "search"},
		Spec: v1alpha1.ToolBindingSpec{
			Effect:  v1alpha1.EffectReadOnly,
			Backend: v1alpha1.ToolBackend{MCP: &v1alpha1.MCPBackend{URL: "https://search.tools.svc/mcp", Tool: "search"}},
		},
	}
}

const wantToolName = ": the name of a ToolBinding is the tool's name for the model: at most 63 of a-z, 0-9 and '-', without dots"

var httpToolCreates = table[*v1alpha1.ToolBinding]{
	"it has all that it needs":             {mutate: func(*v1alpha1.ToolBinding) {}},
	"its name is as long as a name can be": {mutate: func(b *v1alpha1.ToolBinding) { b.Name = strings.Repeat("x", 63) }},
	"its name is too long": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Name = strings.Repeat("x", 64) },
		wantErrors: []string{wantToolName},
	},
	"its name has a dot": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Name = "search.docs" },
		wantErrors: []string{wantToolName},
	},
	"it has no description": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Spec.Description = "" },
		wantErrors: []string{": spec.description is required for an http or agent backend: tell the model what the tool does and when to use it"},
	},
	"it has no schema": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Spec.InputSchema = nil },
		wantErrors: []string{"spec: inputSchema is required for an http or agent backend: write the JSON Schema of the tool's arguments"},
	},
	"it has two backends": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Spec.Backend.MCP = anMCPTool().Spec.Backend.MCP },
		wantErrors: []string{"spec.backend: exactly one of the fields in [http mcp agent] must be set"},
	},
	"its child runs have no model to ask": {
		mutate: func(b *v1alpha1.ToolBinding) {
			b.Spec.Backend = v1alpha1.ToolBackend{Agent: &v1alpha1.AgentBackend{Model: &v1alpha1.ModelSelection{}}}
		},
		wantErrors: []string{"spec.backend.agent.model: exactly one of the fields in [name router] must be set"},
	},
	"it starts child runs": {mutate: func(b *v1alpha1.ToolBinding) { b.Spec.Backend = v1alpha1.ToolBackend{Agent: &v1alpha1.AgentBackend{}} }},
	"it starts child runs one by one": {mutate: func(b *v1alpha1.ToolBinding) {
		b.Spec.Backend = v1alpha1.ToolBackend{Agent: &v1alpha1.AgentBackend{}}
		b.Spec.Effect, b.Spec.Idempotency = v1alpha1.EffectWrite, v1alpha1.IdempotencyKey
	}},
	"it starts child runs that may be lost": {
		mutate: func(b *v1alpha1.ToolBinding) {
			b.Spec.Backend = v1alpha1.ToolBackend{Agent: &v1alpha1.AgentBackend{}}
			b.Spec.Effect, b.Spec.Idempotency = v1alpha1.EffectWrite, v1alpha1.IdempotencyNone
		},
		wantErrors: []string{"spec: idempotency Key needs an http or an agent backend"},
	},
	"it starts child runs that may cost nothing": {
		mutate: func(b *v1alpha1.ToolBinding) {
			b.Spec.Backend = v1alpha1.ToolBackend{Agent: &v1alpha1.AgentBackend{Limits: v1alpha1.RunLimits{MaxCost: "0"}}}
		},
		wantErrors: []string{"spec.backend.agent.limits.maxCost: maxCost must be above 0; to limit nothing but tokens, leave it out"},
	},
	"it reads, and people are asked": {mutate: func(b *v1alpha1.ToolBinding) {
		b.Spec.Approval = &v1alpha1.ApprovalPolicy{Policy: v1alpha1.ApprovalAlways}
	}},
	"it writes": {mutate: func(b *v1alpha1.ToolBinding) {
		b.Spec.Effect, b.Spec.Idempotency, b.Spec.Protocol = v1alpha1.EffectWrite, v1alpha1.IdempotencyKey, v1alpha1.ProtocolPreviewCommit
	}},
	"it writes, and does not say what is known of operations": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Spec.Effect = v1alpha1.EffectWrite },
		wantErrors: []string{"spec: " + wantIdempotency},
	},
	"it reads, and says what is known of operations": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Spec.Idempotency = v1alpha1.IdempotencyNone },
		wantErrors: []string{"spec: " + wantIdempotency},
	},
	"it reads, and is previewed": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Spec.Protocol = v1alpha1.ProtocolPreviewCommit },
		wantErrors: []string{"spec: " + wantPreview},
	},
	"its audience could be the API server's": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Spec.Backend.HTTP.Audience = "https://kubernetes.default.svc" },
		wantErrors: []string{"spec.backend.http.audience: spec.backend.http.audience in body should match"},
	},
}

const (
	wantIdempotency = "idempotency is required for effect Write, and only there: Key if the server does each operation ID once and says what became of it, None if it does not"
	wantPreview     = "protocol PreviewCommit is for effect Write and an http backend: MCP has no previews"
)

var mcpToolCreates = table[*v1alpha1.ToolBinding]{
	"the server describes it": {mutate: func(*v1alpha1.ToolBinding) {}},
	"the binding describes it": {mutate: func(b *v1alpha1.ToolBinding) {
		b.Spec.Description, b.Spec.InputSchema = "Searches.", anHTTPTool().Spec.InputSchema
	}},
	"it writes": {mutate: func(b *v1alpha1.ToolBinding) {
		b.Spec.Effect, b.Spec.Idempotency = v1alpha1.EffectWrite, v1alpha1.IdempotencyNone
	}},
	"it writes, and could look up": {
		mutate: func(b *v1alpha1.ToolBinding) {
			b.Spec.Effect, b.Spec.Idempotency = v1alpha1.EffectWrite, v1alpha1.IdempotencyKey
		},
		wantErrors: []string{"spec: idempotency Key needs an http or an agent backend, since MCP has no way to ask what became of a call; an agent backend is always Key"},
	},
	"it writes, and is previewed": {
		mutate: func(b *v1alpha1.ToolBinding) {
			b.Spec.Effect, b.Spec.Idempotency, b.Spec.Protocol = v1alpha1.EffectWrite, v1alpha1.IdempotencyNone, v1alpha1.ProtocolPreviewCommit
		},
		wantErrors: []string{"spec: " + wantPreview},
	},
	"it has no backend": {
		mutate:     func(b *v1alpha1.ToolBinding) { b.Spec.Backend.MCP = nil; b.Spec.Description = "Searches." },
		wantErrors: []string{"spec.backend: Required value"},
	},
}

const (
	wantTLS         = ": url must begin with https://; to send calls in the clear, set plaintext: Allowed"
	wantHTTPAddress = ": url must be an http or https address with a host, and without credentials, query and fragment"
	wantMCPAddress  = ": url must be an http or https address with a host, and without credentials and fragment"
)

func httpAddresses() table[*v1alpha1.ToolBinding] {
	return addressRows("spec.backend.http"+wantTLS, "spec.backend.http.url"+wantHTTPAddress, func(b *v1alpha1.ToolBinding, url string, p v1alpha1.PlaintextPolicy) {
		b.Spec.Backend.HTTP.URL, b.Spec.Backend.HTTP.Plaintext = url, p
	})
}

// An MCP server's address may have a query.
func mcpAddresses() table[*v1alpha1.ToolBinding] {
	rows := addressRows("spec.backend.mcp"+wantTLS, "spec.backend.mcp.url"+wantMCPAddress, func(b *v1alpha1.ToolBinding, url string, p v1alpha1.PlaintextPolicy) {
		b.Spec.Backend.MCP.URL, b.Spec.Backend.MCP.Plaintext = url, p
	})
	for sentence, r := range rows {
		if strings.Contains(sentence, "?") {
			rows[sentence] = row[*v1alpha1.ToolBinding]{mutate: r.mutate}
		}
	}
	return rows
}

func TestToolBinding_create(t *testing.T) {
	t.Run("http", func(t *testing.T) { checkCreate(t, anHTTPTool, httpToolCreates) })
	t.Run("mcp", func(t *testing.T) { checkCreate(t, anMCPTool, mcpToolCreates) })
}

func TestToolBinding_address(t *testing.T) {
	t.Run("http", func(t *testing.T) { checkCreate(t, anHTTPTool, httpAddresses()) })
	t.Run("mcp", func(t *testing.T) { checkCreate(t, anMCPTool, mcpAddresses()) })
}

func TestToolBinding_canBeChanged(t *testing.T) {
	checkUpdate(t, anHTTPTool, table[*v1alpha1.ToolBinding]{
		"the backend": {mutate: func(b *v1alpha1.ToolBinding) { b.Spec.Backend = anMCPTool().Spec.Backend }},
		"the schema":  {mutate: func(b *v1alpha1.ToolBinding) { b.Spec.InputSchema.Raw = []byte(`{"type":"object","minProperties":1}`) }},
		"the retries": {mutate: func(b *v1alpha1.ToolBinding) { b.Spec.Retry.MaxAttempts = 1 }},
	})
}

func TestToolBinding_isFilledIn(t *testing.T) {
	b := anHTTPTool()
	check(t, api.Create(t.Context(), b, client.DryRunAll), nil)
	want := anHTTPTool().Spec
	want.Protocol = v1alpha1.ProtocolDirect
	want.TimeoutSeconds = 30
	want.Retry = v1alpha1.RetryPolicy{MaxAttempts: 3, BackoffMilliseconds: 1000}
	want.Concurrency.Max = 16
	want.Result.MaxBytes = 16384
	if diff := cmp.Diff(want, b.Spec); diff != "" {
		t.Errorf("what is filled in differs (-want +got):\n%s", diff)
	}
}

// A schema may hold anything, with its numbers as they were written.
func TestToolBinding_keepsItsSchema(t *testing.T) {
	const schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"n":{"maximum":9007199254740993}},"type":"object","x-any":[null,{}]}`
	b := anHTTPTool()
	b.Spec.InputSchema.Raw = []byte(schema)
	store(t, b)
	if got := string(b.Spec.InputSchema.Raw); got != schema {
		t.Errorf("the schema came back as %s; want %s", got, schema)
	}
}

func TestToolBinding_unknownFieldsAreRefused(t *testing.T) {
	for path, where := range map[string]string{"spec": "spec.speed", "spec.backend": "spec.backend.speed", "spec.retry": "spec.retry.speed"} {
		o := changed(t, []*unstructured.Unstructured{read(t, "toolbinding_http.yaml")}, path, withField("speed", "Always"))
		check(t, api.Create(t.Context(), o, client.DryRunAll), []string{`unknown field "` + where + `"`})
	}
}
