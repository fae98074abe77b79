// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// invocation is the answer to a call that was done.
type invocation struct {
	OperationID string `json:"operationId"`
	tool.Result
}

// previewAnswer is the answer to a preview.
type previewAnswer struct {
	OperationID string       `json:"operationId"`
	Preview     tool.Preview `json:"preview"`
}

// operation is the answer to the question for an operation.
type operation struct {
	OperationID string      `json:"operationId"`
	State       tool.State  `json:"state"`
	Result      *invocation `json:"result,omitempty"`
	Problem     *problem    `json:"problem,omitempty"`
}

// write encodes before it sends, so that an answer is whole or an error.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, body any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		h.log.ErrorContext(r.Context(), "encoding an answer", "error", err)
		WriteError(w, r, tool.Errorf(tool.Internal, "the tool server failed"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes())
}
