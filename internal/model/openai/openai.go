// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openai is the adapter to Chat Completions, OpenAI's or that of any server that is compatible with it (vLLM,
// llama.cpp, Ollama, gateways). One call of the port is one request: no streaming, no retry, no redirect.
//
// What is sent: the system text as a system message, the history with our call IDs, function tools without strict mode, and
// the cap on the reply as max_completion_tokens. That is the current name; a server that knows only the older max_tokens
// ignores it and replies at its own length, which the usage then shows. Parallel calls are left allowed, as they are by
// default.
//
// What comes back is trusted as little as possible. Servers differ in what they leave out and in what they call an error,
// so a reply is mapped field by field, bounded, and anything else becomes a *model.Error in our own words: a provider's
// text is never repeated, since it may hold the key.
package openai

import (
	"context"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

var _ model.Factory = New

// An adapter asks one model at one endpoint. It holds no credential as a value that could be printed: the key lives in
// functions only.
type adapter struct {
	chat  openai.ChatCompletionService
	model string
	safe  sanitizer
}

// New makes a model of cfg. Keep it as long as cfg stays the same: it holds the connections.
func New(cfg model.Config) (model.Model, error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	key := cfg.APIKey.Reveal()
	opts := []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL),
		option.WithHTTPClient(newHTTPClient()),
		option.WithMaxRetries(0),
	}
	if key != "" {
		opts = append(opts, option.WithAPIKey(key))
	}
	return &adapter{
		// The service is made without a client because a client takes its defaults from OPENAI_* in the environment, among
		// them OPENAI_CUSTOM_HEADERS, which no option can undo. The service reads nothing.
		chat:  openai.NewChatCompletionService(opts...),
		model: cfg.Model,
		safe:  newSanitizer(key),
	}, nil
}

// Complete sends req and reads the answer.
func (a *adapter) Complete(ctx context.Context, req run.ModelRequest) (run.Reply, error) {
	params, err := a.params(req)
	if err != nil {
		return run.Reply{}, err
	}
	var resp *http.Response
	completion, err := a.chat.New(ctx, params, option.WithResponseInto(&resp), clientRequestID(req.ID))
	if failed := a.failure(ctx, resp, err); failed != nil {
		return run.Reply{}, failed
	}
	return a.reply(completion, resp.Header, req.MaxOutputTokens)
}
