// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// A detail is what an error's body says. Only code is ever shown, and only if it is a plain word.
type detail struct {
	code string
	// words are the code and the type as they came, and message is in lower case. They are for sorting only.
	words   []string
	message string
}

// An errorBody has the fields of every common shape: OpenAI nests them in an object "error", older vLLM does not, and some
// gateways make "error" or "detail" a string.
type errorBody struct {
	Error   json.RawMessage `json:"error"`
	Code    json.RawMessage `json:"code"`
	Type    json.RawMessage `json:"type"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"`
}

func parseDetail(body []byte, safe sanitizer) detail {
	var outer errorBody
	if json.Unmarshal(body, &outer) != nil {
		return detail{}
	}
	inner := outer
	if bytes.HasPrefix(outer.Error, []byte("{")) {
		inner = errorBody{}
		if json.Unmarshal(outer.Error, &inner) != nil {
			return detail{}
		}
	}
	code, kind := text(inner.Code), text(inner.Type)
	return detail{
		code:    cmp.Or(safe.code(code), safe.code(kind)),
		words:   []string{code, kind},
		message: strings.ToLower(cmp.Or(text(inner.Message), text(outer.Error), text(outer.Detail))),
	}
}

// text is the string in raw, and empty for anything else: a code can also be a number or null.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func (d detail) has(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(d.words, w) })
}

func (d detail) says(phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(d.message, p) })
}

func (d detail) isQuota() bool {
	return d.has("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "access_terminated")
}

func (d detail) isContextLength() bool {
	return d.has("context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded") || d.says(
		"maximum context length",         // OpenAI, vLLM, Mistral
		"context size",                   // llama.cpp
		"maximum model length",           // vLLM
		"model's context length",         // SGLang
		"context window",                 // gateways
		"prompt is too long",             // Anthropic and what stands before it
		"`inputs` tokens + `max_new_tok", // text-generation-inference
	)
}

func (d detail) isPolicy() bool {
	return d.has("content_policy_violation", "content_filter", "responsible_ai_policy_violation", "invalid_prompt", "cyber_policy",
		"misalignment_policy_violation") || d.says("content management policy", "usage polic")
}

func (d detail) isUnknownModel() bool {
	return d.has("model_not_found", "model_not_available", "model_deprecated", "unknown_model")
}
