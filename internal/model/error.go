// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"time"
)

// A Reason says in one word why a model call failed. It is shown to users and used in metrics, so the set is closed.
type Reason string

// The reasons, and whether the same request may succeed later.
const (
	// ReasonUnavailable: no connection, 5xx, overloaded. Passing.
	ReasonUnavailable Reason = "Unavailable"
	// ReasonRateLimited: 429. Passing; RetryAfter may advise.
	ReasonRateLimited Reason = "RateLimited"
	// ReasonTimeout: the call's time ran out, here or at the provider. Passing.
	ReasonTimeout Reason = "Timeout"
	// ReasonMalformed: the answer is not what the API promises, or passes a limit. Passing: another sample may be fine.
	ReasonMalformed Reason = "Malformed"
	// ReasonUnauthorized: 401, 402 or 403. Permanent.
	ReasonUnauthorized Reason = "Unauthorized"
	// ReasonNotFound: 404, an unknown or retired model. Permanent.
	ReasonNotFound Reason = "NotFound"
	// ReasonContextLength: the request does not fit the model's window. Permanent.
	ReasonContextLength Reason = "ContextLength"
	// ReasonInvalidRequest: any other 4xx. Permanent.
	ReasonInvalidRequest Reason = "InvalidRequest"
	// ReasonRefused: the provider's filter stopped the request. Permanent.
	ReasonRefused Reason = "Refused"
)

// Permanent reports whether the same request can never succeed.
func (r Reason) Permanent() bool {
	switch r {
	case ReasonUnauthorized, ReasonNotFound, ReasonContextLength, ReasonInvalidRequest, ReasonRefused:
		return true
	case ReasonUnavailable, ReasonRateLimited, ReasonTimeout, ReasonMalformed:
		return false
	}
	return false
}

// Unseen reports whether the request certainly cost nothing: the provider refused it before the model saw it.
func (r Reason) Unseen() bool {
	switch r {
	case ReasonRateLimited, ReasonUnauthorized, ReasonNotFound, ReasonContextLength, ReasonInvalidRequest:
		return true
	case ReasonUnavailable, ReasonTimeout, ReasonMalformed, ReasonRefused:
		return false
	}
	return false
}

// Overload reports whether another model may answer what this one can't now.
func (r Reason) Overload() bool {
	return r == ReasonUnavailable || r == ReasonRateLimited || r == ReasonTimeout
}

// Error is a failed model call: why, what to do about it, and the cause.
type Error struct {
	Reason Reason
	// RetryAfter is the provider's advice; zero means none.
	RetryAfter time.Duration
	// Message is safe to show to users: no credential, header or body of the provider is in it.
	Message string
	// Err is the cause, for logs of the adapter's own tests; it is never shown or stored.
	Err error
}

// Error gives the reason and the safe message only.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
