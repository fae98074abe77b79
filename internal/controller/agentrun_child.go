// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
	"github.com/interlock-dev/interlock/internal/tool"
)

// childFinalizer keeps a child run from vanishing before its parent has charged what it used.
const childFinalizer = "interlock.dev/charged-to-parent"

// childOutcome is what the outcomes of a pass that children have brought are called, before the ID of the call.
const childOutcome = "child/"

// codeChildRefused is the code of a call whose child run the API server does not take.
const codeChildRefused = "ChildRefused"

func isChild(agentRun *v1alpha1.AgentRun) bool { return agentRun.Spec.Parent != nil }

// childName is the name of the child run of a call: another run's, or another call's, is another one.
func childName(parent *v1alpha1.AgentRun, callID string) string {
	const most = 63
	suffix := "-" + callID + "-" + arguments.Digest([]byte(string(parent.UID) + "/" + callID))[len("sha256:"):][:8]
	return strings.TrimRight(parent.Name[:min(len(parent.Name), most-len(suffix))], ".-") + suffix
}

// untilOf is the deadline of a child's parent; zero for all other runs.
func untilOf(agentRun *v1alpha1.AgentRun) time.Time {
	if !isChild(agentRun) {
		return time.Time{}
	}
	return agentRun.Spec.Parent.Deadline.Time
}

// noChild is why a run may not call a tool that starts child runs; empty if it may, or if the tool starts none.
func noChild(agentRun *v1alpha1.AgentRun, b *v1alpha1.ToolBinding) string {
	agent := b.Spec.Backend.Agent
	if agent == nil {
		return ""
	}
	if value(agentRun.Spec.Limits.MaxDepth) < 1 {
		return "starts child runs, and spec.limits.maxDepth of the run allows none below it"
	}
	for _, t := range agent.Tools {
		if !slices.Contains(agentRun.Spec.Tools, t) {
			return fmt.Sprintf("starts child runs with the tool %s, which is not in spec.tools of the run", t.Name)
		}
	}
	return ""
}

// childDepth is how many levels there may be below a child run.
func childDepth(parent *v1alpha1.AgentRun, b *v1alpha1.ToolBinding) int32 {
	return min(value(b.Spec.Backend.Agent.Limits.MaxDepth), value(parent.Spec.Limits.MaxDepth)-1)
}

// grantOf is what the child runs of a binding may use at most; nil if it starts none.
func grantOf(parent *v1alpha1.AgentRun, b *v1alpha1.ToolBinding) *run.Grant {
	if b.Spec.Backend.Agent == nil {
		return nil
	}
	l := b.Spec.Backend.Agent.Limits
	if childDepth(parent, b) < 1 {
		l.MaxChildren = new(int32(0))
	}
	return &run.Grant{
		Steps: int(l.MaxSteps), ToolCalls: int(value(l.MaxToolCalls)), Children: int(value(l.MaxChildren)),
		InputTokens: l.MaxInputTokens, OutputTokens: l.MaxOutputTokens, Cost: moneyOf(l.MaxCost),
	}
}

// errNameTaken: a run that is not the child has its name.
var errNameTaken = errors.New("another run has the name of the child run")

// startChild makes sure that the child run of a call is there. Whether it is, the API server is asked first, and not the cache: what is
// there has a grant to spend, whatever has changed since.
func (r *AgentRunReconciler) startChild(ctx context.Context, req request, o *outcome) {
	if o.findChild(ctx, r.Live, req) {
		return
	}
	if o.nothing = r.endsNow(ctx, req.run); o.nothing {
		return
	}
	send, b, err := r.prepare(ctx, req)
	if err != nil {
		o.refuse(ctx, err, b)
		return
	}
	child := childOf(req, b, string(send.call.Arguments))
	err = r.Client.Create(ctx, child)
	switch {
	case err == nil:
		o.child = string(child.UID)
	case apierrors.IsAlreadyExists(err):
		if !o.findChild(ctx, r.Live, req) {
			o.unclear(ctx, err)
		}
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err):
		o.refuseChild(ctx, req, err)
	default:
		o.unclear(ctx, err)
	}
}

