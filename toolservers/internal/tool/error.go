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

	// Unauthenticated: it is not known who calls.
	Unauthenticated Code = "Unauthenticated"
	// Forbidden: it is known who calls, and they may not do this.
	Forbidden Code = "Forbidden"

	// MissingPrecondition: a commit does not say what was previewed.
	MissingPrecondition Code = "MissingPrecondition"
	// ResourceChanged: what a commit touches is not as it was previewed.
	ResourceChanged Code = "ResourceChanged"
	// PreviewExpired: the preview was there, and is too old.
	PreviewExpired Code = "PreviewExpired"
	// UnknownPreview: there is no such preview of this operation.
	UnknownPreview Code = "UnknownPreview"
	// IdempotencyKeyReused: the operation's ID has come before with another call.
	IdempotencyKeyReused Code = "IdempotencyKeyReused"
	// OperationInProgress: the very same operation is under way.
	OperationInProgress Code = "OperationInProgress"
	// UnknownOperation: nothing was done under that ID, or it was somebody else.
	UnknownOperation Code = "UnknownOperation"
)

// Retryable says whether the very same call may succeed later.
func (c Code) Retryable() bool {
	return c == DeadlineExceeded || c == Overloaded || c == OperationInProgress
}

// Error is a call that failed.
type Error struct {
	Code Code
	// Message may be shown to anybody. It holds nothing of our inside.
	Message string
	// Status is the HTTP status of a code that is the tool's own; zero for the codes above, which have theirs.
	Status int
}

// Error gives the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Errorf makes an Error whose message is formatted.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Refusef makes an Error with a code of the tool's own: the operation can't be done as things stand.
func Refusef(status int, code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Status: status}
}
