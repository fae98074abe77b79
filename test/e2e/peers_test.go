// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// peer is a program of test/e2e/peers, whose versions its package-lock.json pins.
func peer(name string) string {
	path, err := filepath.Abs(filepath.Join("peers", "node_modules", ".bin", name))
	Expect(err).NotTo(HaveOccurred())
	Expect(path).To(BeAnExistingFile(), "run these specs with `make test-e2e`, which installs the peers")
	return path
}

// startEverything starts the MCP server-everything and gives its endpoint.
func startEverything(ctx context.Context) string {
	GinkgoHelper()
	port := freePort(ctx)
	p := &program{
		name: "server-everything", args: []string{peer("mcp-server-everything"), "streamableHttp"},
		env: []string{fmt.Sprintf("PORT=%d", port)}, ready: loopback(port, "/mcp"),
	}
	p.start()
	DeferCleanup(p.kill)
	return loopback(port, "/mcp")
}

// startMockLLM starts mock-llm with answers to give in turn, and gives its API's root.
func startMockLLM(ctx context.Context, answers ...map[string]any) string {
	GinkgoHelper()
	var rules []map[string]any
	for i, a := range answers {
		content, err := json.Marshal(a)
		Expect(err).NotTo(HaveOccurred())
		rules = append(rules, map[string]any{
			"path": "/v1/chat/completions", "method": "POST", "sequence": i,
			"response": map[string]any{"status": 200, "content": string(content)},
		})
	}
	// JSON is YAML.
	config, err := json.Marshal(map[string]any{"rules": rules})
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "mock-llm.yaml")
	Expect(os.WriteFile(path, config, 0o600)).To(Succeed())
	port := freePort(ctx)
	p := &program{
		name: "mock-llm", args: []string{peer("mock-llm"), "--config", path}, dir: filepath.Dir(path),
		env: []string{fmt.Sprintf("PORT=%d", port), "HOST=127.0.0.1"}, ready: loopback(port, "/health"),
	}
	p.start()
	DeferCleanup(p.kill)
	return loopback(port, "/v1")
}

type toolCall struct{ id, name, arguments string }

func completion(text string, calls ...toolCall) map[string]any {
	message := map[string]any{"role": "assistant", "content": text}
	finish := "stop"
	var list []map[string]any
	for _, c := range calls {
		list = append(list, map[string]any{
			"id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": c.arguments},
		})
	}
	if list != nil {
		message["tool_calls"], finish = list, "tool_calls"
	}
	return map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "mock-1",
		"choices": []map[string]any{{"index": 0, "message": message, "finish_reason": finish}},
		"usage":   map[string]any{"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
	}
}

var _ = Describe("programs that others wrote", func() {
	It("a run with mock-llm as its model calls tools of server-everything", func(ctx SpecContext) {
		namespace := aNamespace(ctx)
		endpoint := startEverything(ctx)
		api := startMockLLM(ctx,
			completion("", toolCall{"call_1", "add", `{"a":19,"b":23}`}, toolCall{"call_2", "weather", `{"location":"Chicago"}`}),
			completion("", toolCall{"call_3", "echo", `{"message":"interlock"}`}),
			completion("The sum is 42."),
		)
		for name, tool := range map[string]string{"add": "get-sum", "weather": "get-structured-content", "echo": "echo"} {
			create(ctx, &v1alpha1.ToolBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: v1alpha1.ToolBindingSpec{
					Effect: v1alpha1.EffectReadOnly, Backend: v1alpha1.ToolBackend{MCP: &v1alpha1.MCPBackend{URL: endpoint, Tool: tool}},
				},
			})
		}
		create(ctx, &v1alpha1.ModelBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"},
			Spec:       v1alpha1.ModelBindingSpec{OpenAI: &v1alpha1.OpenAIModel{BaseURL: api, Model: "mock-1"}},
		})
		r := ended(ctx, aRun(ctx, namespace, []string{"add", "weather", "echo"}))

		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(r.Status.Result.Text).To(Equal("The sum is 42."))
		Expect(result(ctx, r, "s1c1").Data).To(ContainSubstring("The sum of 19 and 23 is 42."))
		weather := map[string]any{}
		Expect(json.Unmarshal([]byte(result(ctx, r, "s1c2").Data), &weather)).To(Succeed())
		Expect(weather).To(And(HaveKey("temperature"), HaveKey("conditions"), HaveKey("humidity")))
		Expect(result(ctx, r, "s2c1").Data).To(ContainSubstring("Echo: interlock"))
		Expect(r.Status.Usage.InputTokens).To(HaveValue(BeEquivalentTo(21)))
		Expect(turns(ctx, r)[0].Spec.Reply.Model).To(Equal("mock-1"))
	})

	It("a tool that the MCP server does not have keeps its binding out of service", func(ctx SpecContext) {
		namespace := aNamespace(ctx)
		b := &v1alpha1.ToolBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nothing"},
			Spec: v1alpha1.ToolBindingSpec{
				Effect: v1alpha1.EffectReadOnly, InputSchema: &runtime.RawExtension{Raw: []byte(anySchema)},
				Backend: v1alpha1.ToolBackend{MCP: &v1alpha1.MCPBackend{URL: startEverything(ctx), Tool: "no-such-tool"}},
			},
		}
		create(ctx, b)
		expectBinding(ctx, b, v1alpha1.ReasonDiscoveryFailed, "UnknownTool")
	})
})
