// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// The codes that only this protocol has.
const (
	codeMissingIdempotencyKey tool.Code = "MissingIdempotencyKey"
	codeUnsupportedMediaType  tool.Code = "UnsupportedMediaType"
	codePayloadTooLarge       tool.Code = "PayloadTooLarge"
	codeUnknownPath           tool.Code = "UnknownPath"
	codeMethodNotAllowed      tool.Code = "MethodNotAllowed"
)

// retryAfterSeconds is the advice to whoever found us busy. Calls take milliseconds.
const retryAfterSeconds = "1"

// kinds says how each code is sent. Titles never change, so that people can search for them.
var kinds = map[tool.Code]struct {
	status int
	title  string
}{
	tool.MalformedRequest:     {http.StatusBadRequest, "The request is malformed"},
	codeMissingIdempotencyKey: {http.StatusBadRequest, "The request does not name its operation"},
	tool.Unauthenticated:      {http.StatusUnauthorized, "It is not known who calls"},
	tool.Forbidden:            {http.StatusForbidden, "The caller may not do this"},
	tool.UnknownTool:          {http.StatusNotFound, "There is no such tool"},
	tool.NotFound:             {http.StatusNotFound, "What the arguments name is not there"},
	tool.UnknownOperation:     {http.StatusNotFound, "Nothing was done under this ID"},
	codeUnknownPath:           {http.StatusNotFound, "Nothing is served here"},
	codeMethodNotAllowed:      {http.StatusMethodNotAllowed, "The method does not fit"},
	tool.OperationInProgress:  {http.StatusConflict, "The operation is under way"},
	tool.ResourceChanged:      {http.StatusPreconditionFailed, "It is not as it was previewed"},
	tool.PreviewExpired:       {http.StatusPreconditionFailed, "The preview has expired"},
	tool.UnknownPreview:       {http.StatusPreconditionFailed, "There is no such preview"},
	codePayloadTooLarge:       {http.StatusRequestEntityTooLarge, "The arguments are too large"},
	codeUnsupportedMediaType:  {http.StatusUnsupportedMediaType, "The arguments are not JSON"},
	tool.InvalidArguments:     {http.StatusUnprocessableEntity, "The arguments are invalid"},
	tool.IdempotencyKeyReused: {http.StatusUnprocessableEntity, "The operation's ID has come before"},
	tool.MissingPrecondition:  {http.StatusPreconditionRequired, "The commit does not say what was previewed"},
	tool.Internal:             {http.StatusInternalServerError, "The tool server failed"},
	tool.Overloaded:           {http.StatusServiceUnavailable, "The tool server is overloaded"},
	tool.DeadlineExceeded:     {http.StatusGatewayTimeout, "The call was not done in time"},
}

// problem is an RFC 9457 problem detail.
type problem struct {
	Type      string    `json:"type"`
	Title     string    `json:"title"`
	Status    int       `json:"status"`
	Detail    string    `json:"detail"`
	Code      tool.Code `json:"code"`
	Retryable bool      `json:"retryable"`
}

// titleOfOwn is the title of all codes that are a tool's own.
const titleOfOwn = "The operation can't be done as things stand"

// asProblem tells a failure as the protocol does. One of which it isn't clear how to send it is a bug of ours.
func asProblem(err *tool.Error) problem {
	kind, ok := kinds[err.Code]
	if !ok && err.Status >= http.StatusBadRequest {
		kind.status, kind.title, ok = err.Status, titleOfOwn, true
	}
	if !ok {
		return asProblem(tool.Errorf(tool.Internal, "the tool server failed"))
	}
	return problem{
		Type:      "urn:interlock:problem:" + string(err.Code),
		Title:     kind.title,
		Status:    kind.status,
		Detail:    err.Message,
		Code:      err.Code,
		Retryable: err.Code.Retryable(),
	}
}

// WriteError sends a failed call. It is for those who wrap a Handler, too.
func WriteError(w http.ResponseWriter, r *http.Request, err *tool.Error) {
	note(r).code = err.Code
	send(w, asProblem(err))
}

// writeProblem sends what failed before there was a call.
func writeProblem(w http.ResponseWriter, code tool.Code, detail string) {
	send(w, asProblem(tool.Errorf(code, "%s", detail)))
}

func send(w http.ResponseWriter, p problem) {
	if p.Code == tool.Overloaded || p.Code == tool.OperationInProgress {
		w.Header().Set("Retry-After", retryAfterSeconds)
	}
	if p.Code == tool.Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}
