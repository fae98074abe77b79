// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LabelRunUID is on every Turn: the UID of its AgentRun, so that `kubectl get turns -l interlock.dev/run-uid=…` finds them.
const LabelRunUID = "interlock.dev/run-uid"

// LabelRunName is on every Turn: the name of its AgentRun.
const LabelRunName = "interlock.dev/run"

// ReplyFinish is why the model stopped.
// +kubebuilder:validation:Enum=Stop;Length;Refused
type ReplyFinish string

// TurnPurpose is what a model was asked for.
// +kubebuilder:validation:Enum=Route
type TurnPurpose string

// TurnRoute is on the Turn of a chooser, which was asked for a route.
const TurnRoute TurnPurpose = "Route"

// TurnSpec is one answer of the model, and what came of each call in it.
// +kubebuilder:validation:XValidation:rule="has(self.purpose) == has(oldSelf.purpose)",message="a Turn is append-only"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.results) || (has(self.results) && oldSelf.results.all(o, self.results.exists(r, r.callID == o.callID)))",message="a Turn is append-only: a result can't be taken away"
type TurnSpec struct {
	// runName is the AgentRun that the Turn belongs to, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Turn is append-only"
	RunName string `json:"runName,omitempty"`

	// runUID is that AgentRun's UID.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Turn is append-only"
	RunUID string `json:"runUID,omitempty"`

	// step is the step that the Turn is of, counted from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Turn is append-only"
	Step int32 `json:"step,omitempty"`

	// purpose is Route on the Turn of a chooser, which says which model the run shall ask; absent on all others.
	// +optional
	Purpose TurnPurpose `json:"purpose,omitempty"`

	// reply is what the model answered.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Turn is append-only"
	Reply TurnReply `json:"reply,omitzero"`

	// results are what came of the calls, at most one each; a call that was refused has one too.
	// +optional
	// +listType=map
	// +listMapKey=callID
	// +kubebuilder:validation:MaxItems=64
	Results []TurnResult `json:"results,omitempty"`
}

// TurnReply is what the model answered.
type TurnReply struct {
	// time is when the operator had the whole answer.
	// +required
	Time metav1.MicroTime `json:"time,omitzero"`

	// text is what the model said.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Text string `json:"text,omitempty"`

	// finish is why it stopped.
	// +required
	Finish ReplyFinish `json:"finish,omitempty"`

	// calls are what it asked for, in its order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Calls []TurnCall `json:"calls,omitempty"`

	// model is the version that answered, as the provider names it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`

	// requestID is the provider's name for the request.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	RequestID string `json:"requestID,omitempty"`

	// usage is what the provider reported; absent if it did not.
	// +optional
	Usage *TurnUsage `json:"usage,omitempty"`
}

// TurnUsage is what one answer consumed, in tokens.
type TurnUsage struct {
	// inputTokens are the tokens in, cached ones included.
	// +required
	// +kubebuilder:validation:Minimum=0
	InputTokens *int64 `json:"inputTokens,omitempty"`

	// cachedInputTokens are those of inputTokens that the provider had cached.
	// +required
	// +kubebuilder:validation:Minimum=0
	CachedInputTokens *int64 `json:"cachedInputTokens,omitempty"`

	// outputTokens are the tokens out, reasoning included.
	// +required
	// +kubebuilder:validation:Minimum=0
	OutputTokens *int64 `json:"outputTokens,omitempty"`

	// reasoningTokens are those of outputTokens that were spent on reasoning.
	// +required
	// +kubebuilder:validation:Minimum=0
	ReasoningTokens *int64 `json:"reasoningTokens,omitempty"`
}

// TurnCall is a call that the model asked for.
type TurnCall struct {
	// id is our name for the call, such as s3c1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id,omitempty"`

	// modelCallID is the model's own name for it, which may be empty or repeated.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ModelCallID string `json:"modelCallID,omitempty"`

	// tool is the name that the model used, known or not.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Tool string `json:"tool,omitempty"`

	// arguments are the canonical bytes (RFC 8785) of the arguments; or, if the model sent no JSON object, the beginning of
	// what it sent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Arguments string `json:"arguments,omitempty"`
}

// TurnResult is what came of one call.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Turn is append-only: a result can't be changed"
type TurnResult struct {
	// callID is the call that this answers.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	CallID string `json:"callID,omitempty"`

	// state is Succeeded, Failed or Rejected.
	// +required
	// +kubebuilder:validation:XValidation:rule="self in ['Rejected', 'Succeeded', 'Failed']",message="a result is that of a call that is done: Rejected, Succeeded or Failed"
	State CallState `json:"state,omitempty"`

	// time is when the operator had the result.
	// +required
	Time metav1.MicroTime `json:"time,omitzero"`

	// attempts is how many requests were sent for the call: previews, the call itself, and look-ups.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts *int32 `json:"attempts,omitempty"`

	// code is why the call was refused or failed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code,omitempty"`

	// message says it in a sentence, for the model.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// operationID is the idempotency key under which the call was sent; absent if it never was.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	OperationID string `json:"operationID,omitempty"`

	// approvedBy are those who approved the call.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	ApprovedBy []ApprovedBy `json:"approvedBy,omitempty"`

	// approvalDigest is what they approved.
	// +optional
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	ApprovalDigest string `json:"approvalDigest,omitempty"`

	// data is the tool's answer as JSON text; when it was cut, a JSON string that holds its beginning.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=524288
	Data string `json:"data,omitempty"`

	// size is the answer's full length in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Size *int64 `json:"size,omitempty"`

	// completeness is Truncated when data holds only the beginning of the answer, and Complete otherwise.
	// +optional
	Completeness Completeness `json:"completeness,omitempty"`

	// observedAt is when the tool read its data, as the tool said.
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`

	// sourceVersion is the version of its data, as the tool said.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SourceVersion string `json:"sourceVersion,omitempty"`

	// sources are what an answer may cite.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Sources []TurnSource `json:"sources,omitempty"`
}

// Completeness says whether an answer is whole.
// +kubebuilder:validation:Enum=Complete;Truncated
type Completeness string

// The values of Completeness.
const (
	Complete  Completeness = "Complete"
	Truncated Completeness = "Truncated"
)

// TurnSource is something that a result rests on.
type TurnSource struct {
	// id is what an answer cites.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ID string `json:"id,omitempty"`

	// title is the source's title.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Title string `json:"title,omitempty"`

	// url is where to find it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`
}

// Turn is one entry of a run's journal: one answer of the model, and what came of each call in it. The operator writes
// Turns and only ever adds to them; they go when their AgentRun goes.
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories={interlock}
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.spec.runName`
// +kubebuilder:printcolumn:name="Step",type=integer,JSONPath=`.spec.step`
// +kubebuilder:printcolumn:name="First Call",type=string,JSONPath=`.spec.reply.calls[0].tool`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Turn struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what was said and done.
	// +required
	Spec TurnSpec `json:"spec,omitzero"`
}

// TurnList is a list of Turns.
// +kubebuilder:object:root=true
type TurnList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Turn `json:"items"`
}
