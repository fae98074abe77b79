// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/interlock-dev/interlock/toolservers/catalog/tool"
)

// The headers of the protocol.
const (
	headerKey      = "Idempotency-Key"
	headerDeadline = "Interlock-Deadline"
)

// operationID is what a key may look like. It is repeated in the answer and in the log, so it has to be harmless in both.
var operationID = regexp.MustCompile(`^[!-~]{1,128}$`)

// invocation is the answer's body.
type invocation struct {
	OperationID   string          `json:"operationId"`
	ObservedAt    time.Time       `json:"observedAt"`
	SourceVersion string          `json:"sourceVersion"`
	Data          json.RawMessage `json:"data"`
	Sources       []tool.Source   `json:"sources"`
}

// invoke serves POST /v1/tools/{tool}:invoke. It is matched by hand, since a ServeMux wildcard takes a whole segment.
//
// Tools only read, so the key needs no memory: the same call gives the same answer again.
func (h *Handler) invoke(w http.ResponseWriter, r *http.Request) {
	name, isInvoke := strings.CutSuffix(r.PathValue("call"), ":invoke")
	switch {
	case !isInvoke:
		writeProblem(w, codeUnknownPath, "a tool is called at /v1/tools/{tool}:invoke")
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		writeProblem(w, codeMethodNotAllowed, "a tool is called with POST")
		return
	case !h.runner.Has(name):
		writeProblem(w, tool.UnknownTool, "there is no such tool")
		return
	}
	note(r).tool = name

	c, err := readCall(w, r)
	note(r).operationID = c.key
	if err != nil {
		writeError(w, r, err)
		return
	}
	ctx := r.Context()
	if !c.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.deadline)
		defer cancel()
	}
	result, err := h.runner.Call(ctx, name, c.arguments)
	if err != nil {
		writeError(w, r, err)
		return
	}
	h.write(w, r, invocation{c.key, result.ObservedAt, result.SourceVersion, result.Data, result.Sources})
}

// write encodes before it sends, so that an answer is whole or an error.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, body invocation) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		h.log.ErrorContext(r.Context(), "encoding an answer", "error", err)
		writeError(w, r, tool.Errorf(tool.Internal, "the tool server failed"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes())
}

// call is what a request asks for.
type call struct {
	key string
	// deadline is when the caller stops waiting; zero if it did not say.
	deadline  time.Time
	arguments json.RawMessage
}

// readCall gives as much as could be read before an error.
func readCall(w http.ResponseWriter, r *http.Request) (c call, err *tool.Error) {
	if c.key, err = readKey(r.Header.Values(headerKey)); err != nil {
		return c, err
	}
	if c.deadline, err = readDeadline(r.Header.Values(headerDeadline)); err != nil {
		return c, err
	}
	c.arguments, err = readArguments(w, r)
	return c, err
}

func readKey(values []string) (string, *tool.Error) {
	if len(values) == 0 || values[0] == "" {
		return "", tool.Errorf(codeMissingIdempotencyKey, "the header Idempotency-Key has to name the operation")
	}
	if len(values) > 1 || !operationID.MatchString(values[0]) {
		return "", tool.Errorf(tool.MalformedRequest, "the header Idempotency-Key is not 1 to 128 visible ASCII characters")
	}
	return values[0], nil
}

func readDeadline(values []string) (time.Time, *tool.Error) {
	if len(values) == 0 {
		return time.Time{}, nil
	}
	deadline, err := time.Parse(time.RFC3339, values[0])
	if err != nil || len(values) > 1 || !strings.HasSuffix(values[0], "Z") {
		return time.Time{}, tool.Errorf(tool.MalformedRequest,
			"the header Interlock-Deadline is not an RFC 3339 instant in UTC, such as 2026-01-02T15:04:05Z")
	}
	return deadline, nil
}

func readArguments(w http.ResponseWriter, r *http.Request) (json.RawMessage, *tool.Error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, tool.Errorf(codeUnsupportedMediaType, "the arguments have to be sent as application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, tool.MaxArgumentBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tool.Errorf(codePayloadTooLarge, "the arguments have more than %d bytes", tool.MaxArgumentBytes)
	}
	switch {
	case err != nil:
		return nil, tool.Errorf(tool.MalformedRequest, "the body ended early")
	case len(body) == 0:
		return nil, tool.Errorf(tool.MalformedRequest, "the body is empty; a call without arguments sends {}")
	}
	return body, nil
}
