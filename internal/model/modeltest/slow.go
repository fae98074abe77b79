// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"context"
	"time"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

type slow struct {
	inner model.Model
	delay time.Duration
}

// Slow makes every call of inner take delay longer, before it is asked. Under testing/synctest the delay costs no time.
func Slow(inner model.Model, delay time.Duration) model.Model {
	return &slow{inner: inner, delay: delay}
}

// Complete waits, then asks the wrapped model.
func (s *slow) Complete(ctx context.Context, req run.ModelRequest) (run.Reply, error) {
	if err := model.Wait(ctx, s.delay); err != nil {
		return run.Reply{}, model.ContextError(err)
	}
	return s.inner.Complete(ctx, req)
}
