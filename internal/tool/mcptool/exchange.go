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
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tmaxmax/go-sse"

	"github.com/interlock-dev/interlock/internal/tool"
)

const eventStream = "text/event-stream"

// exchangeKey is under which an exchange travels to the recorder.
type exchangeKey struct{}

// An exchange is what the wire held of one call, beside what the SDK makes of it. Where there were several, as when a session
// is made, it is the last.
type exchange struct {
	mu          sync.Mutex
	id          json.RawMessage
	sent        func() bool // nil: no request was made
	status      int         // zero: no answer came
	header      http.Header
	contentType string
	body        bytes.Buffer
	tooLong     bool
	complete    bool // the body was read to its end
}

func (x *exchange) begin(id json.RawMessage, sent func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.id, x.sent, x.status, x.header, x.contentType, x.tooLong, x.complete = id, sent, 0, nil, "", false, false
	x.body = bytes.Buffer{}
}

func (x *exchange) head(r *http.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status, x.header = r.StatusCode, r.Header.Clone()
	x.contentType, _, _ = mime.ParseMediaType(r.Header.Get("Content-Type"))
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

// A response is a JSON-RPC response (JSON-RPC 2.0, section 5).
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *jsonrpc.Error  `json:"error"`
}

// response finds the response to the call in what was read: the body itself or one event of a stream.
func (x *exchange) response() (response, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.contentType != eventStream {
		return x.responseIn(x.body.Bytes())
	}
	for event, err := range sse.Read(bytes.NewReader(x.body.Bytes()), &sse.ReadConfig{MaxEventSize: tool.MaxBodyBytes}) {
		if err != nil {
			break
		}
		if r, ok := x.responseIn([]byte(event.Data)); ok {
			return r, true
		}
	}
	return response{}, false
}

func (x *exchange) responseIn(message []byte) (response, bool) {
	var r response
	if json.Unmarshal(message, &r) != nil || r.Version != "2.0" || (r.Result == nil) == (r.Error == nil) {
		return response{}, false
	}
	// A server that could not read the ID says null.
	ours := bytes.Equal(r.ID, x.id) || (r.Error != nil && (r.ID == nil || string(r.ID) == "null"))
	return r, ours
}

// answer is the result that came, if any.
func (x *exchange) answer() json.RawMessage {
	r, _ := x.response()
	return r.Result
}

// answered reports whether a result has come.
func (x *exchange) answered() bool { return x.answer() != nil }

// tried reports whether a request was made: the SDK makes none if it takes the session for broken.
func (x *exchange) tried() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent != nil
}

// lostSession reports whether a server that gave us a session no longer knows it. It says 404; some say 400, with an error
// whose code is theirs to choose.
func (x *exchange) lostSession() bool {
	answer, _ := x.response()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status == http.StatusNotFound ||
		(x.status == http.StatusBadRequest && (answer.Error == nil || (answer.Error.Code <= -32000 && answer.Error.Code > -32020)))
}

// failure sorts an exchange that came to no result, for which the SDK says err.
func (x *exchange) failure(ctx context.Context, err error) *tool.Error {
	answer, ok := x.response()
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.sent == nil || !x.sent():
		return tool.TransportError(ctx, err, false)
	case x.tooLong:
		return &tool.Error{Code: tool.CodeMalformedResult, Message: "The answer is too long.", Outcome: tool.InDoubt, Err: err}
	case ok && answer.Error != nil && !speaksForItself(x.status):
		return protocolError(answer.Error)
	case x.status >= http.StatusBadRequest:
		return x.statusFailure(err)
	case ctx.Err() == nil && x.status != 0 && x.status < http.StatusMultipleChoices && x.complete:
		return &tool.Error{Code: tool.CodeMalformedResult, Message: "The answer is not what the protocol promises.", Outcome: tool.InDoubt, Err: err}
	}
	return tool.TransportError(ctx, err, true)
}

// speaksForItself says of a status whether it means more than the error in its body.
func speaksForItself(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || passing(status)
}

func passing(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

func (x *exchange) statusFailure(err error) *tool.Error {
	e := &tool.Error{
		Code: tool.CodeUnavailable, Message: fmt.Sprintf("The MCP server answered with status %d.", x.status), Outcome: tool.Refused,
		Retryable: passing(x.status), RetryAfter: tool.RetryAfter(x.header), Err: err,
	}
	if x.status == http.StatusUnauthorized || x.status == http.StatusForbidden {
		e.Code = tool.CodeUnauthorized
	}
	// A gateway may have answered while the server went on.
	if x.status >= http.StatusInternalServerError {
		e.Outcome = tool.InDoubt
	}
	return e
}

// protocolError sorts an error that the server answered with, by its code (JSON-RPC 2.0, section 5.1; MCP 2026-07-28).
func protocolError(e *jsonrpc.Error) *tool.Error {
	failed := &tool.Error{
		Code: tool.CodeToolError, Message: fmt.Sprintf("The MCP server answered with error %d.", e.Code), Outcome: tool.Refused, Err: e,
	}
	switch {
	case e.Code == jsonrpc.CodeMethodNotFound:
		failed.Code, failed.Message = tool.CodeUnknownTool, "The MCP server has no tools."
	case e.Code == jsonrpc.CodeInvalidParams:
		failed.Code = "InvalidParams"
		if message := tool.CleanMessage(e.Message); message != "" {
			failed.Message = message
		}
	case e.Code == jsonrpc.CodeParseError, e.Code == jsonrpc.CodeInvalidRequest, e.Code <= -32020 && e.Code >= -32022:
		// The request itself was not accepted.
	default:
		failed.Outcome = tool.InDoubt
	}
	return failed
}