// endsNow reports whether a run has ended, or is about to, since its effect was handed over.
func (r *AgentRunReconciler) endsNow(ctx context.Context, of *v1alpha1.AgentRun) bool {
	var now v1alpha1.AgentRun
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(of), &now)
	return err == nil && now.UID == of.UID && ending(&now)
}

// findChild makes the outcome what the API server says of the child; false if it says that there is none.
func (o *outcome) findChild(ctx context.Context, live client.Reader, req request) bool {
	found, err := findChild(ctx, live, req.run, req.call.ID)
	switch {
	case errors.Is(err, errNameTaken):
		o.refuseChild(ctx, req, err)
	case err != nil:
		o.unclear(ctx, err)
	case found == nil:
		return false
	default:
		o.child = string(found.UID)
	}
	return true
}

// refuseChild makes the outcome a failure for good: there is no child. Why, in the API server's words, is for the log.
func (o *outcome) refuseChild(ctx context.Context, req request, err error) {
	name := childName(req.run, req.call.ID)
	ctrl.LoggerFrom(ctx).Error(err, "a child run is refused", "child", name)
	why := string(apierrors.ReasonForError(err))
	if errors.Is(err, errNameTaken) {
		why = err.Error()
	}
	o.failure = &run.Failure{Code: codeChildRefused, Message: fmt.Sprintf("The child run %s could not be created: %s.", name, why)}
}

// unclear makes the outcome a doubt whether the child run is there.
func (o *outcome) unclear(ctx context.Context, err error) {
	ctrl.LoggerFrom(ctx).Error(err, "starting a child run")
	o.failure = &run.Failure{Code: codeJournal, Message: "The API server could not be asked for the child run.", InDoubt: true, Backoff: time.Second}
}

// findChild gives the child run of a call; nil if it is not there.
func findChild(ctx context.Context, from client.Reader, parent *v1alpha1.AgentRun, callID string) (*v1alpha1.AgentRun, error) {
	var child v1alpha1.AgentRun
	err := from.Get(ctx, client.ObjectKey{Namespace: parent.Namespace, Name: childName(parent, callID)}, &child)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the child run: %w", err)
	case !isChild(&child) || child.Spec.Parent.UID != string(parent.UID) || child.Spec.Parent.CallID != callID:
		return nil, errNameTaken
	}
	return &child, nil
}

// childOf makes the child run of a call: its grant is its limits, none is above its parent's, and it is for whom its parent is for.
func childOf(req request, b *v1alpha1.ToolBinding, goal string) *v1alpha1.AgentRun {
	parent, agent, g := req.run, b.Spec.Backend.Agent, *req.call.Grant
	limits := agent.Limits
	limits.MaxSteps, limits.MaxToolCalls, limits.MaxChildren = int32(g.Steps), count(g.ToolCalls), count(g.Children) //nolint:gosec // at most the parent's
	limits.MaxInputTokens, limits.MaxOutputTokens, limits.MaxCost = g.InputTokens, g.OutputTokens, amountOf(g.Cost)
	limits.MaxDepth = new(childDepth(parent, b))
	of := parent.Spec.Limits
	limits.DeadlineSeconds, limits.Parallelism = min(limits.DeadlineSeconds, of.DeadlineSeconds), min(limits.Parallelism, of.Parallelism)
	limits.MaxRepeats, limits.MaxInvalid = min(limits.MaxRepeats, of.MaxRepeats), new(min(value(limits.MaxInvalid), value(of.MaxInvalid)))
	child := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: parent.Namespace, Name: childName(parent, req.call.ID), Finalizers: []string{childFinalizer},
			OwnerReferences: []metav1.OwnerReference{ownerOf(parent.Name, parent.UID)},
		},
		Spec: v1alpha1.AgentRunSpec{
			Goal: goal, Instructions: agent.Instructions, Model: parent.Spec.Model, Tools: agent.Tools, ServiceAccountName: parent.Spec.ServiceAccountName,
			RequestedBy: parent.Spec.RequestedBy, Limits: limits, OnDenied: parent.Spec.OnDenied, OnToolFailure: parent.Spec.OnToolFailure,
			Parent: &v1alpha1.ParentReference{Name: parent.Name, UID: string(parent.UID), CallID: req.call.ID, Deadline: *parent.Status.Deadline},
		},
	}
	if agent.Model != nil {
		child.Spec.Model = *agent.Model
	}
	child.Spec.Model.Requires = requirementsOf(child.Spec.Model.Requires, parent.Spec.Model.Requires)
	return child
}

