// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func anAgentRun() *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "run"},
		Spec: v1alpha1.AgentRunSpec{
			Goal: "Find it out.", Instructions: "In a few words.", Model: v1alpha1.ModelSelection{Name: "model"},
			Tools: []v1alpha1.ToolSelection{{Name: "search"}, {Name: "read"}}, RequestedBy: "ann",
			Limits: v1alpha1.RunLimits{MaxSteps: 10},
		},
	}
}

func routed(r *v1alpha1.AgentRun) {
	r.Spec.Model = v1alpha1.ModelSelection{Router: &v1alpha1.ModelRouter{
		Candidates: []v1alpha1.ModelCandidate{{Name: "small"}, {Name: "large"}}, Chooser: "judge",
	}}
}

var agentRunCreates = table[*v1alpha1.AgentRun]{
	"it has all that it needs": {mutate: func(*v1alpha1.AgentRun) {}},
	"it has only what it must have": {mutate: func(r *v1alpha1.AgentRun) {
		r.Spec = v1alpha1.AgentRunSpec{Goal: r.Spec.Goal, Model: r.Spec.Model}
	}},
	"it is cancelled from the start": {mutate: func(r *v1alpha1.AgentRun) {
		r.Spec.Cancel = &v1alpha1.Cancellation{Reason: "A drill."}
	}},
	"its name is as long as a label value": {mutate: func(r *v1alpha1.AgentRun) { r.Name = strings.Repeat("x", 63) }},
	"its name has dots":                    {mutate: func(r *v1alpha1.AgentRun) { r.Name = "nightly.2026-01-02" }},
	"its name is generated":                {mutate: func(r *v1alpha1.AgentRun) { r.Name, r.GenerateName = "", "nightly-" }},
	"its name is too long to be a label value": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Name = strings.Repeat("x", 64) },
		wantErrors: []string{": the name of an AgentRun has at most 63 characters, so that it can be a label value"},
	},
	"it has a tool twice": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Tools[1].Name = "search" },
		wantErrors: []string{`spec.tools[1]: Duplicate value: {"name":"search"}`},
	},
	"it calls no tool":            {mutate: func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxToolCalls = new(int32(0)) }},
	"it may cost next to nothing": {mutate: func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxCost = "0.000000001" }},
	"it may cost nothing": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxCost = "0.00" },
		wantErrors: []string{"spec.limits.maxCost: maxCost must be above 0; to limit nothing but tokens, leave it out"},
	},
	"its router has a chooser": {mutate: routed},
	"its router takes the first that can be asked": {mutate: func(r *v1alpha1.AgentRun) {
		routed(r)
		r.Spec.Model.Router.Chooser, r.Spec.Limits.MaxSteps = "", 1
	}},
	"it has a model and a router": {
		mutate:     func(r *v1alpha1.AgentRun) { routed(r); r.Spec.Model.Name = "model" },
		wantErrors: []string{"spec.model: exactly one of the fields in [name router] must be set"},
	},
	"it has no model": {
		mutate: func(r *v1alpha1.AgentRun) {
			r.Spec.Model = v1alpha1.ModelSelection{Requires: &v1alpha1.ModelRequirements{Capabilities: []v1alpha1.Label{"vision"}}}
		},
		wantErrors: []string{"spec.model: exactly one of the fields in [name router] must be set"},
	},
	"its chooser takes the only step": {
		mutate:     func(r *v1alpha1.AgentRun) { routed(r); r.Spec.Limits.MaxSteps = 1 },
		wantErrors: []string{"spec: limits.maxSteps must be at least 2 for a run with a chooser: asking it is a step"},
	},
	"it requires nothing of its model": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Model.Requires = &v1alpha1.ModelRequirements{} },
		wantErrors: []string{"spec.model.requires: spec.model.requires in body should have at least 1 properties"},
	},
	"it requires a price without saying which": {
		mutate: func(r *v1alpha1.AgentRun) {
			r.Spec.Model.Requires = &v1alpha1.ModelRequirements{MaxPrice: &v1alpha1.PriceCeiling{}}
		},
		wantErrors: []string{"spec.model.requires.maxPrice: spec.model.requires.maxPrice in body should have at least 1 properties"},
	},
	"it goes at once": {mutate: func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = new(int32(0)) }},
}

