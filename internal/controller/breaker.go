// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/effect"
	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/run"
)

func tripOf(b *v1alpha1.CircuitBreaker) effect.Trip {
	if b == nil {
		return effect.Trip{}
	}
	return effect.Trip{Failures: int(b.Failures), Open: time.Duration(b.OpenSeconds) * time.Second}
}

// breaker gives the breaker of a binding; nil if it has none.
func (ts *Tools) breaker(b *v1alpha1.ToolBinding) *effect.Breaker {
	return ts.breakers.Get(string(b.UID), tripOf(b.Spec.Breaker), func() { ts.wake.Wake(client.ObjectKeyFromObject(b)) })
}

// breaker gives the breaker of a binding; nil if it has none.
func (ms *Models) breaker(b *v1alpha1.ModelBinding) *effect.Breaker {
	return ms.breakers.Get(string(b.UID), tripOf(b.Spec.Breaker), func() { ms.wake.Wake(client.ObjectKeyFromObject(b)) })
}

// breakerOpen is the failure of an attempt that was not sent. It is made again until the deadline, as soon as that is of use.
func breakerOpen(binding string, wait time.Duration) run.Failure {
	return run.Failure{
		Code: run.CodeBreakerOpen, Message: fmt.Sprintf("Nothing was sent: %s has been down, so it is left alone for a while.", binding),
		Unsent: true, Retryable: true, RetryAfter: wait, MaxAttempts: math.MaxInt, Backoff: time.Second,
	}
}

// toolHealth is what an attempt says of a tool server.
func toolHealth(ctx context.Context, err error) effect.Health {
	if err == nil {
		return effect.Well
	}
	failed := toolError(err)
	return health(ctx, failed == nil || failed.IsDown())
}

// modelHealth is what an attempt says of a model.
func modelHealth(ctx context.Context, err error) effect.Health {
	if err == nil {
		return effect.Well
	}
	failed := modelError(err)
	return health(ctx, failed == nil || failed.Reason == model.ReasonUnavailable || failed.Reason == model.ReasonRateLimited || failed.Reason == model.ReasonTimeout)
}

// health is that of the other side, unless it was we who gave up: the run was ended, or its deadline came.
func health(ctx context.Context, down bool) effect.Health {
	switch {
	case !down:
		return effect.Well
	case errors.Is(context.Cause(ctx), context.Canceled), errors.Is(context.Cause(ctx), effect.ErrDeadline):
		return effect.Unclear
	}
	return effect.Ill
}

// throughBreaker makes an attempt, or a refusal if the breaker is open.
func (r *AgentRunReconciler) throughBreaker(b *v1alpha1.ToolBinding, attempt func() effect.Health) error {
	if wait, tried := r.Tools.breaker(b).Try(attempt); !tried {
		return new(refusal(breakerOpen("the tool "+b.Name, wait)))
	}
	return nil
}

// A BreakerGauge is 1 for each binding whose breaker is not closed, and 0 for each other that has one.
type BreakerGauge struct{ *prometheus.GaugeVec }

// NewBreakerGauge makes a BreakerGauge.
func NewBreakerGauge() BreakerGauge {
	return BreakerGauge{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "interlock_breaker_open",
		Help: "1 while the breaker of a binding keeps calls from the other side, which has been down; 0 while it is closed.",
	}, []string{"kind", "namespace", "name"})}
}

// set takes note of how the breaker of a binding stands. The zero BreakerGauge takes none.
func (g BreakerGauge) set(kind string, o client.Object, s *v1alpha1.BreakerStatus) {
	switch {
	case g.GaugeVec == nil:
	case s == nil:
		g.DeleteLabelValues(kind, o.GetNamespace(), o.GetName())
	case s.State == v1alpha1.BreakerClosed:
		g.WithLabelValues(kind, o.GetNamespace(), o.GetName()).Set(0)
	default:
		g.WithLabelValues(kind, o.GetNamespace(), o.GetName()).Set(1)
	}
}

// breakerStatus says how a breaker stands, and when to look again. What has not changed is left as it was written.
func breakerStatus(b *effect.Breaker, old *v1alpha1.BreakerStatus, now time.Time) (*v1alpha1.BreakerStatus, ctrl.Result) {
	if b == nil {
		return nil, ctrl.Result{}
	}
	report := b.Report()
	status := &v1alpha1.BreakerStatus{
		State: v1alpha1.BreakerState(report.State), Since: metav1.NewTime(report.Since.Truncate(time.Second)),
		Failures: int32(min(report.Failures, math.MaxInt32)), //nolint:gosec // it is bounded
	}
	if old != nil && old.State == v1alpha1.BreakerClosed && status.State == v1alpha1.BreakerClosed {
		status = old
	}
	again := ctrl.Result{}
	if !report.Until.IsZero() {
		// A moment later, since it opens after that, not then.
		again.RequeueAfter = max(report.Until.Sub(now), 0) + 10*time.Millisecond
	}
	return status, again
}

// recordBreaker writes a status in which only the breaker is news, and tells of it.
func recordBreaker(ctx context.Context, c client.Client, recorder events.EventRecorder, updated client.Object, old, now *v1alpha1.BreakerStatus) error {
	if err := c.Status().Update(ctx, updated); err != nil {
		return fmt.Errorf("recording how the breaker stands: %w", err)
	}
	tellBreaker(recorder, updated, old, now)
	return nil
}

// tellBreaker makes an event of a breaker that has changed.
func tellBreaker(recorder events.EventRecorder, o client.Object, old, now *v1alpha1.BreakerStatus) {
	if now == nil || (old == nil && now.State == v1alpha1.BreakerClosed) || (old != nil && old.State == now.State) {
		return
	}
	switch now.State {
	case v1alpha1.BreakerOpen:
		recorder.Eventf(o, nil, corev1.EventTypeWarning, v1alpha1.ReasonBreakerOpened, "Reconcile",
			"%d attempts in a row failed since the other side is down: nothing is sent for a while (spec.breaker).", now.Failures)
	case v1alpha1.BreakerHalfOpen:
		recorder.Eventf(o, nil, corev1.EventTypeNormal, v1alpha1.ReasonBreakerHalfOpen, "Reconcile", "The next attempt is sent, to see whether it is answered.")
	case v1alpha1.BreakerClosed:
		recorder.Eventf(o, nil, corev1.EventTypeNormal, v1alpha1.ReasonBreakerClosed, "Reconcile", "Everything is sent again.")
	}
}

// sooner is the earlier of two times to look again.
func sooner(a, b ctrl.Result) ctrl.Result {
	if a.RequeueAfter == 0 || (b.RequeueAfter > 0 && b.RequeueAfter < a.RequeueAfter) {
		return b
	}
	return a
}
