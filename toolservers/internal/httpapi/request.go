// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// The headers of the protocol.
const (
	headerKey      = "Idempotency-Key"
	headerDeadline = "Interlock-Deadline"
	headerMatch    = "If-Match"
	headerPreview  = "Interlock-Preview"
)

// operationID is what a key may look like. It is repeated in the answer and in the log, so it has to be harmless in both.
var operationID = regexp.MustCompile(`^[!-~]{1,128}$`)

// What a commit says of its preview. The entity tag is a strong one: a weak one would not say that nothing has changed.
var (
	entityTag = regexp.MustCompile(`^"([!#-~]{1,256})"$`)
	previewID = regexp.MustCompile(`^[!-~]+$`)
)

const maxPreviewID = 1024

// call is what a request asks for.
type call struct {
	tool.Operation
	header http.Header
	// deadline is when the caller stops waiting; zero if it did not say.
	deadline time.Time
}

// readCall gives as much as could be read before an error.
func readCall(w http.ResponseWriter, r *http.Request) (c call, err *tool.Error) {
	c.header = r.Header
	if c.ID, err = readKey(r.Header.Values(headerKey)); err != nil {
		return c, err
	}
	if c.deadline, err = readDeadline(r.Header.Values(headerDeadline)); err != nil {
		return c, err
	}
	c.Arguments, err = readArguments(w, r)
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

// readPrecondition takes no list of versions and no *: a commit is bound to one preview.
func readPrecondition(h http.Header) (p tool.Precondition, err *tool.Error) {
	versions, ids := h.Values(headerMatch), h.Values(headerPreview)
	if len(versions) == 0 || len(ids) == 0 {
		return p, tool.Errorf(tool.MissingPrecondition, "a commit needs the headers If-Match and Interlock-Preview")
	}
	tag := entityTag.FindStringSubmatch(versions[0])
	switch {
	case len(versions) > 1 || tag == nil:
		return p, tool.Errorf(tool.MalformedRequest, "the header If-Match is not one resourceVersion in double quotes")
	case len(ids) > 1 || len(ids[0]) > maxPreviewID || !previewID.MatchString(ids[0]):
		return p, tool.Errorf(tool.MalformedRequest, "the header Interlock-Preview is not the ID of a preview")
	}
	return tool.Precondition{PreviewID: ids[0], ResourceVersion: tag[1]}, nil
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
