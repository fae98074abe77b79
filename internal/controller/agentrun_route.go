// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// modelNames are the ModelBindings that a run may ask.
func modelNames(m v1alpha1.ModelSelection) []string {
	if m.Router == nil {
		return []string{m.Name}
	}
	names := make([]string, 0, len(m.Router.Candidates)+1)
	for _, c := range m.Router.Candidates {
		names = append(names, c.Name)
	}
	if m.Router.Chooser != "" {
		names = append(names, m.Router.Chooser)
	}
	return names
}

// router looks how the models of a run stand; nil for a run that has only one. O(candidates) reads from the cache.
func (r *AgentRunReconciler) router(ctx context.Context, agentRun *v1alpha1.AgentRun) (*run.Router, error) {
	spec := agentRun.Spec.Model.Router
	if spec == nil {
		return nil, nil
	}
	router := &run.Router{}
	for _, c := range spec.Candidates {
		o, err := r.offer(ctx, agentRun, c.Name)
		if err != nil {
			return nil, err
		}
		router.Candidates = append(router.Candidates, o)
	}
	if spec.Chooser == "" {
		return router, nil
	}
	chooser, err := r.offer(ctx, agentRun, spec.Chooser)
	router.Chooser = &chooser
	return router, err
}

// offer looks whether a run may ask a model, and on what terms.
func (r *AgentRunReconciler) offer(ctx context.Context, agentRun *v1alpha1.AgentRun, name string) (run.Offer, error) {
	b, err := r.modelBinding(ctx, agentRun, name)
	if client.IgnoreNotFound(err) != nil {
		return run.Offer{}, fmt.Errorf("reading ModelBinding %s: %w", name, err)
	}
	o := run.Offer{Model: name, Terms: termsOf(b)}
	switch {
	case apierrors.IsNotFound(err):
		o.Unfit = "does not exist"
	case b.Spec.Suspend:
		o.Unfit = "is suspended"
	default:
		o.Unfit = unusable(agentRun, b)
	}
	if o.Unfit != "" {
		o.Unfit = "ModelBinding " + name + " " + o.Unfit
	}
	return o, nil
}

// unusable says why a run can't ask a model that is there; empty if it can.
func unusable(agentRun *v1alpha1.AgentRun, b *v1alpha1.ModelBinding) string {
	if why := notReady(b.Status.Conditions, b.Generation); why != "" {
		return "is not ready: " + why
	}
	if b.Spec.Price == nil && agentRun.Spec.Limits.MaxCost != "" {
		return "has no price, and the run has a maxCost"
	}
	return unmet(agentRun.Spec.Model, b)
}

// unmet says what a model lacks of what a run requires; empty if it lacks nothing.
func unmet(m v1alpha1.ModelSelection, b *v1alpha1.ModelBinding) string {
	requires := m.Requires
	if requires == nil {
		return ""
	}
	for _, class := range requires.DataClasses {
		if !slices.Contains(b.Spec.DataClasses, class) {
			return fmt.Sprintf("may not be shown data of class %s (spec.dataClasses)", class)
		}
	}
	if m.Router == nil || m.Router.Chooser != b.Name {
		for _, capability := range requires.Capabilities {
			if !slices.Contains(b.Spec.Capabilities, capability) {
				return fmt.Sprintf("lacks the capability %s (spec.capabilities)", capability)
			}
		}
	}
	return tooDear(requires.MaxPrice, priceOf(b.Spec.Price))
}

// tooDear says what of a price is above the most that a run pays; empty if nothing is.
func tooDear(most *v1alpha1.PriceCeiling, price *run.Price) string {
	if most == nil {
		return ""
	}
	if price == nil {
		return "has no price, and the run requires a maxPrice"
	}
	for _, kind := range []struct {
		field string
		price run.Money
		most  v1alpha1.UnitPrice
	}{
		{"input", max(price.Input, price.CachedInput), most.Input},
		{"output", max(price.Output, price.Reasoning), most.Output},
	} {
		if kind.most != "" && kind.price > moneyOf(kind.most) {
			return fmt.Sprintf("costs %s a million tokens of %s, and the run pays at most %s", kind.price, kind.field, kind.most)
		}
	}
	return ""
}

