// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"github.com/openai/openai-go/v3"

	"github.com/interlock-dev/interlock/internal/run"
)

// maxTokens is more than any model reads or writes in one call. A larger number is a mistake of the server.
const maxTokens = 100_000_000

// toUsage is what the server says that the call consumed, if that can be true. Otherwise it counts as not reported, and the
// caller settles for what it had reserved: a server that reports zeros must not make calls free.
func toUsage(u openai.CompletionUsage, r run.Reply) run.TokenUsage {
	// The SDK makes zero of what is missing. Input of zero cannot be true, but output of zero can.
	if !u.JSON.CompletionTokens.Valid() {
		return run.TokenUsage{}
	}
	used := run.TokenUsage{
		Input:       u.PromptTokens,
		CachedInput: u.PromptTokensDetails.CachedTokens,
		Output:      u.CompletionTokens,
		Reasoning:   u.CompletionTokensDetails.ReasoningTokens,
		Reported:    true,
	}
	// Some servers leave reasoning out of completion_tokens but count it in total_tokens. What is charged is the larger.
	used.Output = max(used.Output, u.TotalTokens-u.PromptTokens)
	isEmpty := r.Text == "" && len(r.Calls) == 0
	switch {
	case used.Input < 1 || used.Input > maxTokens,
		used.Output < 0 || used.Output > maxTokens,
		used.Output == 0 && !isEmpty,
		used.CachedInput < 0 || used.CachedInput > used.Input,
		used.Reasoning < 0 || used.Reasoning > used.Output:
		return run.TokenUsage{}
	}
	return used
}
