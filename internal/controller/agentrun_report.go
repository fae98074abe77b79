// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// conditionsOf computes the conditions of a run from its state.
func conditionsOf(s run.State, agentRun *v1alpha1.AgentRun) []metav1.Condition {
	conditions := append([]metav1.Condition(nil), agentRun.Status.Conditions...)
	reason, message := reasonOf(s), messageOf(s, agentRun)
	set := func(kind string, status metav1.ConditionStatus) {
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: agentRun.Generation,
		})
	}
	if s.Phase == run.Succeeded {
		set(v1alpha1.ConditionReady, metav1.ConditionTrue)
	} else {
		set(v1alpha1.ConditionReady, metav1.ConditionFalse)
	}
	// kstatus: the two that are abnormal are absent when they are not true.
	if s.Finished() {
		meta.RemoveStatusCondition(&conditions, v1alpha1.ConditionReconciling)
	} else {
		set(v1alpha1.ConditionReconciling, metav1.ConditionTrue)
	}
	if inQueue(s) {
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: v1alpha1.ConditionQueued, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMaxConcurrentRuns, Message: message,
			ObservedGeneration: agentRun.Generation,
		})
	} else {
		meta.RemoveStatusCondition(&conditions, v1alpha1.ConditionQueued)
	}
	if s.Finished() && s.Phase != run.Succeeded {
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue)
	} else {
		meta.RemoveStatusCondition(&conditions, v1alpha1.ConditionStalled)
	}
	return conditions
}

// reasonOf is the phase or, once the run has ended, why.
func reasonOf(s run.State) string {
	if t := s.Termination; t != nil {
		return string(t.Reason)
	}
	return string(s.Phase)
}

// messageOf says in a sentence or two where the run stands. Nothing that a model or a tool wrote is in it.
func messageOf(s run.State, agentRun *v1alpha1.AgentRun) string {
	switch {
	case s.Termination != nil:
		t := s.Termination
		message := fmt.Sprintf("The run ended at step %d with %s. %s", t.Step, t, t.Message)
		return text.Clip(message, maxCondition)
	case s.Ending != nil:
		return fmt.Sprintf("The run is about to end with %s; what was sent is settled first. %s", s.Ending.Termination, callsText(s.Calls, agentRun))
	case s.Phase == run.Suspended && s.Step == 0:
		return fmt.Sprintf("The run does not begin: %s. Its deadline goes on.", s.Held())
	case s.Phase == run.Suspended:
		return fmt.Sprintf("Nothing of step %d goes on: %s. The deadline does.", s.Step, s.Held())
	case s.Phase == run.AwaitingApproval:
		return text.Clip(askText(s, agentRun), maxCondition)
	case s.Held() != "":
		return fmt.Sprintf("Something of step %d waits: %s. The deadline goes on. %s", s.Step, s.Held(), callsText(s.Calls, agentRun))
	case s.Waiting != "":
		return "The run waits to begin: " + s.Waiting + "."
	case s.Model != nil && !s.Model.NotBefore.IsZero():
		return fmt.Sprintf("Step %d: asking the model %s failed (%s, attempt %d); it is asked again after a pause.",
			s.Step, askedModel(s, agentRun), s.Model.Code, s.Model.Attempt)
	case s.Model != nil && s.Model.Attempt > 1:
		return fmt.Sprintf("Step %d: asking the model %s, attempt %d.", s.Step, askedModel(s, agentRun), s.Model.Attempt)
	case s.Model != nil && s.Choosing():
		return fmt.Sprintf("Step %d: asking the chooser %s which model fits.", s.Step, askedModel(s, agentRun))
	case s.Model != nil:
		return fmt.Sprintf("Step %d: asking the model %s.", s.Step, askedModel(s, agentRun))
	}
	return fmt.Sprintf("Step %d: calling tools. %s", s.Step, callsText(s.Calls, agentRun))
}

const maxCondition = 2048

// askText says what people are asked, and how to answer with nothing but kubectl.
func askText(s run.State, agentRun *v1alpha1.AgentRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Step %d waits for approval:", s.Step)
	place := 0
	for _, c := range s.Calls {
		if c.State != run.CallAwaitingApproval {
			continue
		}
		fmt.Fprintf(&b, " %s %s, %d of %d approved, until %s.", c.ID, c.Tool, len(c.Ask.Consents), c.Rules.Approvals, c.Ask.Expires.UTC().Format(time.RFC3339))
		if place == 0 {
			fmt.Fprintf(&b, " See status.pendingApprovals. To approve the first: kubectl get agentrun %s -n %s -o jsonpath='{.status.pendingApprovals[0].manifest}' | kubectl create -f -.",
				agentRun.Name, agentRun.Namespace)
		}
		place++
	}
	return b.String()
}

