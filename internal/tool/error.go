// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"fmt"
	"time"
)

// An Outcome says what is known of a call that failed.
type Outcome string

// The outcomes.
const (
	// NotSent: the server has not seen the call.
	NotSent Outcome = "NotSent"
	// Refused: the server answered, and says that it did not do it.
	Refused Outcome = "Refused"
	// InDoubt: the server may have acted. A write in doubt is never sent again on its own.
	InDoubt Outcome = "InDoubt"
)

// Codes that adapters give themselves. A server's own code, sanitised, is passed on as it is.
const (
	// CodeUnavailable: no connection, or the server said 5xx or 429 with no code of its own.
	CodeUnavailable = "Unavailable"
	// CodeTimeout: no answer within the call's time.
	CodeTimeout = "Timeout"
	// CodeUnknownTool: the server has no such tool.
	CodeUnknownTool = "UnknownTool"
	// CodeMalformedResult: the answer is not what the protocol promises, or passes a limit.
	CodeMalformedResult = "MalformedResult"
	// CodeToolError: the tool says that it failed, with no code of its own.
	CodeToolError = "ToolError"
	// CodeUnauthorized: the server did not accept the caller.
	CodeUnauthorized = "Unauthorized"
	// CodeUnknownOperation: the server has done nothing under the operation ID.
	CodeUnknownOperation = "UnknownOperation"
	// CodeOperationInProgress: the operation is under way.
	CodeOperationInProgress = "OperationInProgress"
	// CodeResourceChanged: what the call would change is not as it was previewed.
	CodeResourceChanged = "ResourceChanged"
	// CodePreviewTooLarge: the preview is longer than people could be shown.
	CodePreviewTooLarge = "PreviewTooLarge"
)

// Error is a failed call: what is known of it, and why.
type Error struct {
	// Code is CamelCase, at most 64 characters of [A-Za-z0-9]; it goes to the model and into status.
	Code string
	// Message goes to the model. It is bounded (MaxMessageBytes), and holds no header, credential or stack trace.
	Message string
	Outcome Outcome
	// Changed: what was previewed does not hold any more; a new preview may.
	Changed bool
	// Retryable: the same call may succeed later. RetryAfter is the server's advice; zero means none.
	Retryable  bool
	RetryAfter time.Duration
	// Down: the server is down or overloaded, whatever its code says.
	Down bool
	// Err is the cause; it is never shown or stored.
	Err error
}

// MaxMessageBytes bounds Error.Message.
const MaxMessageBytes = 1024

// IsDown reports whether the failure says that the server is down, overloaded or too slow, rather than what it thinks of the call.
func (e *Error) IsDown() bool { return e.Down || e.Code == CodeUnavailable || e.Code == CodeTimeout }

// Error gives the code and the safe message only.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
