// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

// reply maps the first choice, the only one that is asked for.
func (a *adapter) reply(c *openai.ChatCompletion, header http.Header, maxOutput int) (run.Reply, error) {
	// The body "null" leaves c nil, and the SDK takes it for an answer.
	if c == nil || len(c.Choices) == 0 {
		return run.Reply{}, malformed("the answer holds no choice")
	}
	choice := c.Choices[0]
	calls, err := toProposals(choice.Message)
	if err != nil {
		return run.Reply{}, err
	}
	r := run.Reply{
		Text:      toText(choice.Message),
		Calls:     calls,
		Finish:    toFinish(choice),
		Model:     a.safe.label(c.Model),
		RequestID: a.safe.label(header.Get("X-Request-Id")),
	}
	r.Usage = toUsage(c.Usage, r)
	if isCutOff(r, maxOutput) {
		r.Finish = run.FinishLength
	}
	return r, model.CheckReply(r)
}

// toFinish goes by what the API documents to be an end other than stop. All else is a stop, whether or not there are calls:
// compatible servers say stop with calls and tool_calls without.
func toFinish(c openai.ChatCompletionChoice) run.Finish {
	switch {
	case c.Message.Refusal != "" || c.FinishReason == "content_filter":
		return run.FinishRefused
	case c.FinishReason == "length":
		return run.FinishLength
	}
	return run.FinishStop
}

// isCutOff recognises a reply that was cut off although the server says otherwise: it used all that it was given and its
// last call is half a call.
func isCutOff(r run.Reply, maxOutput int) bool {
	return r.Finish == run.FinishStop && len(r.Calls) > 0 &&
		r.Usage.Reported && r.Usage.Output >= int64(maxOutput) &&
		!json.Valid([]byte(r.Calls[len(r.Calls)-1].Arguments))
}

// toText is the content, or the refusal if there is none.
func toText(m openai.ChatCompletionMessage) string {
	text := m.Content
	if raw := m.JSON.Content.Raw(); strings.HasPrefix(raw, "[") {
		text = joinParts(raw)
	}
	if text == "" {
		text = m.Refusal
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// joinParts reads content that is a list of parts, as some servers with reasoning send it. Only text is said to the user;
// parts of other kinds, such as thinking, are not.
func joinParts(raw string) string {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal([]byte(raw), &parts) != nil {
		return raw
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func toProposals(m openai.ChatCompletionMessage) ([]run.Proposal, error) {
	// The SDK turns a list that is no list into no calls at all. What the model asked for would be lost in silence.
	if raw := m.JSON.ToolCalls.Raw(); len(m.ToolCalls) == 0 && raw != "" && raw != "null" && !strings.HasPrefix(raw, "[") {
		return nil, malformed("the answer's calls are not a list")
	}
	calls := make([]run.Proposal, 0, len(m.ToolCalls))
	for _, c := range m.ToolCalls {
		calls = append(calls, toProposal(c))
	}
	return calls, nil
}

// toProposal keeps a call whatever is wrong with it: the model is told what by the gate, which sees every call.
func toProposal(c openai.ChatCompletionMessageToolCallUnion) run.Proposal {
	if c.Custom.Name != "" {
		// No custom tool is ever on offer. Its input is handed on as a JSON string, which is no object and so never valid
		// arguments, even if the name is that of a tool.
		return run.Proposal{ModelCallID: c.ID, Tool: c.Custom.Name, Arguments: quoted(c.Custom.Input)}
	}
	return run.Proposal{ModelCallID: c.ID, Tool: c.Function.Name, Arguments: toArguments(c.Function)}
}

// toArguments is the string that the model gave. Where a server sends the object itself, it is that object's text; null or
// nothing is the empty string. (The SDK's field holds just that.)
//
// A lone surrogate in the answer's own JSON would arrive as U+FFFD, so that what is checked were not what was sent. Then the
// string is handed on in its JSON form, quotes and all, which is no object and is refused.
func toArguments(f openai.ChatCompletionMessageFunctionToolCallFunction) string {
	const replacement = "\uFFFD"
	raw := f.JSON.Arguments.Raw()
	if strings.Contains(f.Arguments, replacement) && !strings.Contains(raw, replacement) {
		return raw
	}
	return f.Arguments
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // cannot be: every string has a JSON form
	}
	return string(b)
}

func malformed(message string) *model.Error {
	return &model.Error{Reason: model.ReasonMalformed, Message: message}
}
