// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/interlock-dev/interlock/internal/model"
)

// failure says what went wrong, and nil if nothing did. It goes by the response before the SDK's error: the SDK takes a
// redirect for a success, and loses the status of an error whose body it cannot read.
func (a *adapter) failure(ctx context.Context, resp *http.Response, err error) *model.Error {
	switch {
	case err != nil && ctx.Err() != nil:
		return model.ContextError(ctx.Err())
	case err != nil && resp == nil:
		return connectionFailure(err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return a.statusFailure(resp)
	case err != nil:
		return bodyFailure(err)
	}
	return nil
}

// connectionFailure is for a call that got no answer at all.
func connectionFailure(err error) *model.Error {
	var op *net.OpError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return &model.Error{Reason: model.ReasonUnavailable, Message: "the endpoint's certificate was not accepted"}
	case errors.As(err, &op) && op.Op == "dial":
		return &model.Error{Reason: model.ReasonUnavailable, Message: "no connection to the endpoint", Err: op}
	case isTimeout(err):
		return &model.Error{Reason: model.ReasonTimeout, Message: "the endpoint did not answer in time"}
	}
	return &model.Error{Reason: model.ReasonUnavailable, Message: "the connection was lost before an answer came", Err: cause(err)}
}

// bodyFailure is for an answer that says 200 and cannot be read.
func bodyFailure(err error) *model.Error {
	var op *net.OpError
	switch {
	case errors.Is(err, errBodyTooLong):
		return malformed("the answer is longer than an answer may be")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("the answer was cut off")
	case isTimeout(err):
		return &model.Error{Reason: model.ReasonTimeout, Message: "the endpoint stopped amid its answer"}
	case errors.As(err, &op):
		return &model.Error{Reason: model.ReasonUnavailable, Message: "the connection was lost amid the answer", Err: op}
	}
	return malformed("the answer is not the JSON of a chat completion")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// cause keeps only errors of the connection: others of net/http quote what the server sent.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op
	}
	var request *url.Error
	if errors.As(err, &request) && errors.Is(request.Err, io.EOF) {
		return io.EOF
	}
	return nil
}
