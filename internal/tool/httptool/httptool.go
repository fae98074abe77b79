// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httptool is the adapter for servers of the HTTP tool protocol (toolservers/openapi.yaml): a call is one POST whose
// body is the arguments and whose Idempotency-Key is the operation ID; a preview is another; what became of an operation is
// asked with a GET. An error is a problem detail (RFC 9457).
//
// It never retries, and what a server says in any other form than the protocol's is never repeated.
package httptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

type server struct {
	base      *url.URL
	client    *http.Client
	transport *http.Transport
	gate      tool.Gate
}

var _ tool.Factory = New

// New makes a server of its base address.
func New(c tool.Config) (tool.Server, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, errors.New("the URL must be an http or https address")
	}
	transport, err := tool.Transport(c)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport, CheckRedirect: tool.NoRedirect}
	return &server{base: base, client: client, transport: transport}, nil
}

// Close implements tool.Server.
func (s *server) Close() {
	s.gate.Close()
	s.transport.CloseIdleConnections()
}

// Execute implements tool.Server. What was previewed is committed.
func (s *server) Execute(ctx context.Context, call run.ToolCall) (run.ToolResult, error) {
	verb, header := "invoke", http.Header{}
	if p := call.Preview; p != nil {
		verb = "commit"
		header.Set("If-Match", `"`+p.ResourceVersion+`"`)
		header.Set("Interlock-Preview", p.ID)
	}
	body, err := s.post(ctx, call, verb, header)
	if err != nil {
		return run.ToolResult{}, err
	}
	return resultOf(call, body)
}

// post calls a tool and gives the body of a 200.
func (s *server) post(ctx context.Context, call run.ToolCall, verb string, header http.Header) ([]byte, error) {
	address := s.base.JoinPath("v1", "tools", url.PathEscape(call.Tool)+":"+verb).String()
	header.Set("Content-Type", "application/json")
	// Spelt as http.Header would, it makes net/http send a call again by itself when a connection that was kept breaks.
	header["idempotency-key"] = []string{call.OperationID}
	return s.exchange(ctx, http.MethodPost, address, header, call)
}

// exchange makes one request and gives the body of a 200. All else is an *tool.Error.
func (s *server) exchange(ctx context.Context, method, address string, header http.Header, call run.ToolCall) ([]byte, error) {
	ctx, leave, err := s.gate.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	watched, sent := tool.Watch(ctx)
	var sends io.Reader
	if method == http.MethodPost {
		sends = bytes.NewReader(call.Arguments)
	}
	request, err := http.NewRequestWithContext(watched, method, address, sends)
	if err != nil {
		return nil, &tool.Error{Code: tool.CodeUnknownTool, Message: "The tool's name can't be sent.", Outcome: tool.NotSent, Err: err}
	}
	header.Set("Accept", "application/json, application/problem+json")
	if deadline, ok := ctx.Deadline(); ok {
		header.Set("Interlock-Deadline", deadline.UTC().Format(time.RFC3339Nano))
	}
	if call.Credential != nil {
		header.Set("Authorization", "Bearer "+call.Credential())
	}
	request.Header = header
	response, err := s.client.Do(request)
	if err != nil {
		return nil, tool.TransportError(ctx, err, sent())
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, tool.MaxBodyBytes+1))
	switch {
	case err != nil:
		return nil, tool.TransportError(ctx, err, true)
	case len(body) > tool.MaxBodyBytes:
		return nil, malformed(fmt.Sprintf("The answer is longer than %d bytes.", tool.MaxBodyBytes))
	case response.StatusCode < http.StatusBadRequest && response.StatusCode != http.StatusOK:
		return nil, malformed(fmt.Sprintf("The tool server answered with status %d.", response.StatusCode))
	case response.StatusCode != http.StatusOK:
		return nil, problemOf(response, body)
	}
	return body, nil
}

// answer is the body of a 200.
type answer struct {
	OperationID   string          `json:"operationId"`
	ObservedAt    time.Time       `json:"observedAt"`
	SourceVersion string          `json:"sourceVersion"`
	Data          json.RawMessage `json:"data"`
	Sources       []run.Source    `json:"sources"`
}

func resultOf(call run.ToolCall, body []byte) (run.ToolResult, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil || len(a.Data) == 0 {
		return run.ToolResult{}, malformed("The answer is not what the protocol promises.")
	}
	if a.OperationID != call.OperationID {
		return run.ToolResult{}, malformed("The answer is for another operation.")
	}
	result, err := tool.Bound(a.Data, call.MaxResultBytes)
	if err != nil {
		return run.ToolResult{}, malformed("The answer is not what the protocol promises.")
	}
	result.ObservedAt, result.SourceVersion, result.Sources = a.ObservedAt, tool.CleanVersion(a.SourceVersion), tool.CleanSources(a.Sources)
	return result, nil
}

// malformed is an answer that came, so the server may have acted, but says nothing of use.
func malformed(message string) *tool.Error {
	return &tool.Error{Code: tool.CodeMalformedResult, Message: message, Outcome: tool.InDoubt}
}

// problem is the body of an error (RFC 9457) with our two extensions.
type problem struct {
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	Retryable *bool  `json:"retryable"`
}

func problemOf(response *http.Response, body []byte) *tool.Error {
	status := response.StatusCode
	e := &tool.Error{
		Code: codeOf(status), Message: fmt.Sprintf("The tool server answered with status %d.", status), Outcome: tool.Refused,
		Retryable: passing(status), RetryAfter: tool.RetryAfter(response.Header), Down: passing(status),
	}
	// A gateway may have answered while the server went on.
	if status >= http.StatusInternalServerError {
		e.Outcome = tool.InDoubt
	}
	e.Changed = status == http.StatusPreconditionFailed
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	var p problem
	if !strings.EqualFold(kind, "application/problem+json") || json.Unmarshal(body, &p) != nil {
		return e
	}
	return p.fill(e)
}

// fill puts what the server says into an error that says what its status means.
func (p problem) fill(e *tool.Error) *tool.Error {
	e.Code = tool.CleanCode(p.Code, e.Code)
	// The same operation, sent before, is still on its way.
	if e.Code == tool.CodeOperationInProgress {
		e.Outcome = tool.InDoubt
	}
	if detail := tool.CleanMessage(p.Detail); detail != "" {
		e.Message = detail
	}
	if p.Retryable != nil {
		e.Retryable = *p.Retryable
	}
	return e
}

func codeOf(status int) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return tool.CodeUnauthorized
	case status == http.StatusNotFound:
		return tool.CodeUnknownTool
	case status == http.StatusPreconditionFailed:
		return tool.CodeResourceChanged
	case passing(status):
		return tool.CodeUnavailable
	}
	return tool.CodeToolError
}

func passing(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}
