// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/arguments"
	"github.com/interlock-dev/interlock/internal/effect"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/policy"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/tool"
)

// A request is one thing that a tool server is asked for a call.
type request struct {
	run  *v1alpha1.AgentRun
	ref  journal.RunRef
	call run.Call
	// calls is how many calls the step has, which share the room for results.
	calls int
}

// askTool puts what a tool server is asked in line. Whether it may still be asked, by the rules that the call was checked
// against, is looked at when its turn comes.
func (r *AgentRunReconciler) askTool(ctx context.Context, p *pass, callID string, ask func(context.Context, request, *outcome)) {
	call, _ := p.after.Call(callID)
	req := request{run: p.run, ref: p.ref, call: call, calls: len(p.after.Calls)}
	b, _, _ := r.toolBinding(ctx, p.ref.Namespace, call.Tool)
	if b == nil {
		b = &v1alpha1.ToolBinding{}
		b.Spec.Retry, b.Spec.Concurrency, b.Spec.TimeoutSeconds = standIn()
	}
	deadline := p.after.Deadline
	if p.after.Ending != nil {
		deadline = p.after.Ending.Until
	}
	var pace *effect.Pace
	if call.State != run.CallLookingUp {
		pace = r.Tools.paces.Get(string(b.UID), rateOf(b.Spec.Rate))
	}
	r.start(ctx, effect.Job[RunKey, *outcome]{
		Pace:  pace,
		Owner: p.key, ID: toolJobID(callID, call.Attempt), Deadline: deadline,
		Timeout: time.Duration(b.Spec.TimeoutSeconds) * time.Second,
		Behind: []*effect.Bulkhead{
			r.bulkheads.Get(string(p.key.UID), int(p.run.Spec.Limits.Parallelism)),
			r.Tools.bulkheads.Get(string(b.UID), int(b.Spec.Concurrency.Max)),
		},
	}, outcome{step: p.after.Step, callID: callID, attempt: call.Attempt}, func(ctx context.Context, o *outcome) { ask(ctx, req, o) })
}

// execute sends a call: exactly the bytes whose digest is in the recorded state, by the binding that they were checked against
// and, if people had to approve, exactly what they did. All that could have changed since is looked at again.
func (r *AgentRunReconciler) execute(ctx context.Context, req request, o *outcome) {
	send, b, err := r.prepare(ctx, req)
	if err != nil {
		o.refuse(ctx, err, b)
		return
	}
	var result run.ToolResult
	if open := r.throughBreaker(b, func() effect.Health {
		result, err = send.server.Execute(ctx, send.call)
		return toolHealth(ctx, err)
	}); open != nil {
		o.refuse(ctx, open, b)
		return
	}
	if err != nil {
		o.fail(toolFailure(err), b.Spec.Retry)
		return
	}
	o.result = new(journal.Fit(result, req.calls))
}

// preview asks what a call would do.
func (r *AgentRunReconciler) preview(ctx context.Context, req request, o *outcome) {
	send, b, err := r.prepare(ctx, req)
	if err != nil {
		o.refuse(ctx, err, b)
		return
	}
	writer, ok := send.server.(tool.Writer)
	if !ok {
		o.fail(run.Failure{Code: codeBindingGone, Message: "The tool's backend has no previews."}, b.Spec.Retry)
		return
	}
	var preview run.ToolPreview
	if open := r.throughBreaker(b, func() effect.Health {
		preview, err = writer.Preview(ctx, send.call)
		return toolHealth(ctx, err)
	}); open != nil {
		o.refuse(ctx, open, b)
		return
	}
	if err != nil {
		o.fail(toolFailure(err), b.Spec.Retry)
		return
	}
	o.preview = &preview
}

