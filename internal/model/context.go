// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"errors"
	"time"
)

// Wait returns nil after d, or ctx's error as soon as ctx is done.
func Wait(ctx context.Context, d time.Duration) error {
	timed, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-timed.Done()
	return ctx.Err()
}

// ContextError is the failure of a call whose context is done: a timeout, whether time ran out or the caller gave up. It
// wraps err, so that the caller can tell the two apart.
func ContextError(err error) *Error {
	if errors.Is(err, context.Canceled) {
		return &Error{Reason: ReasonTimeout, Message: "the call was cancelled before the model answered", Err: context.Canceled}
	}
	return &Error{Reason: ReasonTimeout, Message: "the call's time ran out before the model answered", Err: context.DeadlineExceeded}
}
