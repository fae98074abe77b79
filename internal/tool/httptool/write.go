// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
	"github.com/interlock-dev/interlock/internal/tool"
)

var _ tool.Writer = (*server)(nil)

// previewAnswer is the body of a preview.
type previewAnswer struct {
	OperationID string          `json:"operationId"`
	Preview     json.RawMessage `json:"preview"`
}

// preview is what we need to know of one; people are shown the rest of it as well.
type preview struct {
	ID              string    `json:"id"`
	ResourceVersion string    `json:"resourceVersion"`
	Summary         string    `json:"summary"`
	Changes         string    `json:"changes"`
	ExpiresAt       time.Time `json:"expiresAt"`
}

// What a preview's name and version look like, so that they can be sent back in headers.
var (
	previewID       = regexp.MustCompile(`^[!-~]{1,1000}$`)
	resourceVersion = regexp.MustCompile(`^[!#-~]{1,256}$`)
)

// Preview implements tool.Writer.
func (s *server) Preview(ctx context.Context, call run.ToolCall) (run.ToolPreview, error) {
	body, err := s.post(ctx, call, "preview", http.Header{})
	if err != nil {
		return run.ToolPreview{}, err
	}
	var a previewAnswer
	if err := json.Unmarshal(body, &a); err != nil || a.OperationID != call.OperationID {
		return run.ToolPreview{}, malformed("The preview is not what the protocol promises.")
	}
	if len(a.Preview) > 4*run.MaxPreviewBytes {
		return run.ToolPreview{}, tooLarge()
	}
	// One unambiguous object: what people see is what was hashed.
	canonical, err := arguments.Canonical(string(a.Preview))
	var p preview
	if err != nil || json.Unmarshal(canonical, &p) != nil || p.Summary == "" || !previewID.MatchString(p.ID) || !resourceVersion.MatchString(p.ResourceVersion) {
		return run.ToolPreview{}, malformed("The preview is not what the protocol promises.")
	}
	if len(canonical) > run.MaxPreviewBytes {
		return run.ToolPreview{}, tooLarge()
	}
	return run.ToolPreview{
		ID: p.ID, ResourceVersion: p.ResourceVersion, Summary: text.Clip(text.Clean(p.Summary), maxSummary), Changes: text.Clean(p.Changes),
		Expires: p.ExpiresAt, Canonical: canonical,
	}, nil
}

// maxSummary bounds a preview's summary, in bytes.
const maxSummary = 1024

func tooLarge() *tool.Error {
	return &tool.Error{
		Code: tool.CodePreviewTooLarge, Outcome: tool.Refused,
		Message: fmt.Sprintf("The preview is longer than the %d bytes that people can be shown, so the call can't be approved. Ask for less at a time.", run.MaxPreviewBytes),
	}
}

// operation is the body of GET /v1/operations/{id}.
type operation struct {
	OperationID string          `json:"operationId"`
	State       string          `json:"state"`
	Result      json.RawMessage `json:"result"`
	Problem     *problem        `json:"problem"`
}

// LookUp implements tool.Writer.
func (s *server) LookUp(ctx context.Context, call run.ToolCall) (run.ToolResult, error) {
	address := s.base.JoinPath("v1", "operations", url.PathEscape(call.OperationID)).String()
	body, err := s.exchange(ctx, http.MethodGet, address, http.Header{}, call)
	if err != nil {
		return run.ToolResult{}, inDoubt(err)
	}
	var o operation
	if err := json.Unmarshal(body, &o); err != nil || o.OperationID != call.OperationID {
		return run.ToolResult{}, malformed("What the server says of the operation is not what the protocol promises.")
	}
	switch {
	case o.State == "Succeeded" && o.Result != nil:
		return resultOf(call, o.Result)
	case o.State == "Failed" && o.Problem != nil:
		e := &tool.Error{Code: tool.CodeToolError, Message: "The tool server says that the operation failed.", Outcome: tool.Refused}
		return run.ToolResult{}, o.Problem.fill(e)
	case o.State == "InProgress":
		return run.ToolResult{}, &tool.Error{
			Code: tool.CodeOperationInProgress, Message: "The operation is under way.", Outcome: tool.InDoubt, Retryable: true,
		}
	}
	return run.ToolResult{}, malformed("What the server says of the operation is not what the protocol promises.")
}

// inDoubt makes an error of the question one of the operation: only a server that says that it does not know the operation
// has answered.
func inDoubt(err error) error {
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || (e.Code == tool.CodeUnknownOperation && e.Outcome == tool.Refused) {
		return err
	}
	doubt := *e
	doubt.Outcome, doubt.Retryable = tool.InDoubt, true
	return &doubt
}