// adoptChild gives the events for a call whose child run nobody is starting: it has ended, or is not there. None while it goes on.
func (r *AgentRunReconciler) adoptChild(ctx context.Context, p *pass, c run.Call) ([]run.Event, error) {
	child, err := findChild(ctx, r.Client, p.run, c.ID)
	switch {
	case err != nil && !errors.Is(err, errNameTaken):
		return nil, err
	case c.Child != "" && (child == nil || string(child.UID) != c.Child):
		return r.lostChild(ctx, p, c)
	case child == nil:
		// It was never started, or the cache does not know of it yet: the journal may hold that the API server had refused it.
		turn, _, err := r.Journal.Find(ctx, p.ref, p.before.Step)
		if e := adoptResult(p, c, turn); err == nil && e != nil {
			return []run.Event{e}, nil
		}
		return nil, err
	}
	s := stateOf(child)
	if !s.Finished() {
		return nil, nil
	}
	e := run.ChildEnded{CallID: c.ID, At: p.now, Spent: new(s.Spent())}
	if _, unstorable := r.unstorable.Load(string(child.UID)); unstorable {
		e.Failure = &run.Failure{At: p.now, Code: codeUnstorable, Message: "What the child run " + child.Name + " answered can't be stored."}
		return []run.Event{e}, nil
	}
	if s.Termination.Reason != run.ReasonFinal {
		e.Failure = &run.Failure{At: p.now, Code: run.CodeChildFailed, Message: text.Clip(fmt.Sprintf(
			"The child run %s ended with %s. %s", child.Name, s.Termination, s.Termination.Message), maxMessage)}
		return []run.Event{e}, nil
	}
	result, err := r.answerOfChild(ctx, p, child, s)
	if err != nil {
		return nil, err
	}
	// The name of the child is another one each time, which is no news.
	e.Tokens, e.Digest = result.MaxTokens(), arguments.Digest([]byte(s.Answer.Text))
	if p.outcomes == nil {
		p.outcomes = map[string]*outcome{}
	}
	p.outcomes[childOutcome+c.ID] = &outcome{at: p.now, step: p.before.Step, callID: c.ID, attempt: c.Attempt, result: &result, child: string(child.UID)}
	return []run.Event{e}, nil
}

// lostChild gives the event for a call whose child run was there, and is not in the cache: it is gone, with what it used, or the cache has
// not seen it yet.
func (r *AgentRunReconciler) lostChild(ctx context.Context, p *pass, c run.Call) ([]run.Event, error) {
	child, err := findChild(ctx, r.Live, p.run, c.ID)
	switch {
	case err != nil && !errors.Is(err, errNameTaken):
		return nil, err
	case child != nil && string(child.UID) == c.Child:
		return nil, nil
	}
	return []run.Event{run.ChildEnded{CallID: c.ID, At: p.now, Failure: &run.Failure{
		At: p.now, Code: run.CodeChildFailed, Message: fmt.Sprintf("The child run %s was deleted before it had told what it used: all of it is charged.", childName(p.run, c.ID)),
	}}}, nil
}