// lookUp asks what became of a write. Nothing of what may have changed since it was sent counts: it may have happened.
func (r *AgentRunReconciler) lookUp(ctx context.Context, req request, o *outcome) {
	b, t, err := r.openTool(ctx, req)
	if err != nil {
		o.doubt(err, b)
		return
	}
	writer, ok := t.Server.(tool.Writer)
	if !ok {
		o.doubt(errors.New("the backend can't look up"), b)
		return
	}
	call := req.toolCall(t, b, nil)
	if call.Credential, err = r.credential(ctx, req, b); err != nil {
		o.doubt(err, b)
		return
	}
	result, err := writer.LookUp(ctx, call)
	e, _ := errors.AsType[*tool.Error](err)
	switch {
	case err == nil:
		o.result = new(journal.Fit(result, req.calls))
	case e != nil && e.Outcome == tool.Refused && e.Code == tool.CodeUnknownOperation:
		o.nothing = true
	default:
		o.fail(toolFailure(err), b.Spec.Retry)
	}
}

// What is ready to be sent.
type sendable struct {
	server tool.Server
	call   run.ToolCall
}

// A refusal is why a call is not sent, as its failure: nothing has happened.
type refusal run.Failure

func (f *refusal) Error() string { return f.Code + ": " + f.Message }

// errHeld: the call is not sent now, since the run or the tool has been suspended.
var errHeld = errors.New("held")

const toolChanged = "The tool's binding was changed after the call was checked. Make the call again."

// codeAdmissionMissing is the code of a write that waits for the admission policies.
const codeAdmissionMissing = "AdmissionMissing"

// prepare looks again at all that lets a call through, on the exact bytes that are sent.
func (r *AgentRunReconciler) prepare(ctx context.Context, req request) (sendable, *v1alpha1.ToolBinding, error) {
	call := req.call
	if call.Rules.Write {
		if missing := r.Admission.Missing(ctx); missing != "" {
			return sendable{}, nil, &refusal{
				Code: codeAdmissionMissing, Message: "Interlock's admission policies are not in place, so no write is made: " + missing,
				Retryable: true, MaxAttempts: math.MaxInt, Backoff: time.Second,
			}
		}
	}
	b, t, err := r.openTool(ctx, req)
	if err != nil {
		return sendable{}, b, err
	}
	if bindingOf(b) != call.Binding {
		return sendable{}, b, &refusal{Code: codeToolChanged, Message: toolChanged}
	}
	policies, err := policiesOf(ctx, r.Client, req.ref.Namespace)
	if err != nil {
		return sendable{}, b, err
	}
	if why := stricter(policies, b, call); why != "" {
		return sendable{}, b, &refusal{Code: codePolicyStricter, Message: why}
	}
	if b.Spec.Suspend || r.heldNow(ctx, req.run) {
		return sendable{}, b, errHeld
	}
	bytes, err := r.argumentsOf(ctx, req)
	if err != nil {
		return sendable{}, b, err
	}
	may, err := r.Principals.May(ctx, principalOf(req.run), call.Tool, call.Rules.Write)
	switch {
	case err != nil:
		return sendable{}, b, err
	case !may:
		return sendable{}, b, &refusal{Code: policy.CodeNotPermitted, Message: "This run may not call the tool any more: " + unpermitted(req.run) + "."}
	case t.Schema.Check(bytes) != nil:
		return sendable{}, b, &refusal{Code: codeToolChanged, Message: toolChanged}
	}
	if err := r.approved(req, b, t); err != nil {
		return sendable{}, b, err
	}
	send := sendable{t.Server, req.toolCall(t, b, bytes)}
	send.call.Credential, err = r.credential(ctx, req, b)
	return send, b, err
}

// approved makes sure that what is about to be sent is what people approved, and that it is not too late.
func (r *AgentRunReconciler) approved(req request, b *v1alpha1.ToolBinding, t *openTool) error {
	c := req.call
	if c.State == run.CallPreviewing || c.Rules.Approvals == 0 {
		return nil
	}
	switch {
	case c.Ask == nil || len(c.Ask.Consents) < c.Rules.Approvals || c.Ask.Digest != subjectOf(req.run, b, t, c, c.Ask.Expires).Digest():
		return &refusal{Code: codeToolChanged, Message: "What people approved is not what would be sent. Make the call again."}
	case !r.Clock.Now().Before(c.Ask.Expires):
		return &refusal{Code: run.CodeApprovalExpired, Message: "The approval expired before the call was sent."}
	}
	return nil
}

