// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/interlock-dev/interlock/toolservers/catalog/tool"
)

// The codes that only this protocol has.
const (
	codeMissingIdempotencyKey tool.Code = "MissingIdempotencyKey"
	codeUnsupportedMediaType  tool.Code = "UnsupportedMediaType"
	codePayloadTooLarge       tool.Code = "PayloadTooLarge"
	codeUnknownPath           tool.Code = "UnknownPath"
	codeMethodNotAllowed      tool.Code = "MethodNotAllowed"
)

// retryAfterSeconds is the advice to whoever found us overloaded. Calls take milliseconds.
const retryAfterSeconds = "1"

// kinds says how each code is sent. Titles never change, so that people can search for them.
var kinds = map[tool.Code]struct {
	status int
	title  string
}{
	tool.MalformedRequest:     {http.StatusBadRequest, "The request is malformed"},
	codeMissingIdempotencyKey: {http.StatusBadRequest, "The request does not name its operation"},
	tool.UnknownTool:          {http.StatusNotFound, "There is no such tool"},
	tool.NotFound:             {http.StatusNotFound, "What the arguments name is not there"},
	codeUnknownPath:           {http.StatusNotFound, "Nothing is served here"},
	codeMethodNotAllowed:      {http.StatusMethodNotAllowed, "The method does not fit"},
	codePayloadTooLarge:       {http.StatusRequestEntityTooLarge, "The arguments are too large"},
	codeUnsupportedMediaType:  {http.StatusUnsupportedMediaType, "The arguments are not JSON"},
	tool.InvalidArguments:     {http.StatusUnprocessableEntity, "The arguments are invalid"},
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

// writeError sends a failed call.
func writeError(w http.ResponseWriter, r *http.Request, err *tool.Error) {
	note(r).code = err.Code
	writeProblem(w, err.Code, err.Message)
}

func writeProblem(w http.ResponseWriter, code tool.Code, detail string) {
	kind, ok := kinds[code]
	if !ok {
		code, kind = tool.Internal, kinds[tool.Internal]
	}
	if code == tool.Overloaded {
		w.Header().Set("Retry-After", retryAfterSeconds)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(kind.status)
	_ = json.NewEncoder(w).Encode(problem{
		Type:      "urn:interlock:problem:" + string(code),
		Title:     kind.title,
		Status:    kind.status,
		Detail:    detail,
		Code:      code,
		Retryable: code.Retryable(),
	})
}
