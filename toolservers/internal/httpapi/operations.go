// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// operation serves GET /v1/operations/{id}.
func (h *Handler) operation(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		writeProblem(w, codeMethodNotAllowed, "an operation is only read")
		return
	}
	who, err := h.authenticate(r)
	if err != nil {
		WriteError(w, r, err)
		return
	}
	id := r.PathValue("id")
	if !operationID.MatchString(id) {
		WriteError(w, r, tool.Errorf(tool.UnknownOperation, "no operation can have such an ID"))
		return
	}
	note(r).operationID = id
	state, err := h.runner.Ask(r.Context(), h.ledger, id, who.principal)
	if err != nil {
		WriteError(w, r, err)
		return
	}
	body := operation{OperationID: id, State: state.State}
	if state.Result != nil {
		body.Result = &invocation{id, *state.Result}
	}
	if state.Failure != nil {
		body.Problem = new(asProblem(state.Failure))
	}
	h.write(w, r, body)
}
