// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/json"
	"time"
)

// A ModelRequest is all that a model is shown for one turn.
type ModelRequest struct {
	// ID names this request: the same for every attempt at the same step of the same run.
	ID string
	// Step is the turn asked for, counted from 1. Attempt counts the tries at it, from 1.
	Step, Attempt int
	// System holds the operator's policy and the run's instructions. Nothing that a tool or a model wrote is in it.
	System string
	// Messages is a valid history: every call of an assistant message is answered, by ID, before the next one.
	Messages []Message
	Tools    []ToolDefinition
	// MaxOutputTokens caps the reply; it is always above zero.
	MaxOutputTokens int
}

// A Role says who speaks in a Message.
type Role string

// The roles. System text is not a message: see ModelRequest.System.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// A Message is one entry of the history that a model is shown.
type Message struct {
	Role Role
	Text string
	// Calls are what the assistant asked for: only with RoleAssistant.
	Calls []MessageCall
	// CallID says which call Text answers: only with RoleTool.
	CallID string
}

// A MessageCall is a call in the history. Its ID is ours and its arguments are always a valid JSON object, whatever the
// model once sent, so that no provider refuses the history.
type MessageCall struct {
	ID        string
	Tool      string
	Arguments json.RawMessage
}

// A ToolDefinition is a tool as the model sees it.
type ToolDefinition struct {
	Name        string
	Description string
	// InputSchema is a JSON Schema whose root is an object.
	InputSchema json.RawMessage
}

// A Finish is why the model stopped.
type Finish string

// The ways to finish. An adapter maps what its provider says to one of these.
const (
	// FinishStop: the model said what it wanted to say; its calls, if any, are complete.
	FinishStop Finish = "Stop"
	// FinishLength: the reply was cut off; no call in it may run.
	FinishLength Finish = "Length"
	// FinishRefused: the model or the provider's filter declined; no call in it may run.
	FinishRefused Finish = "Refused"
)

// A Reply is one answer of a model, bounded by the adapter that made it (see model.MaxReplyBytes, MaxCalls).
type Reply struct {
	Text   string
	Calls  []Proposal
	Finish Finish
	Usage  TokenUsage
	// Model is the version that answered, as the provider names it. RequestID is the provider's, for support.
	Model, RequestID string
}

// A Proposal is a call that a model asks for. Nothing in it is trusted: the ID can be empty or repeated, the name unknown,
// the arguments not even JSON.
type Proposal struct {
	ModelCallID string
	Tool        string
	Arguments   string
}

// TokenUsage is what one model call consumed, in tokens. Input includes cached tokens, Output includes reasoning.
type TokenUsage struct {
	Input, CachedInput, Output, Reasoning int64
	// Reported is false if the provider did not say; the numbers are zero then.
	Reported bool
}

// A ToolCall is what a tool server is asked to do.
type ToolCall struct {
	// OperationID is the idempotency key: the same for every attempt.
	OperationID string
	// CallID is ours, such as s3c1. Tool is the name that the server knows.
	CallID, Tool string
	// Arguments are the canonical bytes; exactly these are sent.
	Arguments json.RawMessage
	// Preview is what a commit rests on; nil calls a tool that has no previews.
	Preview *Preview
	// Credential says on whose behalf; nil if the tool is not told.
	Credential Credential
	// MaxResultBytes bounds ToolResult.Data. What is longer is cut and marked.
	MaxResultBytes int
}

// A Credential gives a secret to who calls it, and to nobody who prints what holds it.
type Credential func() string

// A ToolPreview is what a tool server says that a call would do.
type ToolPreview struct {
	ID, ResourceVersion string
	// Summary and Changes are for people; they are fit to be shown.
	Summary, Changes string
	// Expires is when it can no longer be committed; zero: it does not expire.
	Expires time.Time
	// Canonical is all of it as the server sent it, in its RFC 8785 form, at most MaxPreviewBytes.
	Canonical json.RawMessage
}

// MaxPreviewBytes bounds a preview: what people approve they must be able to see.
const MaxPreviewBytes = 8192

// A ToolResult is what a tool server answered: data, never an instruction.
type ToolResult struct {
	// Data is the answer: JSON, or a JSON string when the server answered with text. When Truncated it is a JSON string that
	// holds the beginning of the answer.
	Data      json.RawMessage
	Truncated bool
	// Size is the answer's full length in bytes, before any cut.
	Size int64
	// ObservedAt and SourceVersion say how fresh the data is; both are the server's claim, and zero if it made none.
	ObservedAt    time.Time
	SourceVersion string
	// Sources may be cited in a final answer. At most MaxSources.
	Sources []Source
}

// MaxSources is how many sources of one result are kept.
const MaxSources = 64

// A Source is something that a result rests on and that an answer may cite by its ID.
type Source struct {
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	URL   string `json:"url,omitempty"`
}

// Bounds of how many tokens providers make of what they are sent. No text has more tokens than bytes of UTF-8, since the
// tokenizers of the models that we know fall back to bytes: byte-level BPE does by construction (Radford et al. 2019, 2.2),
// SentencePiece with byte_fallback. What a provider's template adds is not documented; these are well above what is seen.
const (
	requestTokens = 1024
	messageTokens = 32
	toolTokens    = 64
	// envelopeTokens is for the names of the fields around a result, with what else in them is bounded.
	envelopeTokens = 1024
)

// MaxTokens gives the most input tokens that the request can be charged as.
func (r ModelRequest) MaxTokens() int64 {
	n := int64(requestTokens + len(r.System))
	for _, m := range r.Messages {
		n += m.MaxTokens()
	}
	for _, t := range r.Tools {
		n += t.MaxTokens()
	}
	return n
}

// MaxTokens gives the most input tokens that the message adds to a request.
func (m Message) MaxTokens() int64 {
	n := messageTokens + len(m.Text) + len(m.CallID)
	for _, c := range m.Calls {
		n += messageTokens + len(c.ID) + len(c.Tool) + len(c.Arguments)
	}
	return int64(n)
}

// MaxTokens gives the most input tokens that the tool adds to a request.
func (t ToolDefinition) MaxTokens() int64 {
	return int64(toolTokens + len(t.Name) + len(t.Description) + len(t.InputSchema))
}

// ResultTokens gives the most input tokens that a call's result adds to a request, without the data. A character of the message
// can need two once it is quoted.
func ResultTokens(message string) int64 {
	return int64(messageTokens + envelopeTokens + 2*len(message))
}

// MaxTokens gives the most input tokens that the answer's data and sources add to a request.
func (r ToolResult) MaxTokens() int64 {
	n := len(r.Data) + 2*len(r.SourceVersion)
	for _, s := range r.Sources {
		n += messageTokens + 2*(len(s.ID)+len(s.Title)+len(s.URL))
	}
	return int64(n)
}