// answerOfChild makes a tool's result of what a child run answered. What it cites, its parent may cite.
func (r *AgentRunReconciler) answerOfChild(ctx context.Context, p *pass, child *v1alpha1.AgentRun, s run.State) (run.ToolResult, error) {
	most := int32(16384)
	c, _ := p.before.Call(child.Spec.Parent.CallID)
	if b, _, err := r.toolBinding(ctx, p.ref.Namespace, c.Tool); err != nil {
		return run.ToolResult{}, err
	} else if b != nil {
		most = b.Spec.Result.MaxBytes
	}
	answer := s.Answer.Text
	if len(answer) > maxAnswer-utf8.UTFMax {
		// The status holds no more of it.
		ref := journal.RunRef{Namespace: child.Namespace, Name: child.Name, UID: string(child.UID)}
		turn, ok, err := r.Journal.Find(ctx, ref, s.Step)
		if err != nil {
			return run.ToolResult{}, fmt.Errorf("reading the answer of a child run: %w", err)
		}
		if ok {
			answer = turn.Reply.Text
		}
	}
	data, err := json.Marshal(map[string]string{"run": child.Name, "answer": answer})
	if err != nil {
		return run.ToolResult{}, fmt.Errorf("encoding the answer of a child run: %w", err)
	}
	result, err := tool.Bound(data, min(int(most), journal.MaxStepResults/max(len(p.before.Calls), 1)))
	if err != nil {
		return run.ToolResult{}, fmt.Errorf("bounding the answer of a child run: %w", err)
	}
	result.ObservedAt = s.Completed
	for _, citation := range s.Answer.Citations {
		result.Sources = append(result.Sources, citation.Source)
	}
	return journal.Fit(result, len(p.before.Calls)), nil
}

// parentOf gives the parent of a child run; nil if it is gone, or of a run that has none.
func (r *AgentRunReconciler) parentOf(ctx context.Context, agentRun *v1alpha1.AgentRun) (*v1alpha1.AgentRun, error) {
	if !isChild(agentRun) {
		return nil, nil
	}
	var parent v1alpha1.AgentRun
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: agentRun.Namespace, Name: agentRun.Spec.Parent.Name}, &parent)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(parent.UID) != agentRun.Spec.Parent.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the parent: %w", err)
	}
	return &parent, nil
}

// ending reports whether a parent has ended, or is about to.
func ending(parent *v1alpha1.AgentRun) bool {
	return parent == nil || !parent.DeletionTimestamp.IsZero() || parent.Spec.Cancel != nil || parent.Status.Ending != nil || parent.Status.Termination != nil
}

func suspended(parent *v1alpha1.AgentRun) bool {
	return parent.Spec.Suspend || parent.Status.Phase == v1alpha1.PhaseSuspended
}

// charged reports whether a parent is done with a child: its call has its result. One that was read before it asked for the child is not.
func charged(parent, child *v1alpha1.AgentRun) bool {
	if parent == nil || parent.Status.Termination != nil {
		return true
	}
	id := child.Spec.Parent.CallID
	if c, ok := stateOf(parent).Call(id); ok {
		return c.Done()
	}
	return int(parent.Status.Step) > stepOf(run.Call{ID: id})
}

// letGo lets a child run that has ended be deleted, once its parent has charged what it used, or has ended or gone itself.
func (r *AgentRunReconciler) letGo(ctx context.Context, p *pass) error {
	if !controllerutil.ContainsFinalizer(p.run, childFinalizer) {
		return nil
	}
	parent, err := r.parentOf(ctx, p.run)
	if err != nil {
		return err
	}
	if !charged(parent, p.run) {
		return nil
	}
	updated := p.run.DeepCopy()
	controllerutil.RemoveFinalizer(updated, childFinalizer)
	err = r.Client.Patch(ctx, updated, client.MergeFromWithOptions(p.run, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("letting a child run go: %w", err)
	}
	p.run = updated
	return nil
}

// grantFrom and grantStatus translate what a child run may use.
func grantFrom(g *v1alpha1.Grant) *run.Grant {
	if g == nil {
		return nil
	}
	return &run.Grant{
		Steps: int(value(g.Steps)), ToolCalls: int(value(g.ToolCalls)), Children: int(value(g.Children)),
		InputTokens: value(g.InputTokens), OutputTokens: value(g.OutputTokens), Cost: moneyOf(g.Cost),
	}
}

func grantStatus(g run.Grant) *v1alpha1.Grant {
	return &v1alpha1.Grant{
		Steps: count(g.Steps), ToolCalls: count(g.ToolCalls), Children: count(g.Children),
		InputTokens: new(g.InputTokens), OutputTokens: new(g.OutputTokens), Cost: amountOf(g.Cost),
	}
}