// callsText lists calls with what has become of them.
func callsText(calls []run.Call, agentRun *v1alpha1.AgentRun) string {
	const shown = 16
	var b strings.Builder
	for i, c := range calls {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more", len(calls)-shown)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %s: %s", c.ID, shownTool(c, agentRun), callText(c))
	}
	b.WriteString(".")
	return b.String()
}

// shownTool is the tool's name if it is one of the run's. Any other name is the model's own words, which are not repeated.
func shownTool(c run.Call, agentRun *v1alpha1.AgentRun) string {
	for _, t := range agentRun.Spec.Tools {
		if t.Name == c.Tool {
			return c.Tool
		}
	}
	return "(a tool that the run does not have)"
}

func callText(c run.Call) string {
	switch c.State {
	case run.CallRejected:
		return "refused, " + c.Code
	case run.CallReady:
		return "waits for its turn"
	case run.CallPreviewing:
		return "is previewed"
	case run.CallAwaitingApproval:
		return "waits for approval"
	case run.CallApproved:
		return "approved, waits for its turn"
	case run.CallLookingUp:
		if c.Grant != nil {
			return "its child run was asked for; whether it is there is looked at again"
		}
		return "its answer was lost; the tool is asked what became of it"
	case run.CallExecuting:
		if c.Grant != nil {
			return "a child run goes on"
		}
		if c.Failures > 0 {
			return fmt.Sprintf("under way, attempt %d", c.Attempt)
		}
		return "under way"
	case run.CallBackoff:
		return fmt.Sprintf("failed, %s at attempt %d; tried again after a pause", c.Code, c.Attempt)
	case run.CallSucceeded:
		return "succeeded"
	case run.CallFailed:
		return "failed for good, " + c.Code
	}
	return string(c.State)
}

// report tells what the pass has brought about, as a Kubernetes event about the run. It comes after the write: what is not
// recorded has not happened. The related Turn makes the events of each step their own; otherwise the recorder would fold
// them into one.
func (r *AgentRunReconciler) report(p *pass) {
	r.eventRouted(p)
	if t := p.after.Termination; t != nil && p.refusal != nil && t.Detail == p.refusal.detail {
		r.Refusals.count(p.refusal)
	}
	for _, refused := range p.refusedCalls() {
		r.Refusals.count(refused)
	}
	kind := corev1.EventTypeNormal
	if p.after.Finished() && p.after.Phase != run.Succeeded {
		kind = corev1.EventTypeWarning
	}
	var related *v1alpha1.Turn
	if p.after.Step > 0 {
		related = &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{
			Namespace: p.ref.Namespace, Name: journal.TurnName(p.ref.UID, p.after.Step),
		}}
	}
	note := text.Clip(messageOf(p.after, p.run)+p.placeText()+p.news(), maxEvent)
	if related == nil {
		r.Recorder.Eventf(p.run, nil, kind, reasonOf(p.after), "Reconcile", "%s", note)
		return
	}
	r.Recorder.Eventf(p.run, related, kind, reasonOf(p.after), "Reconcile", "%s", note)
}

// maxEvent is what the API server takes as the note of an event.
const maxEvent = 1024

// news says what became of calls in this pass, if the run is no longer at them.
func (p *pass) news() string {
	if p.after.Phase == run.Acting || p.after.Phase == run.AwaitingApproval || len(p.after.Calls) == 0 {
		return ""
	}
	var changed []run.Call
	for _, c := range p.after.Calls {
		if old, ok := p.before.Call(c.ID); !ok || old.State != c.State {
			changed = append(changed, c)
		}
	}
	if len(changed) == 0 {
		return ""
	}
	return " Before that: " + callsText(changed, p.run)
}

func (r *AgentRunReconciler) eventUnsupported(agentRun *v1alpha1.AgentRun, version int32) {
	r.Recorder.Eventf(agentRun, nil, corev1.EventTypeWarning, v1alpha1.ReasonUnsupportedState, "Reconcile",
		"The status was written by a newer Interlock (state version %d, and this one knows %d), so the run is left alone.", version, run.StateVersion)
}
