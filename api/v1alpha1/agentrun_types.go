// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reasons of the Ready condition of an AgentRun while it is under way. Once it has ended, the reason is the termination
// reason.
const (
	// ReasonPending: the run waits for its ModelBinding and ToolBindings; the message names the one that is missing.
	ReasonPending = "Pending"
	// ReasonMaxConcurrentRuns is the reason of Queued.
	ReasonMaxConcurrentRuns = "MaxConcurrentRuns"
	// ReasonThinking: the model has been asked for the next step.
	ReasonThinking = "Thinking"
	// ReasonActing: tool calls are under way.
	ReasonActing = "Acting"
	// ReasonAwaitingApproval: nothing goes on until somebody answers one of status.pendingApprovals.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonSuspended: the run is suspended, by itself or with others; the message says by what. Nothing begins until that is
	// lifted, and the deadline goes on.
	ReasonSuspended = "Suspended"
	// ReasonRouted is the reason of an event: the run asks another model than before; a warning when it had to.
	ReasonRouted = "Routed"
	// ReasonUnsupportedState is the reason of an event: the status was written by a newer Interlock, so this one leaves the run
	// and its conditions alone.
	ReasonUnsupportedState = "UnsupportedState"
)

// ConditionQueued is True while a run that could begin waits for others to end, since RunPolicies allow only so many at once
// (MaxConcurrentRuns), and absent otherwise. Its place is not in the status: it would be written to all that wait whenever one begins.
// It is counted from the others that are Queued: by creation time and, within the same second, by name.
const ConditionQueued = "Queued"

// RunPhase is where a run stands, in one word for people. Programs read conditions.
// +kubebuilder:validation:Enum=Pending;Thinking;Acting;AwaitingApproval;Suspended;Succeeded;Failed;Cancelled
type RunPhase string

// The phases.
const (
	PhasePending          RunPhase = "Pending"
	PhaseThinking         RunPhase = "Thinking"
	PhaseActing           RunPhase = "Acting"
	PhaseAwaitingApproval RunPhase = "AwaitingApproval"
	PhaseSuspended        RunPhase = "Suspended"
	PhaseSucceeded        RunPhase = "Succeeded"
	PhaseFailed           RunPhase = "Failed"
	PhaseCancelled        RunPhase = "Cancelled"
)

// TerminationReason is why a run ended. The set is closed.
// +kubebuilder:validation:Enum=Final;MaxSteps;Deadline;Budget;Cancelled;PolicyDenied;ToolFailed;ModelFailed
type TerminationReason string

// The termination reasons.
const (
	// TerminationFinal: the model gave its answer; see status.result.
	TerminationFinal TerminationReason = "Final"
	// TerminationMaxSteps: limits.maxSteps model turns went by without an answer.
	TerminationMaxSteps TerminationReason = "MaxSteps"
	// TerminationDeadline: limits.deadlineSeconds went by.
	TerminationDeadline TerminationReason = "Deadline"
	// TerminationBudget: another limit was reached; detail says which.
	TerminationBudget TerminationReason = "Budget"
	// TerminationCancelled: spec.cancel was set.
	TerminationCancelled TerminationReason = "Cancelled"
	// TerminationPolicyDenied: a call was not permitted, denied, or not approved in time, and onDenied is Terminate.
	TerminationPolicyDenied TerminationReason = "PolicyDenied"
	// TerminationToolFailed: a tool failed for good, and onToolFailure is Terminate. Or nobody can say whether a write took
	// effect: detail is OutcomeUnknown then.
	TerminationToolFailed TerminationReason = "ToolFailed"
	// TerminationModelFailed: the model could not be asked, or went on sending nothing of use.
	TerminationModelFailed TerminationReason = "ModelFailed"
)

// ToolFailurePolicy says what a failed tool call means for the run.
// +kubebuilder:validation:Enum=Observe;Terminate
type ToolFailurePolicy string

// The tool failure policies.
const (
	ToolFailureObserve   ToolFailurePolicy = "Observe"
	ToolFailureTerminate ToolFailurePolicy = "Terminate"
)

// DenialPolicy says what it means for the run that a call may not be made.
// +kubebuilder:validation:Enum=Observe;Terminate
type DenialPolicy string

// The denial policies.
const (
	DenialObserve   DenialPolicy = "Observe"
	DenialTerminate DenialPolicy = "Terminate"
)

// CallState is where a tool call stands.
// +kubebuilder:validation:Enum=Rejected;Ready;Previewing;AwaitingApproval;Approved;Executing;Backoff;LookingUp;Succeeded;Failed
type CallState string