// argumentsOf gives the bytes whose digest is in the recorded state. For a write the journal is read anew: a call that has a
// result there, by whichever process, is not sent.
func (r *AgentRunReconciler) argumentsOf(ctx context.Context, req request) ([]byte, error) {
	step := stepOf(req.call)
	var turn journal.Turn
	var err error
	if req.call.Rules.Write {
		turn, err = r.Journal.Read(ctx, req.ref, step)
	} else {
		var ok bool
		turn, ok, err = r.Journal.Find(ctx, req.ref, step)
		err = errors.Join(err, missingUnless(ok || err != nil))
	}
	if err != nil {
		return nil, err
	}
	proposed, _ := turn.Call(req.call.ID)
	if _, done := turn.Result(req.call.ID); done && req.call.Rules.Write {
		return nil, &refusal{Code: codeToolChanged, Message: "The journal already holds a result of the call."}
	}
	if arguments.Digest([]byte(proposed.Arguments)) != req.call.ArgumentsDigest {
		return nil, &refusal{Code: codeToolChanged, Message: "The journal does not hold the arguments that were checked."}
	}
	return []byte(proposed.Arguments), nil
}

// stepOf is the step that a call is of, by its ID.
func stepOf(c run.Call) int {
	var step, place int
	if _, err := fmt.Sscanf(c.ID, "s%dc%d", &step, &place); err != nil {
		return 0
	}
	return step
}

func (r *AgentRunReconciler) openTool(ctx context.Context, req request) (*v1alpha1.ToolBinding, *openTool, error) {
	b, why, err := r.toolBinding(ctx, req.ref.Namespace, req.call.Tool)
	if err != nil {
		return nil, nil, err
	}
	if b == nil {
		return nil, nil, &refusal{Code: codeBindingGone, Message: "The tool's binding can't be used now: it " + why + ".", Retryable: why != bindingMissing}
	}
	t, err := r.Tools.Open(b)
	if err != nil {
		return b, nil, &refusal{Code: codeBindingGone, Message: "The tool's binding can't be used now."}
	}
	return b, t, nil
}

// credential is what tells the tool server on whose behalf it is asked; nil if it is not told.
func (r *AgentRunReconciler) credential(ctx context.Context, req request, b *v1alpha1.ToolBinding) (run.Credential, error) {
	if b.Spec.Backend.HTTP == nil || b.Spec.Backend.HTTP.Audience == "" {
		return nil, nil
	}
	return r.Principals.Token(ctx, principalOf(req.run), b.Spec.Backend.HTTP.Audience)
}

func (req request) toolCall(t *openTool, b *v1alpha1.ToolBinding, bytes []byte) run.ToolCall {
	return run.ToolCall{
		OperationID: req.call.OperationID, CallID: req.call.ID, Tool: t.Name, Arguments: bytes, Preview: req.call.Preview,
		MaxResultBytes: min(int(b.Spec.Result.MaxBytes), journal.MaxStepResults/max(req.calls, 1)),
	}
}

// refuse makes the outcome a failure of a call that was not sent.
func (o *outcome) refuse(ctx context.Context, err error, b *v1alpha1.ToolBinding) {
	why, ok := errors.AsType[*refusal](err)
	switch {
	case errors.Is(err, errHeld):
		o.held = true
	case !ok:
		o.failJournal(ctx, err)
	case why.MaxAttempts > 0:
		o.failure = (*run.Failure)(why)
	default:
		o.fail(run.Failure(*why), retryOf(b))
	}
}

// doubt makes the outcome that of a look-up that brought no answer.
func (o *outcome) doubt(err error, b *v1alpha1.ToolBinding) {
	o.fail(run.Failure{Code: codeBindingGone, Message: "What became of the call can't be asked now: " + err.Error(), InDoubt: true, Retryable: true}, retryOf(b))
}

func retryOf(b *v1alpha1.ToolBinding) v1alpha1.RetryPolicy {
	if b == nil {
		retry, _, _ := standIn()
		return retry
	}
	return b.Spec.Retry
}
