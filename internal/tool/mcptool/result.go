// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

// callResult is the result of tools/call, as far as it is ours to read.
type callResult struct {
	ResultType        string            `json:"resultType"`
	Content           []json.RawMessage `json:"content"`
	StructuredContent json.RawMessage   `json:"structuredContent"`
	IsError           bool              `json:"isError"`
	Meta              struct {
		ObservedAt    time.Time    `json:"interlock.dev/observedAt"`
		SourceVersion string       `json:"interlock.dev/sourceVersion"`
		Sources       []run.Source `json:"interlock.dev/sources"`
	} `json:"_meta"`
}

// result makes our result of the bytes that came.
func (x *exchange) result(most int) (run.ToolResult, error) {
	malformed := &tool.Error{Code: tool.CodeMalformedResult, Message: "The answer is not what the protocol promises.", Outcome: tool.InDoubt}
	var r *callResult
	if json.Unmarshal(x.answer(), &r) != nil || r == nil {
		return run.ToolResult{}, malformed
	}
	// Absent means complete; a kind that we do not know must not pass for one (MCP 2026-07-28).
	if r.ResultType != "" && r.ResultType != "complete" {
		return run.ToolResult{}, &tool.Error{
			Code: "UnsupportedResult", Message: "The MCP server answered with a kind of result that is not supported: it wants more input, or goes on in the background.",
			Outcome: tool.InDoubt,
		}
	}
	data := r.data()
	if r.IsError {
		return run.ToolResult{}, toolError(*r, data)
	}
	out, err := tool.Bound(data, most)
	if err != nil {
		return run.ToolResult{}, malformed
	}
	out.ObservedAt, out.SourceVersion, out.Sources = r.Meta.ObservedAt, tool.CleanVersion(r.Meta.SourceVersion), tool.CleanSources(r.Meta.Sources)
	return out, nil
}

// data is the structured content where there is any; otherwise the texts, as one string, with a note in place of each
// content that is not text.
func (r callResult) data() json.RawMessage {
	if len(r.StructuredContent) > 0 && !bytes.Equal(r.StructuredContent, []byte("null")) {
		return r.StructuredContent
	}
	data, err := json.Marshal(r.text())
	if err != nil {
		return json.RawMessage(`""`)
	}
	return data
}

func (r callResult) text() string {
	var parts []string
	for _, raw := range r.Content {
		var c struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			MimeType string `json:"mimeType"`
		}
		if json.Unmarshal(raw, &c) != nil {
			continue
		}
		if c.Type == "text" {
			parts = append(parts, c.Text)
			continue
		}
		parts = append(parts, fmt.Sprintf("[%s %s, %d bytes, not shown]", tool.CleanCode(c.Type, "content"), tool.CleanMessage(c.MimeType), len(raw)))
	}
	return strings.Join(parts, "\n")
}

// toolError is what the tool says went wrong, with a code if it gives one.
func toolError(r callResult, data json.RawMessage) *tool.Error {
	var said struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
	}
	// Structured content has to fit the tool's outputSchema, so that many servers write an error as JSON in a text instead.
	if json.Unmarshal(data, &said) != nil || said.Code == "" {
		_ = json.Unmarshal([]byte(r.text()), &said)
	}
	message := tool.CleanMessage(said.Message)
	if message == "" {
		message = tool.CleanMessage(r.text())
	}
	if message == "" {
		message = "The tool failed and did not say why."
	}
	return &tool.Error{Code: tool.CleanCode(said.Code, tool.CodeToolError), Message: message, Outcome: tool.Refused, Retryable: said.Retryable}
}
