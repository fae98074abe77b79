// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/run"
)

// +kubebuilder:rbac:groups=interlock.dev,resources=runpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Details below PolicyDenied of a run that a RunPolicy refuses. They are labels of a metric, too.
const (
	// detailAbovePolicy: a limit of the run is above what the policy allows.
	detailAbovePolicy = "AbovePolicy"
	// detailModelNotAllowed: the policy does not name the run's model.
	detailModelNotAllowed = "ModelNotAllowed"
)

// policiesOf gives the RunPolicies that hold in a namespace, by name.
func policiesOf(ctx context.Context, c client.Reader, namespace string) ([]v1alpha1.RunPolicy, error) {
	var all v1alpha1.RunPolicyList
	// What is listed is only read.
	if err := c.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the RunPolicies: %w", err)
	}
	if len(all.Items) == 0 {
		return nil, nil
	}
	of := aNamespace()
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, of); err != nil {
		return nil, fmt.Errorf("reading the labels of the namespace: %w", err)
	}
	return selecting(all.Items, of.Labels), nil
}

// aNamespace is a namespace of which only the metadata is read and watched.
func aNamespace() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
}

// selecting gives those of policies that select a namespace with the given labels, by name. One whose selector can't be read
// selects every namespace: what can't be read is never no limit.
func selecting(policies []v1alpha1.RunPolicy, of map[string]string) []v1alpha1.RunPolicy {
	var holding []v1alpha1.RunPolicy
	for i := range policies {
		if s, err := selectorOf(&policies[i]); err != nil || s.Matches(labels.Set(of)) {
			holding = append(holding, policies[i])
		}
	}
	slices.SortFunc(holding, func(a, b v1alpha1.RunPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return holding
}

// selectorOf reads the selector of a policy. One that is left out is none.
func selectorOf(p *v1alpha1.RunPolicy) (labels.Selector, error) {
	if p.Spec.NamespaceSelector == nil {
		return nil, fmt.Errorf("spec.namespaceSelector is required")
	}
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for k, v := range p.Spec.NamespaceSelector.MatchLabels {
		s.MatchLabels[k] = string(v)
	}
	for _, e := range p.Spec.NamespaceSelector.MatchExpressions {
		r := metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator)}
		for _, v := range e.Values {
			r.Values = append(r.Values, string(v))
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return metav1.LabelSelectorAsSelector(s)
}

// A policyRefusal is why a policy does not let a run begin, or go on.
type policyRefusal struct{ policy, detail, message string }

// refusedBy gives the first objection of policies to a run as it is written; nil if they have none. The words are those of
// config/admission/policies.yaml.
func refusedBy(policies []v1alpha1.RunPolicy, spec v1alpha1.AgentRunSpec) *policyRefusal {
	for i := range policies {
		p := &policies[i]
		if m := p.Spec.MaxLimits; m != nil {
			if words := above(m, spec.Limits, p.Name); words != "" {
				return &policyRefusal{p.Name, detailAbovePolicy, words}
			}
		}
		for _, name := range modelNames(spec.Model) {
			if len(p.Spec.Models) > 0 && !slices.Contains(p.Spec.Models, name) {
				return &policyRefusal{p.Name, detailModelNotAllowed, fmt.Sprintf(
					"spec.model names %s, and RunPolicy %s allows only: %s", name, p.Name, strings.Join(p.Spec.Models, ", "))}
			}
		}
	}
	return nil
}

// above says which limit is above its ceiling; empty if none is.
func above(most *v1alpha1.LimitCeilings, limits v1alpha1.RunLimits, policy string) string {
	for _, l := range []struct {
		field       string
		asked, most int64
		bounded     bool
	}{
		{"maxSteps", int64(limits.MaxSteps), int64(most.MaxSteps), most.MaxSteps > 0},
		{"deadlineSeconds", int64(limits.DeadlineSeconds), int64(most.DeadlineSeconds), most.DeadlineSeconds > 0},
		{"maxToolCalls", int64(value(limits.MaxToolCalls)), int64(value(most.MaxToolCalls)), most.MaxToolCalls != nil},
		{"maxInputTokens", limits.MaxInputTokens, most.MaxInputTokens, most.MaxInputTokens > 0},
		{"maxOutputTokens", limits.MaxOutputTokens, most.MaxOutputTokens, most.MaxOutputTokens > 0},
		{"maxRepeats", int64(limits.MaxRepeats), int64(most.MaxRepeats), most.MaxRepeats > 0},
		{"maxChildren", int64(value(limits.MaxChildren)), int64(value(most.MaxChildren)), most.MaxChildren != nil},
		{"maxDepth", int64(value(limits.MaxDepth)), int64(value(most.MaxDepth)), most.MaxDepth != nil},
		{"parallelism", int64(limits.Parallelism), int64(most.Parallelism), most.Parallelism > 0},
		{"maxInvalid", int64(value(limits.MaxInvalid)), int64(value(most.MaxInvalid)), most.MaxInvalid != nil},
	} {
		if l.bounded && l.asked > l.most {
			return atMost(l.field, strconv.FormatInt(l.asked, 10), strconv.FormatInt(l.most, 10), policy)
		}
	}
	switch {
	case most.MaxCost == "":
	case limits.MaxCost == "":
		return fmt.Sprintf("spec.limits.maxCost is not set, and RunPolicy %s allows at most %s: set it", policy, most.MaxCost)
	case moneyOf(limits.MaxCost) > moneyOf(most.MaxCost):
		return atMost("maxCost", string(limits.MaxCost), string(most.MaxCost), policy)
	}
	return ""
}

func atMost(field, asked, most, policy string) string {
	return fmt.Sprintf("spec.limits.%s is %s, and RunPolicy %s allows at most %s", field, asked, policy, most)
}

// suspendedBy gives why policies hold all runs of a namespace; empty if none does.
func suspendedBy(policies []v1alpha1.RunPolicy) string {
	for i := range policies {
		if policies[i].Spec.Suspend {
			return fmt.Sprintf("RunPolicy %s suspends the runs of this namespace (spec.suspend)", policies[i].Name)
		}
	}
	return ""
}

// allowed looks whether the policies let a run begin. One that has begun is not touched by what they ask of its spec.
func (r *AgentRunReconciler) allowed(_ context.Context, p *pass) ([]run.Event, error) {
	if p.before.Step > 0 {
		return nil, nil
	}
	if p.refusal = refusedBy(p.policies, p.run.Spec); p.refusal == nil {
		return nil, nil
	}
	return []run.Event{run.Refused{At: p.now, Detail: p.refusal.detail, Message: p.refusal.message + "."}}, nil
}

// heldNow reports whether the run has been suspended, by itself, by one above it or by a policy, since its effect was handed over.
func (r *AgentRunReconciler) heldNow(ctx context.Context, of *v1alpha1.AgentRun) bool {
	if r.suspendedNow(ctx, of) {
		return true
	}
	policies, err := policiesOf(ctx, r.Client, of.Namespace)
	// What the policies say is looked at again once they can be read.
	return err != nil || suspendedBy(policies) != ""
}