var agentRunUpdates = table[*v1alpha1.AgentRun]{
	"nothing is changed":     {mutate: func(*v1alpha1.AgentRun) {}},
	"a label is put on":      {mutate: func(r *v1alpha1.AgentRun) { r.Labels = map[string]string{"team": "web"} }},
	"it is cancelled":        {mutate: func(r *v1alpha1.AgentRun) { r.Spec.Cancel = &v1alpha1.Cancellation{Reason: "Not needed."} }},
	"it gets a time to live": {mutate: func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = new(int32(60)) }},
	"the order of the tools is changed": {mutate: func(r *v1alpha1.AgentRun) {
		r.Spec.Tools[0], r.Spec.Tools[1] = r.Spec.Tools[1], r.Spec.Tools[0]
	}},
	"a default is written out": {mutate: func(r *v1alpha1.AgentRun) { r.Spec.OnToolFailure = v1alpha1.ToolFailureObserve }},
	"another goal": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Goal = "Find out more." },
		wantErrors: []string{"spec.goal: goal is frozen once created: to change it, create another AgentRun"},
	},
	"other instructions": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Instructions = "At length." },
		wantErrors: []string{"spec.instructions: instructions are frozen once created: to change them, create another AgentRun"},
	},
	"no instructions any more": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Instructions = "" },
		wantErrors: []string{"spec: an AgentRun is frozen once created: to change it, create another one"},
	},
	"another model": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Model.Name = "larger" },
		wantErrors: []string{"spec.model: model is frozen once created: to change it, create another AgentRun"},
	},
	"one tool more": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Tools = append(r.Spec.Tools, v1alpha1.ToolSelection{Name: "write"}) },
		wantErrors: []string{"spec.tools: tools are frozen once created: to change them, create another AgentRun"},
	},
	"one tool fewer": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Tools = r.Spec.Tools[:1] },
		wantErrors: []string{"spec.tools: tools are frozen once created: to change them, create another AgentRun"},
	},
	"another tool": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Tools[0].Name = "write" },
		wantErrors: []string{"spec.tools: tools are frozen once created: to change them, create another AgentRun"},
	},
	"no tools any more": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Tools = nil },
		wantErrors: []string{"spec: an AgentRun is frozen once created: to change it, create another one"},
	},
	"a higher limit": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxSteps = 11 },
		wantErrors: []string{"spec.limits: limits are frozen once created: to change them, create another AgentRun"},
	},
	"a lower limit": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Limits.MaxToolCalls = new(int32(0)) },
		wantErrors: []string{"spec.limits: limits are frozen once created: to change them, create another AgentRun"},
	},
	"no limits any more, so that the defaults are filled in": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Limits = v1alpha1.RunLimits{} },
		wantErrors: []string{"spec.limits: limits are frozen once created: to change them, create another AgentRun"},
	},
	"another ServiceAccount": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.ServiceAccountName = "admin" },
		wantErrors: []string{"spec.serviceAccountName: serviceAccountName is frozen once created: to change it, create another AgentRun"},
	},
	"somebody else's name": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.RequestedBy = "eve" },
		wantErrors: []string{"spec.requestedBy: " + wantRequestedBy},
	},
	"nobody's name": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.RequestedBy = "" },
		wantErrors: []string{"spec: requestedBy and parent are written when the run is created, and never change"},
	},
	"another rule for denied calls": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.OnDenied = v1alpha1.DenialTerminate },
		wantErrors: []string{"spec.onDenied: onDenied is frozen once created: to change it, create another AgentRun"},
	},
	"another rule for failed tools": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.OnToolFailure = v1alpha1.ToolFailureTerminate },
		wantErrors: []string{"spec.onToolFailure: onToolFailure is frozen once created: to change it, create another AgentRun"},
	},
}

const wantRequestedBy = "requestedBy is written by the API server when the run is created, and never changes"

// anOldRun has neither instructions nor tools, is cancelled, and is a child.
func anOldRun() *v1alpha1.AgentRun {
	r := anAgentRun()
	r.Spec.Instructions, r.Spec.Tools = "", nil
	r.Spec.Cancel = &v1alpha1.Cancellation{Reason: "Not needed."}
	r.Spec.TTLSecondsAfterFinished = new(int32(60))
	r.Spec.Parent = &v1alpha1.ParentReference{Name: "root", UID: "6a2f0d4c", CallID: "s1c1", Deadline: metav1.Unix(1_800_000_000, 0)}
	return r
}

