// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

// The API refuses other names of functions. It is said here because a provider's own explanation is never shown.
var (
	functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	headerValue  = regexp.MustCompile(`^[!-~]{1,512}$`)
)

// clientRequestID sends the request's ID for the provider's logs. It is no idempotency key: the API has none, and with a
// header of that name net/http would take the freedom to send a request twice.
func clientRequestID(id string) option.RequestOption {
	if !headerValue.MatchString(id) {
		return option.WithHeaderDel("X-Client-Request-Id")
	}
	return option.WithHeader("X-Client-Request-Id", id)
}

func (a *adapter) params(req run.ModelRequest) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{
		Model:               a.model,
		MaxCompletionTokens: param.NewOpt(int64(req.MaxOutputTokens)),
	}
	if req.System != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(req.System))
	}
	for i, m := range req.Messages {
		message, err := toMessage(m)
		if err != nil {
			return p, invalid(fmt.Sprintf("message %d: %s", i+1, err))
		}
		p.Messages = append(p.Messages, message)
	}
	for _, t := range req.Tools {
		tool, err := toTool(t)
		if err != nil {
			return p, invalid(fmt.Sprintf("tool %q: %s", t.Name, err))
		}
		p.Tools = append(p.Tools, tool)
	}
	return p, nil
}

func toMessage(m run.Message) (openai.ChatCompletionMessageParamUnion, error) {
	switch m.Role {
	case run.RoleUser:
		return openai.UserMessage(m.Text), nil
	case run.RoleTool:
		return openai.ToolMessage(m.Text, m.CallID), nil
	case run.RoleAssistant:
		return openai.ChatCompletionMessageParamUnion{OfAssistant: toAssistant(m)}, nil
	}
	return openai.ChatCompletionMessageParamUnion{}, fmt.Errorf("the role %q is unknown", m.Role)
}

// toAssistant leaves the content out only where there are calls: the API insists on one of the two.
func toAssistant(m run.Message) *openai.ChatCompletionAssistantMessageParam {
	assistant := &openai.ChatCompletionAssistantMessageParam{}
	if m.Text != "" || len(m.Calls) == 0 {
		assistant.Content.OfString = param.NewOpt(m.Text)
	}
	for _, c := range m.Calls {
		assistant.ToolCalls = append(assistant.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Tool, Arguments: string(c.Arguments)},
			},
		})
	}
	return assistant
}

// toTool hands the schema on one level deep as raw JSON, so that its numbers keep their text.
func toTool(t run.ToolDefinition) (openai.ChatCompletionToolUnionParam, error) {
	if !functionName.MatchString(t.Name) {
		return openai.ChatCompletionToolUnionParam{}, fmt.Errorf("a name has 1 to 64 letters, digits, _ or -")
	}
	var schema map[string]json.RawMessage
	if err := json.Unmarshal(t.InputSchema, &schema); err != nil || schema == nil {
		return openai.ChatCompletionToolUnionParam{}, fmt.Errorf("the input schema is not a JSON object")
	}
	function := shared.FunctionDefinitionParam{Name: t.Name, Parameters: make(shared.FunctionParameters, len(schema))}
	for keyword, value := range schema {
		function.Parameters[keyword] = value
	}
	if t.Description != "" {
		function.Description = param.NewOpt(t.Description)
	}
	return openai.ChatCompletionFunctionTool(function), nil
}

func invalid(message string) *model.Error {
	return &model.Error{Reason: model.ReasonInvalidRequest, Message: message}
}
