// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import "fmt"

// A Code says what went wrong, for programs.
type Code string

// The codes.
const (
	// MalformedRequest: what was sent is not one unambiguous JSON text, or breaks the protocol in another way.
	MalformedRequest Code = "MalformedRequest"
	// InvalidArguments: the arguments break the tool's schema or one of its rules.
	InvalidArguments Code = "InvalidArguments"
	// UnknownTool: there is no tool of that name.
	UnknownTool Code = "UnknownTool"
	// NotFound: the arguments are fine, and name something that is not there.
	NotFound Code = "NotFound"
	// DeadlineExceeded: the caller does not wait any longer, or the call took too long.
	DeadlineExceeded Code = "DeadlineExceeded"
	// Overloaded: too many calls are under way.
	Overloaded Code = "Overloaded"
	// Internal: a bug of ours. The log says more, the answer does not.
	Internal Code = "Internal"
)

// Retryable says whether the very same call may succeed later.
func (c Code) Retryable() bool { return c == DeadlineExceeded || c == Overloaded }

// Error is a call that failed.
type Error struct {
	Code Code
	// Message may be shown to anybody. It holds nothing of our inside.
	Message string
}

// Error gives the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Errorf makes an Error whose message is formatted.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
