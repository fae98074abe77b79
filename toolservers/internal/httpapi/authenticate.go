// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// An Authenticator finds out who calls.
type Authenticator interface {
	// Authenticate gives the principal that the token stands for, or fails with Unauthenticated. Another *tool.Error says
	// that it can't be found out, and any other error is reported as Internal, without its text.
	Authenticate(ctx context.Context, bearerToken string) (principal string, err error)
}

// caller is who calls; empty where the server does not authenticate.
type caller struct {
	principal string
	token     string
}

// authenticate does not read the token if nobody could judge it.
func (h *Handler) authenticate(r *http.Request) (caller, *tool.Error) {
	if h.authenticator == nil {
		return caller{}, nil
	}
	token, ok := bearer(r.Header.Values("Authorization"))
	if !ok {
		return caller{}, tool.Errorf(tool.Unauthenticated, "the header Authorization has to hold one bearer token")
	}
	principal, err := h.authenticator.Authenticate(r.Context(), token)
	if known, ok := errors.AsType[*tool.Error](err); ok {
		return caller{}, known
	}
	if err != nil {
		h.log.ErrorContext(r.Context(), "authenticating failed", "error", err)
		return caller{}, tool.Errorf(tool.Internal, "the tool server failed")
	}
	note(r).principal = principal
	return caller{principal, token}, nil
}

func bearer(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}
