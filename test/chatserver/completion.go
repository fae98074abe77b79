// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package chatserver

import (
	"encoding/json"
	"fmt"
)

// A Completion is a model's reply.
type Completion struct {
	Text, Refusal string
	Calls         []Call
	// Finish is tool_calls if there are calls and stop otherwise, unless the test says something else.
	Finish string
	// Usage is left out of the answer if nil.
	Usage *Usage
	// Model is the one that was asked for, unless the test says something else.
	Model string
}

// A Call is a call that the model asks for.
type Call struct {
	ID, Name, Arguments string
}

// Usage is what the completion consumed, in tokens.
type Usage struct {
	Prompt, Cached, Completion, Reasoning int64
}

func (c *Completion) body(req Request) string {
	message := object{"role": "assistant", "content": nil, "refusal": nil}
	if c.Text != "" {
		message["content"] = c.Text
	}
	if c.Refusal != "" {
		message["refusal"] = c.Refusal
	}
	finish := "stop"
	if len(c.Calls) > 0 {
		message["tool_calls"] = calls(c.Calls)
		finish = "tool_calls"
	}
	if c.Finish != "" {
		finish = c.Finish
	}
	name := req.Chat.Model
	if c.Model != "" {
		name = c.Model
	}
	body := object{
		"id": fmt.Sprintf("chatcmpl-%d", req.N), "object": "chat.completion", "model": name,
		"choices": []object{{"index": 0, "message": message, "finish_reason": finish}},
	}
	if c.Usage != nil {
		body["usage"] = c.Usage.object()
	}
	return body.String()
}

func calls(cs []Call) []object {
	out := make([]object, 0, len(cs))
	for _, c := range cs {
		out = append(out, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	return out
}

func (u Usage) object() object {
	return object{
		"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

// An object is a JSON object in the making.
type object map[string]any

func (o object) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // only strings, numbers and nested objects of them are ever put in
	}
	return string(b)
}