// The states of a call.
const (
	// CallRejected: the call was refused and never sent; code says why.
	CallRejected CallState = "Rejected"
	// CallReady: the call is fine, and waits for its turn.
	CallReady CallState = "Ready"
	// CallPreviewing: the tool server is asked what the call would do.
	CallPreviewing CallState = "Previewing"
	// CallAwaitingApproval: people are asked.
	CallAwaitingApproval CallState = "AwaitingApproval"
	// CallApproved: enough people have approved, and the call waits for its turn.
	CallApproved CallState = "Approved"
	// CallExecuting: the call has been, or is about to be, sent.
	CallExecuting CallState = "Executing"
	// CallBackoff: the call failed for a passing reason and is tried again at notBefore.
	CallBackoff CallState = "Backoff"
	// CallLookingUp: the answer to a write was lost, and the tool server is asked what became of it.
	CallLookingUp CallState = "LookingUp"
	// CallSucceeded: the tool answered.
	CallSucceeded CallState = "Succeeded"
	// CallFailed: the call failed for good; code says why.
	CallFailed CallState = "Failed"
)

// ModelCallState is where a request to the model stands.
// +kubebuilder:validation:Enum=Asking;Backoff;Held
type ModelCallState string

// The states of a model call.
const (
	ModelAsking  ModelCallState = "Asking"
	ModelBackoff ModelCallState = "Backoff"
	// ModelHeld: the request has not been sent, since the run or its model is suspended.
	ModelHeld ModelCallState = "Held"
)

