// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package chatserver

import (
	"encoding/json"
	"net/http"
	"strings"
)

// A Request is one request as the server received it.
type Request struct {
	// N counts all requests from 1.
	N            int
	Method, Path string
	Header       http.Header
	Body         []byte
	// Chat is the body's meaning; it is empty if the body is not JSON.
	Chat Chat
}

// A Chat is what a request asks for: the parts that tests look at. The rest is in Request.Body.
type Chat struct {
	Model               string    `json:"model"`
	MaxCompletionTokens int64     `json:"max_completion_tokens"`
	Messages            []Message `json:"messages"`
	Tools               []Tool    `json:"tools"`
}

// A Message is one entry of the conversation.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCallID string     `json:"tool_call_id"`
	ToolCalls  []ToolCall `json:"tool_calls"`
}

// A ToolCall is a call in the conversation.
type ToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// A Tool is a tool on offer.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"function"`
}

// Turn counts the model's turns in the conversation so far, plus one: the turn that is asked for. A test that answers by it
// gives the same answer however often a request is repeated.
func (c Chat) Turn() int {
	turn := 1
	for _, m := range c.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	return turn
}

func newRequest(n int, r *http.Request, body []byte) Request {
	req := Request{N: n, Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	if json.Unmarshal(body, &req.Chat) != nil {
		req.Chat = Chat{}
	}
	return req
}

// refusal is the answer to a request that no endpoint would take, and nil for one that is in order.
func (r Request) refusal(key string) *Answer {
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(r.Path, "/chat/completions"):
		return new(Failure(http.StatusNotFound, "not_found", "no such path"))
	case key != "" && r.Header.Get("Authorization") != "Bearer "+key:
		return new(Failure(http.StatusUnauthorized, "invalid_api_key", "the key is not the one expected"))
	case len(r.Chat.Messages) == 0:
		return new(Failure(http.StatusBadRequest, "invalid_request", "the body has no messages"))
	}
	return nil
}
