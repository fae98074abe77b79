// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-dev/interlock/internal/model"
)

func TestWait_lastsAsLongAsItWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := model.Wait(t.Context(), time.Hour); err != nil {
			t.Fatalf("Wait() = %v, want nil", err)
		}
		if got := time.Since(start); got != time.Hour {
			t.Errorf("Wait() took %v, want an hour", got)
		}
	})
}

func TestWait_endsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := model.Wait(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait() = %v, want the context's error", err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("Wait() took %v, want a second", got)
		}
	})
}

func TestContextError_tellsCancelFromDeadline(t *testing.T) {
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		err := model.ContextError(cause)
		if err.Reason != model.ReasonTimeout || !errors.Is(err, cause) {
			t.Errorf("ContextError(%v) = %v (wraps %v), want a timeout that wraps its cause", cause, err, err.Err)
		}
	}
}
