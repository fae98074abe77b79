// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/run"
)

const runSuspended = "the run is suspended (spec.suspend)"

// holds looks which switches are thrown that the run has to heed: its own, those of policies, its model's, and those of the tools that it is
// about to call.
func (r *AgentRunReconciler) holds(ctx context.Context, p *pass, model *v1alpha1.ModelBinding) (run.Holds, error) {
	h := run.Holds{Run: suspendedBy(p.policies), Tools: map[string]string{}}
	if p.run.Spec.Suspend {
		h.Run = runSuspended
	}
	if err := r.heldFromAbove(ctx, p, &h); err != nil {
		return h, err
	}
	if model.Spec.Suspend {
		h.Model = fmt.Sprintf("ModelBinding %s is suspended", model.Name)
	} else if why := unmet(p.run.Spec.Model, model); why != "" && model.Name != "" {
		h.Model = fmt.Sprintf("ModelBinding %s %s", model.Name, why)
	}
	for _, name := range p.toolsInPlay(r.Effects.Finished(p.key)) {
		var b v1alpha1.ToolBinding
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: p.run.Namespace, Name: name}, &b); client.IgnoreNotFound(err) != nil {
			return h, fmt.Errorf("reading ToolBinding %s: %w", name, err)
		}
		if b.Spec.Suspend {
			h.Tools[name] = fmt.Sprintf("ToolBinding %s is suspended", name)
		}
	}
	return h, nil
}

// heldFromAbove looks at all runs above a child: whether one of them is suspended, ends, or has no use for what comes of it.
func (r *AgentRunReconciler) heldFromAbove(ctx context.Context, p *pass, h *run.Holds) error {
	for at := p.run; isChild(at); {
		parent, err := r.parentOf(ctx, at)
		if err != nil {
			return err
		}
		if p.orphan = p.orphan || ending(parent) || charged(parent, at); parent == nil {
			return nil
		}
		if h.Run == "" && suspended(parent) {
			h.Run = fmt.Sprintf("the run %s above it is suspended", parent.Name)
		}
		at = parent
	}
	return nil
}

// toolsInPlay are the run's tools of which calls are open, or have just been asked for.
func (p *pass) toolsInPlay(outcomes map[string]*outcome) []string {
	named := map[string]bool{}
	for _, c := range p.before.Calls {
		named[c.Tool] = named[c.Tool] || !c.Done()
	}
	for _, o := range outcomes {
		if o.reply != nil {
			for _, c := range o.reply.Calls {
				named[c.Tool] = true
			}
		}
	}
	// A reply that a dead process left in the journal can call any of them.
	adopting := p.before.Model != nil && len(outcomes) == 0
	var names []string
	for _, t := range p.run.Spec.Tools {
		if named[t.Name] || adopting {
			names = append(names, t.Name)
		}
	}
	return names
}

// held tells of a hold that is new, and of one that is gone. It comes after what the journal holds: a call that has its result is
// not parked.
func (r *AgentRunReconciler) held(_ context.Context, p *pass) ([]run.Event, error) {
	s := p.before
	switch {
	case s.Holds.Run != "" && s.Step > 0 && s.Phase != run.Suspended && s.Ending == nil:
		return []run.Event{run.Suspend{At: p.now}}, nil
	case s.CanResume(p.now):
		return []run.Event{run.Resumed{At: p.now}}, nil
	}
	return nil, nil
}

// suspendedNow reports whether the run, or one above it, has been suspended since its effect was handed over; or one above it ends.
func (r *AgentRunReconciler) suspendedNow(ctx context.Context, of *v1alpha1.AgentRun) bool {
	var now v1alpha1.AgentRun
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(of), &now)
	if err != nil || now.UID != of.UID || !isChild(&now) {
		return err == nil && now.UID == of.UID && now.Spec.Suspend
	}
	parent, err := r.parentOf(ctx, &now)
	return now.Spec.Suspend || err != nil || ending(parent) || charged(parent, &now) || suspended(parent) || r.suspendedNow(ctx, parent)
}

// rulesDigest stands for all of a ToolBinding's spec but its switch.
func rulesDigest(b *v1alpha1.ToolBinding) (string, error) {
	spec := b.Spec
	spec.Suspend = false
	text, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("encoding the rules: %w", err)
	}
	return arguments.Digest(text), nil
}

// rulesGeneration gives the generation at which the rules of a binding, and not only its switch, last changed; false if that is
// not known yet.
func rulesGeneration(b *v1alpha1.ToolBinding) (int64, bool) {
	if b.Status.ObservedGeneration != b.Generation {
		// The switch may have been thrown a moment ago.
		if digest, err := rulesDigest(b); err != nil || digest != b.Status.RulesDigest {
			return 0, false
		}
	}
	return b.Status.RulesGeneration, b.Status.RulesGeneration > 0
}
