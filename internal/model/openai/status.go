// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"fmt"
	"io"
	"net/http"

	"github.com/interlock-dev/interlock/internal/model"
)

// statusOverloaded is what some providers say instead of 503.
const statusOverloaded = 529

// statusFailure is for an answer that is no success.
func (a *adapter) statusFailure(resp *http.Response) *model.Error {
	d := a.detail(resp)
	reason, sentence := classify(resp.StatusCode, d)
	failed := &model.Error{Reason: reason, Message: sentence + " (" + d.describe(resp.StatusCode) + ")"}
	if !reason.Permanent() {
		failed.RetryAfter = retryAfter(resp.Header)
	}
	return failed
}

// detail reads what the body says of the error. A body that was too long or never came leaves it empty.
func (a *adapter) detail(resp *http.Response) detail {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	if err != nil {
		return detail{}
	}
	return parseDetail(body, a.safe)
}

func (d detail) describe(status int) string {
	if d.code == "" {
		return fmt.Sprintf("status %d", status)
	}
	return fmt.Sprintf("status %d, code %s", status, d.code)
}

// classify sorts an answer by its status and, where the status does not say enough, by what the body says.
func classify(status int, d detail) (model.Reason, string) {
	switch status {
	case http.StatusMovedPermanently, http.StatusPermanentRedirect:
		return model.ReasonInvalidRequest, "the endpoint has moved; redirects are not followed, so the base URL must be changed"
	case http.StatusUnauthorized:
		return model.ReasonUnauthorized, "the provider does not accept the credential"
	case http.StatusPaymentRequired:
		return model.ReasonUnauthorized, "the provider asks for payment"
	case http.StatusForbidden:
		return model.ReasonUnauthorized, "the provider does not allow this request with this credential"
	case http.StatusNotFound, http.StatusGone:
		return model.ReasonNotFound, "the provider knows no such model, or no such address"
	case http.StatusRequestTimeout:
		return model.ReasonTimeout, "the provider's time for the request ran out"
	case http.StatusConflict:
		return model.ReasonUnavailable, "the provider is busy with a conflicting request"
	case http.StatusTooManyRequests:
		if d.isQuota() {
			return model.ReasonUnauthorized, "the account's quota is used up"
		}
		return model.ReasonRateLimited, "the provider limits the rate of requests"
	case http.StatusServiceUnavailable, statusOverloaded:
		return model.ReasonUnavailable, "the provider is overloaded or down"
	}
	return classifyRest(status, d)
}

func classifyRest(status int, d detail) (model.Reason, string) {
	switch {
	case status >= 500:
		return model.ReasonUnavailable, "the provider failed"
	case status < 400:
		return model.ReasonUnavailable, "the endpoint answers with something else than a reply; redirects are not followed"
	case d.isContextLength():
		return model.ReasonContextLength, "the request does not fit the model's context window"
	case d.isPolicy():
		return model.ReasonRefused, "the provider's content policy stopped the request"
	case d.isUnknownModel():
		return model.ReasonNotFound, "the provider knows no such model"
	}
	return model.ReasonInvalidRequest, "the provider does not accept the request"
}
