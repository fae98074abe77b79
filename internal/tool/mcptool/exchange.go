// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

// exchangeKey is under which a call's exchange travels to the recorder.
type exchangeKey struct{}

// An exchange is what the wire held of one call, beside what the SDK makes of it.
type exchange struct {
	mu          sync.Mutex
	status      int
	header      http.Header
	contentType string
	body        bytes.Buffer
	tooLong     bool
	// complete: the body was read to its end.
	complete bool
}

// A recorder bounds every body, and keeps those of calls whose context carries an exchange.
type recorder struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	seen, _ := request.Context().Value(exchangeKey{}).(*exchange)
	if seen == nil {
		seen = &exchange{}
	}
	seen.begin(response)
	response.Body = &recordedBody{response.Body, seen, tool.MaxBodyBytes}
	return response, nil
}

func (x *exchange) begin(response *http.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status, x.header = response.StatusCode, response.Header
	x.contentType, _, _ = mime.ParseMediaType(response.Header.Get("Content-Type"))
	x.body.Reset()
	x.complete = false
}

// answered reports whether a result has come.
func (x *exchange) answered() bool {
	_, ok := x.message()
	return ok
}

// A recordedBody reads at most left more bytes, and keeps what it reads.
type recordedBody struct {
	io.ReadCloser
	seen *exchange
	left int
}

// Read implements io.Reader.
func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.seen.mu.Lock()
	defer b.seen.mu.Unlock()
	if b.left -= n; b.left < 0 {
		b.seen.tooLong = true
		return 0, fmt.Errorf("the answer is longer than %d bytes", tool.MaxBodyBytes)
	}
	b.seen.body.Write(p[:n])
	b.seen.complete = errors.Is(err, io.EOF)
	return n, err
}

// message finds the JSON-RPC response in what was read: the body itself or, in a stream of events, the one that has a result.
func (x *exchange) message() (json.RawMessage, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.contentType != "text/event-stream" {
		return resultIn(x.body.Bytes())
	}
	for event, err := range sse.Read(bytes.NewReader(x.body.Bytes()), &sse.ReadConfig{MaxEventSize: tool.MaxBodyBytes}) {
		if err != nil {
			break
		}
		if result, ok := resultIn([]byte(event.Data)); ok {
			return result, true
		}
	}
	return nil, false
}

func resultIn(message []byte) (json.RawMessage, bool) {
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(message, &m) != nil || m.Result == nil {
		return nil, false
	}
	return m.Result, true
}

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
	message, ok := x.message()
	if !ok {
		return run.ToolResult{}, malformed
	}
	var r callResult
	if json.Unmarshal(message, &r) != nil {
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
		return run.ToolResult{}, toolError(r, data)
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

// failure sorts an exchange that came to no answer. Atworst is what has to be assumed of the call if nothing better is known.
func (x *exchange) failure(ctx context.Context, err error, atWorst tool.Outcome) *tool.Error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.tooLong:
		return &tool.Error{Code: tool.CodeMalformedResult, Message: "The answer is too long.", Outcome: atWorst, Err: err}
	case x.status == http.StatusOK && x.complete && ctx.Err() == nil:
		return &tool.Error{Code: tool.CodeMalformedResult, Message: "The answer is not what the protocol promises.", Outcome: atWorst, Err: err}
	}
	if x.status == 0 || x.status == http.StatusOK || ctx.Err() != nil {
		e := tool.TransportError(ctx, err)
		if e.Outcome == tool.InDoubt {
			e.Outcome = atWorst
		}
		return e
	}
	e := &tool.Error{
		Code: tool.CodeUnavailable, Message: fmt.Sprintf("The MCP server answered with status %d.", x.status), Outcome: tool.Refused,
		RetryAfter: tool.RetryAfter(x.header), Err: err,
	}
	switch {
	case x.status == http.StatusUnauthorized || x.status == http.StatusForbidden:
		e.Code = tool.CodeUnauthorized
	case x.status >= http.StatusInternalServerError:
		e.Outcome, e.Retryable = atWorst, true
	default:
		// A session that the server has forgotten (404) is made anew for the next attempt.
		e.Retryable = x.status == http.StatusTooManyRequests || x.status == http.StatusRequestTimeout || x.status == http.StatusNotFound
	}
	return e
}