// question asks the chooser of a run which of the candidates that can be asked now fits.
func question(agentRun *v1alpha1.AgentRun, router *run.Router) run.ModelRequest {
	var candidates []journal.Candidate
	for i, c := range agentRun.Spec.Model.Router.Candidates {
		if router.Candidates[i].Unfit == "" {
			candidates = append(candidates, journal.Candidate{Model: c.Name, Purpose: c.Purpose})
		}
	}
	return journal.Question(briefOf(agentRun), candidates)
}

// chosen makes an event of what a chooser said.
func chosen(step, attempt int, o journal.Reply) run.Chosen {
	return run.Chosen{Step: step, Attempt: attempt, Choice: journal.ChoiceOf(o), Usage: o.Usage}
}

// requirementsOf gives what the models of a child run have to meet: what its own selection says, and the data classes of its parent.
func requirementsOf(own, parent *v1alpha1.ModelRequirements) *v1alpha1.ModelRequirements {
	if parent == nil || len(parent.DataClasses) == 0 {
		return own
	}
	all := &v1alpha1.ModelRequirements{}
	if own != nil {
		all = own.DeepCopy()
	}
	for _, class := range parent.DataClasses {
		if !slices.Contains(all.DataClasses, class) {
			all.DataClasses = append(all.DataClasses, class)
		}
	}
	return all
}

// askedModel names the model that a run asks.
func askedModel(s run.State, agentRun *v1alpha1.AgentRun) string {
	router := agentRun.Spec.Model.Router
	switch {
	case router == nil || s.Route == nil:
		return agentRun.Spec.Model.Name
	case s.Choosing():
		return router.Chooser
	}
	return s.Route.Model
}

// eventRouted tells that the run is at another model than before.
func (r *AgentRunReconciler) eventRouted(p *pass) {
	now, before := p.after.Route, p.before.Route
	if now == nil || now.Model == "" || (before != nil && before.Model == now.Model) {
		return
	}
	kind := corev1.EventTypeNormal
	if now.Reason == run.RouteFallback || now.Reason == run.RouteDefault {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(p.run, nil, kind, v1alpha1.ReasonRouted, "Reconcile", "%s",
		text.Clip(fmt.Sprintf("Step %d: the run asks ModelBinding %s (%s). %s", now.Step, now.Model, now.Reason, now.Message), maxEvent))
}

// routeFrom and routeStatus translate a route.
func routeFrom(r *v1alpha1.RouteStatus) *run.Route {
	if r == nil {
		return nil
	}
	route := &run.Route{
		Model: r.Model, Reason: run.RouteReason(r.Reason), Message: r.Message, Words: r.FromModel, Step: int(r.SinceStep), Question: r.QuestionTokens,
	}
	for _, e := range r.Excluded {
		route.Excluded = append(route.Excluded, run.Exclusion{Model: e.Name, Why: e.Message})
	}
	return route
}

func routeStatus(r *run.Route) *v1alpha1.RouteStatus {
	if r == nil {
		return nil
	}
	status := &v1alpha1.RouteStatus{
		Model: r.Model, Reason: v1alpha1.RouteReason(r.Reason), Message: text.Clip(r.Message, maxMessage), FromModel: r.Words,
		SinceStep: int32(r.Step), QuestionTokens: r.Question, //nolint:gosec // bounded by limits.maxSteps
	}
	for _, e := range r.Excluded {
		status.Excluded = append(status.Excluded, v1alpha1.ExcludedModel{Name: e.Model, Message: text.Clip(e.Why, maxExclusion)})
	}
	return status
}

const maxExclusion = 512