var oldRunUpdates = table[*v1alpha1.AgentRun]{
	"nothing is changed":       {mutate: func(*v1alpha1.AgentRun) {}},
	"a longer time to live":    {mutate: func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = new(int32(3600)) }},
	"no time to live any more": {mutate: func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = nil }},
	"instructions where it had none": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Instructions = "At length." },
		wantErrors: []string{"spec: an AgentRun is frozen once created: to change it, create another one"},
	},
	"tools where it had none": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Tools = []v1alpha1.ToolSelection{{Name: "write"}} },
		wantErrors: []string{"spec: an AgentRun is frozen once created: to change it, create another one"},
	},
	"it is another run's child": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Parent.Name = "other" },
		wantErrors: []string{"spec.parent: parent is written by the operator when it starts a child run, and never changes"},
	},
	"it is no child any more": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Parent = nil },
		wantErrors: []string{"spec: requestedBy and parent are written when the run is created, and never change"},
	},
	"it is cancelled for another reason": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Cancel.Reason = "Another." },
		wantErrors: []string{"spec.cancel: cancel is final: it can't be changed"},
	},
	"it is not cancelled any more": {
		mutate:     func(r *v1alpha1.AgentRun) { r.Spec.Cancel = nil },
		wantErrors: []string{"spec: cancel is final: it can't be taken back; create another AgentRun"},
	},
}

func TestAgentRun_create(t *testing.T) { checkCreate(t, anAgentRun, agentRunCreates) }

func TestAgentRun_isFrozen(t *testing.T) { checkUpdate(t, anAgentRun, agentRunUpdates) }

func TestAgentRun_cancelIsFinal(t *testing.T) { checkUpdate(t, anOldRun, oldRunUpdates) }

// Nothing is unlimited by omission, whichever way it is left out.
func TestAgentRun_limitsAreFilledIn(t *testing.T) {
	want := `{"deadlineSeconds":3600,"maxChildren":16,"maxDepth":1,"maxInputTokens":2000000,"maxInvalid":10,"maxOutputTokens":200000,"maxRepeats":5,"maxSteps":25,"maxToolCalls":100,"parallelism":4}`
	for how, limits := range map[string]any{
		"left out": remove{}, "null": nil, "empty": map[string]any{},
		"null each": map[string]any{"deadlineSeconds": nil, "maxChildren": nil, "maxDepth": nil, "maxInputTokens": nil, "maxOutputTokens": nil, "maxInvalid": nil, "maxRepeats": nil, "maxSteps": nil, "maxToolCalls": nil, "parallelism": nil},
	} {
		t.Run(how, func(t *testing.T) {
			o := changed(t, []*unstructured.Unstructured{read(t, "agentrun.yaml")}, "spec.limits", func(any) any { return limits })
			check(t, api.Create(t.Context(), o, client.DryRunAll), nil)
			if got := asJSON(t, o.Object["spec"].(map[string]any)["limits"]); got != want {
				t.Errorf("the limits are %s; want %s", got, want)
			}
		})
	}
}

func TestAgentRun_unknownFieldsAreRefused(t *testing.T) {
	for path, where := range map[string]string{"spec": "spec.budget", "spec.limits": "spec.limits.budget", "spec.tools[]": "spec.tools[0].budget"} {
		o := changed(t, []*unstructured.Unstructured{read(t, "agentrun.yaml")}, path, withField("budget", int64(5)))
		check(t, api.Create(t.Context(), o, client.DryRunAll), []string{`unknown field "` + where + `"`})
	}
}

// Programs may only write what the state machine has: nobody can, by way of the status, give a run a state of its own.
func TestAgentRun_statusIsASubresource(t *testing.T) {
	r := anAgentRun()
	r.Status.Phase = v1alpha1.PhaseSucceeded
	store(t, r)
	if r.Status.Phase != "" {
		t.Errorf("who creates a run can set its phase: %s", r.Status.Phase)
	}
	r.Status.Phase, r.Spec.Cancel = v1alpha1.PhasePending, &v1alpha1.Cancellation{Reason: "By way of the status."}
	check(t, api.Status().Update(t.Context(), r, client.DryRunAll), nil)
	if r.Spec.Cancel != nil {
		t.Error("who writes the status of a run can cancel it")
	}
}