// AgentRunSpec is what the run is for, what it may use, and where it must stop. It is frozen once created, but for suspend, cancel
// and ttlSecondsAfterFinished: an AgentRun is like a Job, so to run again create another.
// +kubebuilder:validation:XValidation:rule="has(self.instructions) == has(oldSelf.instructions) && has(self.tools) == has(oldSelf.tools)",message="an AgentRun is frozen once created: to change it, create another one"
// +kubebuilder:validation:XValidation:rule="has(self.requestedBy) == has(oldSelf.requestedBy) && has(self.parent) == has(oldSelf.parent)",message="requestedBy and parent are written when the run is created, and never change"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cancel) || has(self.cancel)",message="cancel is final: it can't be taken back; create another AgentRun"
// +kubebuilder:validation:XValidation:rule="!has(self.model.router) || !has(self.model.router.chooser) || self.limits.maxSteps > 1",message="limits.maxSteps must be at least 2 for a run with a chooser: asking it is a step"
type AgentRunSpec struct {
	// goal is what the run shall find out or do, in words for the model. Between 1 and 16384 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="goal is frozen once created: to change it, create another AgentRun"
	Goal string `json:"goal,omitempty"`

	// instructions are added to the system text that the model is shown: how to work, what to heed, what the answer looks like.
	// At most 16384 characters; none when left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="instructions are frozen once created: to change them, create another AgentRun"
	Instructions string `json:"instructions,omitempty"`

	// model is the model that is asked, or how it is found.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="model is frozen once created: to change it, create another AgentRun"
	Model ModelSelection `json:"model,omitzero"`

	// tools are the tools that this run may see and call, by the name of their ToolBinding in the same namespace. All others do
	// not exist for it. At most 64; none when left out.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="tools are frozen once created: to change them, create another AgentRun"
	Tools []ToolSelection `json:"tools,omitempty"`

	// serviceAccountName is whom the run acts as: the ServiceAccount of this namespace that must be allowed to invoke each tool
	// (verb invoke on the ToolBinding), and whose tokens tool servers are shown. Who creates the run must be allowed to use it
	// (verb use on the ServiceAccount). Default "default".
	// +optional
	// +default="default"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="serviceAccountName is frozen once created: to change it, create another AgentRun"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// requestedBy is who created the run. The API server writes it; leave it out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="requestedBy is written by the API server when the run is created, and never changes"
	RequestedBy string `json:"requestedBy,omitempty"`

	// parent is the run that started this one, through a ToolBinding with an agent backend. The operator writes it; nobody else may.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="parent is written by the operator when it starts a child run, and never changes"
	Parent *ParentReference `json:"parent,omitempty"`

	// limits end the run when one of them is reached. What is left out has a default; nothing is unlimited.
	// +optional
	// +default={}
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="limits are frozen once created: to change them, create another AgentRun"
	Limits RunLimits `json:"limits,omitzero"`

	// onToolFailure says what a tool call that failed for good means. Observe (the default): the model is told, and goes on.
	// Terminate: the run ends with ToolFailed. A call that was refused before it was sent does not count as failed.
	// +optional
	// +default="Observe"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="onToolFailure is frozen once created: to change it, create another AgentRun"
	OnToolFailure ToolFailurePolicy `json:"onToolFailure,omitempty"`

	// onDenied says what it means that a call may not be made: the ServiceAccount is not permitted to, an approver denied it, or
	// too few approved it in time. Observe (the default): the model is told, and goes on. Terminate: the run ends with
	// PolicyDenied.
	// +optional
	// +default="Observe"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="onDenied is frozen once created: to change it, create another AgentRun"
	OnDenied DenialPolicy `json:"onDenied,omitempty"`

	// suspend keeps the run from going on: what is in flight is aborted, but for a write that was sent, which is settled; nothing
	// else begins until suspend is taken back. The deadline goes on. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"` //nolint:kubeapilinter // it is called so, and is a bool, in Jobs and CronJobs

	// cancel ends the run, also while a call is in flight; a write that was sent is settled first. It can be set at any time and not be taken back.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cancel is final: it can't be changed"
	Cancel *Cancellation `json:"cancel,omitempty"`

	// ttlSecondsAfterFinished deletes the run, and its Turns with it, this long after it ended. Left out, it stays until
	// somebody deletes it. Between 0 and 31536000 (a year).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ParentReference is the call of another run that a run answers.
type ParentReference struct {
	// name is the parent's, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// uid is the parent's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`

	// callID is the parent's call.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	CallID string `json:"callID,omitempty"`

	// deadline is the parent's: the child ends then at the latest.
	// +required
	Deadline metav1.Time `json:"deadline,omitzero"`
}

// Cancellation is a person's wish that the run ends.
type Cancellation struct {
	// reason says why; it stands in the run's termination message. Between 1 and 1024 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// AgentRunStatus is the state machine: where the run stands, what is in flight, and how it ended. It stays small however
// long the run; what was said is in its Turns.
type AgentRunStatus struct {
	// conditions are Ready (True once the run ended with its answer; False with the phase or the termination reason before and
	// otherwise), Reconciling (True while under way, waiting for its bindings included), Stalled (True when the run ended
	// without its answer) and Queued (True while it could begin, and waits for others to end).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// stateVersion is the version of the state machine that wrote this status. An operator leaves alone what is newer than
	// itself.
	// +optional
	// +kubebuilder:validation:Minimum=1
	StateVersion int32 `json:"stateVersion,omitempty"`

	// phase is where the run stands, in one word for people.
	// +optional
	Phase RunPhase `json:"phase,omitempty"`

	// step is the model turn that the run is at, counted from 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Step int32 `json:"step,omitempty"`

	// startTime is when the operator first saw the run.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// deadline is when the run ends at the latest.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// completionTime is when the run ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// modelCall is the request to the model that is in flight.
	// +optional
	ModelCall *ModelCallStatus `json:"modelCall,omitempty"`

	// route is which model the run asks, of a run with a router.
	// +optional
	Route *RouteStatus `json:"route,omitempty"`

	// contextTokens is the most tokens that the next request to the model can have.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ContextTokens int64 `json:"contextTokens,omitempty"`

	// calls are the tool calls of the current step, in the order in which the model asked for them.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	Calls []CallStatus `json:"calls,omitempty"`

	// pendingApprovals are the calls that people are asked about, each with all there is to judge and a ready Approval.
	// +optional
	// +listType=map
	// +listMapKey=callID
	// +kubebuilder:validation:MaxItems=8
	PendingApprovals []PendingApproval `json:"pendingApprovals,omitempty"`

	// ending is how the run is about to end, while a write that was sent is not settled yet, or a child run goes on.
	// +optional
	Ending *Ending `json:"ending,omitempty"`

	// usage is what the run has used so far.
	// +optional
	Usage *RunUsage `json:"usage,omitempty"`

	// repeats count how often the newest different calls had the same result.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Repeats []Repeat `json:"repeats,omitempty"`

	// termination says why the run ended; absent until then.
	// +optional
	Termination *Termination `json:"termination,omitempty"`

	// result is the model's answer, when the run ended with Final.
	// +optional
	Result *RunResult `json:"result,omitempty"`
}

// ModelCallStatus is a request to the model.
type ModelCallStatus struct {
	// state is Asking, Backoff, or Held: not sent, since the run or its model is suspended.
	// +required
	State ModelCallState `json:"state,omitempty"`

	// attempt counts the requests at this step, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// failures counts those of them that failed; the others were lost with the operator's process.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Failures int32 `json:"failures,omitempty"`

	// notBefore is when the next attempt is due, in state Backoff.
	// +optional
	NotBefore *metav1.MicroTime `json:"notBefore,omitempty"`

	// code is why the last attempt failed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code,omitempty"`

	// tried are the models of the router that the run has left at this step, since they were overloaded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Tried []string `json:"tried,omitempty"`

	// reserved is what the request may use, in state Asking. It is charged whole unless the provider reports less.
	// +optional
	Reserved *Reservation `json:"reserved,omitempty"`
}

// Reservation is what a request to the model may use at most.
type Reservation struct {
	// inputTokens are the tokens that it can have.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InputTokens *int64 `json:"inputTokens,omitempty"`

	// outputTokens are the tokens that it asks for at most.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OutputTokens *int64 `json:"outputTokens,omitempty"`

	// cost is what both can cost.
	// +optional
	Cost Amount `json:"cost,omitempty"`

	// price is the model's at the time; absent if it has none.
	// +optional
	Price *ModelPrice `json:"price,omitempty"`
}

// CallStatus is one tool call.
type CallStatus struct {
	// id is the call's name within the run, such as s3c1: step 3, first call.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id,omitempty"`

	// tool is the name that the model used. A known tool is called like its ToolBinding.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Tool string `json:"tool,omitempty"`

	// state is where the call stands.
	// +required
	State CallState `json:"state,omitempty"`

	// attempt counts the requests sent for the call: previews, the call itself, and look-ups.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// failures counts those of them that failed; the others were answered, or lost with the operator's process.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Failures int32 `json:"failures,omitempty"`

	// notBefore is when the next attempt is due, in the states Backoff and LookingUp.
	// +optional
	NotBefore *metav1.MicroTime `json:"notBefore,omitempty"`

	// code is why the call was refused or failed, in one word.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code,omitempty"`

	// operationID is the idempotency key that the tool server is given, the same for every attempt.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	OperationID string `json:"operationID,omitempty"`

	// argumentsDigest is "sha256:" and the digest of the exact bytes that are sent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ArgumentsDigest string `json:"argumentsDigest,omitempty"`

	// bindingUID is the UID of the ToolBinding that the call was checked against.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BindingUID string `json:"bindingUID,omitempty"`

	// bindingGeneration is the generation of that ToolBinding.
	// +optional
	// +kubebuilder:validation:Minimum=1
	BindingGeneration int64 `json:"bindingGeneration,omitempty"`

	// child is the run that the call has started, or is about to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Child string `json:"child,omitempty"`

	// childUID is that run's UID, once it is known to be there. If it is gone then without having told what it used, all of grant is charged.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ChildUID string `json:"childUID,omitempty"`

	// grant is what that run may use at most, reserved from this run's limits until it has ended.
	// +optional
	Grant *Grant `json:"grant,omitempty"`

	// write holds what is needed to make a call that writes, or that people are asked about; absent for all others.
	// +optional
	Write *WriteStatus `json:"write,omitempty"`
}

// Grant is what a child run may use, those that it starts included.
type Grant struct {
	// steps is as spec.limits.maxSteps.
	// +required
	// +kubebuilder:validation:Minimum=0
	Steps *int32 `json:"steps,omitempty"`

	// toolCalls is as spec.limits.maxToolCalls.
	// +required
	// +kubebuilder:validation:Minimum=0
	ToolCalls *int32 `json:"toolCalls,omitempty"`

	// children is as spec.limits.maxChildren.
	// +required
	// +kubebuilder:validation:Minimum=0
	Children *int32 `json:"children,omitempty"`

	// inputTokens is as spec.limits.maxInputTokens.
	// +required
	// +kubebuilder:validation:Minimum=0
	InputTokens *int64 `json:"inputTokens,omitempty"`

	// outputTokens is as spec.limits.maxOutputTokens.
	// +required
	// +kubebuilder:validation:Minimum=0
	OutputTokens *int64 `json:"outputTokens,omitempty"`

	// cost is as spec.limits.maxCost; absent if nothing limits it.
	// +optional
	Cost Amount `json:"cost,omitempty"`
}

// WriteStatus is a call that may change the world, or that needs approval, on its way.
type WriteStatus struct {
	// effect is what the call can do to the world, by the binding that it was checked against.
	// +required
	Effect Effect `json:"effect,omitempty"`

	// protocol is how the call is made.
	// +required
	Protocol ToolProtocol `json:"protocol,omitempty"`

	// idempotency is what the tool server knows of operations.
	// +optional
	Idempotency Idempotency `json:"idempotency,omitempty"`

	// timeoutSeconds is how long one attempt may take.
	// +required
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// preview is what the tool server said it would do.
	// +optional
	Preview *PreviewStatus `json:"preview,omitempty"`

	// approvals is how many people have to approve.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Approvals *int32 `json:"approvals,omitempty"`

	// digest is what they approve: see docs/spec/approvals.md for what it covers.
	// +optional
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// expires is until when they can.
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`

	// approvedBy are those who have.
	// +optional
	// +listType=map
	// +listMapKey=approver
	// +kubebuilder:validation:MaxItems=8
	ApprovedBy []ApprovedBy `json:"approvedBy,omitempty"`
}

// PreviewStatus names what a tool server said it would do.
type PreviewStatus struct {
	// id is the server's name for it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	ID string `json:"id,omitempty"`

	// digest is "sha256:" and the digest of the canonical JSON (RFC 8785) of the preview.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// resourceVersion is the version of what would be changed. The call goes through only while it is the same.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// ApprovedBy is one approval that counts.
type ApprovedBy struct {
	// approver is who approved.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Approver string `json:"approver,omitempty"`

	// uid is that of the Approval.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// PendingApproval is a call that people are asked about. The operator vouches for all of it but for what stands below
// fromModel and fromTool: those are a model's and a tool server's words.
type PendingApproval struct {
	// callID is the call's name within the run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	CallID string `json:"callID,omitempty"`

	// tool is the ToolBinding that would be called.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Tool string `json:"tool,omitempty"`

	// endpoint is where the call would be sent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Endpoint string `json:"endpoint,omitempty"`

	// requestedBy is who created the run.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	RequestedBy string `json:"requestedBy,omitempty"`

	// requiredBy is the RunPolicy that has people asked; absent if the ToolBinding does.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	RequiredBy string `json:"requiredBy,omitempty"`

	// principal is whom the run acts as.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Principal string `json:"principal,omitempty"`

	// expires is until when the call can be approved and made.
	// +required
	Expires metav1.Time `json:"expires,omitzero"`

	// digest is what is approved.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// definitionDigest is "sha256:" and the digest of the tool's definition.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	DefinitionDigest string `json:"definitionDigest,omitempty"`

	// fromModel is what the model asked for.
	// +required
	FromModel ModelWords `json:"fromModel,omitzero"`

	// fromTool is what the tool server says it would do; absent if the tool has no preview.
	// +optional
	FromTool *ToolWords `json:"fromTool,omitempty"`

	// manifest is a ready Approval: `kubectl get agentrun NAME -o jsonpath='{.status.pendingApprovals[0].manifest}' | kubectl
	// create -f -`. To deny, change its decision to Deny and add a reason.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Manifest string `json:"manifest,omitempty"`
}

// ModelWords are a model's.
type ModelWords struct {
	// arguments are the exact bytes that would be sent, as JSON. Above 4096 bytes they are left out: read them in the Turn, and
	// hold them against argumentsDigest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Arguments string `json:"arguments,omitempty"`

	// argumentsDigest is "sha256:" and the digest of those bytes.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	ArgumentsDigest string `json:"argumentsDigest,omitempty"`

	// turn is the Turn that holds the arguments, in spec.reply.calls.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Turn string `json:"turn,omitempty"`
}

// ToolWords are a tool server's.
type ToolWords struct {
	// preview is the preview as canonical JSON (RFC 8785), the exact bytes of which the digest was made.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Preview string `json:"preview,omitempty"`

	// summary is the preview's own summary, without control characters and marks that change the direction of text.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`

	// changes is the preview's own account of the change, made harmless in the same way.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Changes string `json:"changes,omitempty"`
}

// Ending is an end that waits for a write to be settled, or for child runs to end.
type Ending struct {
	Termination `json:",inline"`

	// until is when the outcome of what is still unsettled counts as unknown.
	// +required
	Until metav1.Time `json:"until,omitzero"`
}

// RunUsage counts what a run has used, and the child runs that have ended with it; but for invalid, which is the run's own.
type RunUsage struct {
	// children counts the child runs that have ended, those that they started included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Children *int32 `json:"children,omitempty"`

	// childSteps counts their steps.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ChildSteps *int32 `json:"childSteps,omitempty"`

	// modelCalls counts the requests put to the model, failed ones included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ModelCalls *int32 `json:"modelCalls,omitempty"`

	// toolCalls counts the calls sent to tools, each attempt by itself.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ToolCalls *int32 `json:"toolCalls,omitempty"`

	// invalid counts what the model sent that was of no use: refused calls, and answers that were empty or cut off.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Invalid *int32 `json:"invalid,omitempty"`

	// inputTokens counts tokens in, cached ones included: as the provider reported them or, if it did not, as they were reserved.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InputTokens *int64 `json:"inputTokens,omitempty"`

	// cachedInputTokens counts those of inputTokens that the provider had cached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CachedInputTokens *int64 `json:"cachedInputTokens,omitempty"`

	// outputTokens counts tokens out, reasoning included: as reported or, if not, as reserved.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OutputTokens *int64 `json:"outputTokens,omitempty"`

	// reasoningTokens counts those of outputTokens that were spent on reasoning.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReasoningTokens *int64 `json:"reasoningTokens,omitempty"`

	// totalTokens is inputTokens plus outputTokens.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TotalTokens *int64 `json:"totalTokens,omitempty"`

	// cost is what they cost, at the prices of the time of each request. Absent while nothing has a price.
	// +optional
	Cost Amount `json:"cost,omitempty"`

	// unreportedModelCalls counts the requests for which the provider did not report tokens, so that what was reserved is charged.
	// Those that failed are among them, unless it is certain that they cost nothing.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnreportedModelCalls *int32 `json:"unreportedModelCalls,omitempty"`
}

// Repeat counts how often one call had one result.
type Repeat struct {
	// key stands for the tool, its arguments and its result.
	// +required
	// +kubebuilder:validation:MinLength=16
	// +kubebuilder:validation:MaxLength=16
	Key string `json:"key,omitempty"`

	// count is how often.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`
}

// Termination says why a run ended.
type Termination struct {
	// reason is one of a closed set.
	// +required
	Reason TerminationReason `json:"reason,omitempty"`

	// detail is a code below the reason, such as ToolCalls below Budget. docs/spec/agentruns.md lists them with what to do.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Detail string `json:"detail,omitempty"`

	// message says it in a sentence.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// step is the step at which the run ended.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Step int32 `json:"step,omitempty"`

	// callID is the call that ended the run, if one did.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	CallID string `json:"callID,omitempty"`
}

// RunResult is the model's answer.
type RunResult struct {
	// text is the answer. What is longer than 16384 characters is cut here, and whole in the last Turn.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Text string `json:"text,omitempty"`

	// citations are the sources that the answer names in square brackets and that a tool's result of this run really had.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	Citations []Citation `json:"citations,omitempty"`
}

// Citation is one source of an answer.
type Citation struct {
	// id is the source's name as the tool gave it, such as web-features:grid.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ID string `json:"id,omitempty"`

	// title is the source's title, as the tool gave it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Title string `json:"title,omitempty"`

	// url is where to find it, as the tool gave it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`

	// callID is the first call whose result had it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	CallID string `json:"callID,omitempty"`

	// observedAt is when the tool read it, as the tool said.
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`

	// sourceVersion is the version of the tool's data, as the tool said.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SourceVersion string `json:"sourceVersion,omitempty"`
}

// AgentRun is one run of an agent: a goal, a model, tools and limits. Its status is a state machine that decides what
// happens with each thing the model proposes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=arun,categories={interlock}
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Step",type=integer,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Tokens",type=integer,JSONPath=`.status.usage.totalTokens`
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.status.usage.cost`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Asks For",type=string,priority=1,JSONPath=`.status.pendingApprovals[*].tool`
// +kubebuilder:printcolumn:name="Model",type=string,priority=1,JSONPath=`.spec.model.name`
// +kubebuilder:printcolumn:name="Goal",type=string,priority=1,JSONPath=`.spec.goal`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of an AgentRun has at most 63 characters, so that it can be a label value"
type AgentRun struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the run is for, what it may use, and where it must stop.
	// +required
	Spec AgentRunSpec `json:"spec,omitzero"`

	// status is where the run stands.
	// +optional
	Status AgentRunStatus `json:"status,omitzero"`
}

// AgentRunList is a list of AgentRuns.
// +kubebuilder:object:root=true
type AgentRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []AgentRun `json:"items"`
}
