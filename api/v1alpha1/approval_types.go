// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reasons of the Ready condition of an Approval.
const (
	// ReasonEffective: the run has taken it into account.
	ReasonEffective = "Effective"
	// ReasonWaiting: the run has not asked for it yet.
	ReasonWaiting = "Waiting"
	// ReasonStale: what it speaks of is no more: another run of that name, a call that has gone on without it, or a preview
	// that a newer one has replaced.
	ReasonStale = "Stale"
	// ReasonExpired: it came after the call's time was over.
	ReasonExpired = "Expired"
	// ReasonDigestMismatch: it is not of the bytes that are being asked about.
	ReasonDigestMismatch = "DigestMismatch"
	// ReasonSelfApproval: it was made by who requested the run, or by a ServiceAccount that an agent runs as.
	ReasonSelfApproval = "SelfApproval"
	// ReasonDuplicate: the same person has approved the call already.
	ReasonDuplicate = "Duplicate"
)

// Decision is what an approver says.
// +kubebuilder:validation:Enum=Approve;Deny
type Decision string

// The decisions.
const (
	DecisionApprove Decision = "Approve"
	DecisionDeny    Decision = "Deny"
)

// ApprovalSpec is one person's consent, or refusal, to one exact call. It can't be changed.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an Approval can't be changed: create another one"
type ApprovalSpec struct {
	// run is the AgentRun that asks, in the same namespace.
	// +required
	Run RunReference `json:"run,omitzero"`

	// callID is the call, such as s3c1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^s[0-9]+c[0-9]+$`
	CallID string `json:"callID,omitempty"`

	// tool is the ToolBinding that would be called: who creates an Approval must be allowed the verb approve on it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Tool string `json:"tool,omitempty"`

	// digest is that of what is approved, from the run's status.pendingApprovals. It covers the exact arguments, the tool's
	// rules and definition, the preview, and the expiry: docs/spec/approvals.md says how it is made.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`

	// decision is Approve or Deny.
	// +required
	Decision Decision `json:"decision,omitempty"`

	// reason says why, for the record; the model is told the reason of a denial. At most 1024 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// approver is who created the Approval. The API server writes it; leave it out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Approver string `json:"approver,omitempty"`
}

// RunReference is one AgentRun, and no other of the same name.
type RunReference struct {
	// name is the AgentRun's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// uid is the AgentRun's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
}

// ApprovalStatus says what came of the Approval.
type ApprovalStatus struct {
	// conditions are Ready (True once the run has taken it into account), and Reconciling (it waits for the run to ask) or
	// Stalled (it has no effect, and will have none; the reason says why) while it is not.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Approval is one person's consent, or refusal, to one exact tool call of an AgentRun. Copy it from the manifest in the
// run's status.pendingApprovals; who creates it is written into it by the API server. It can't be changed, and it takes
// effect at most once.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=appr,categories={interlock}
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.spec.run.name`
// +kubebuilder:printcolumn:name="Call",type=string,JSONPath=`.spec.callID`
// +kubebuilder:printcolumn:name="Tool",type=string,JSONPath=`.spec.tool`
// +kubebuilder:printcolumn:name="Decision",type=string,JSONPath=`.spec.decision`
// +kubebuilder:printcolumn:name="Approver",type=string,JSONPath=`.spec.approver`
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Approval struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is who says what about which call.
	// +required
	Spec ApprovalSpec `json:"spec,omitzero"`

	// status says what came of it.
	// +optional
	Status ApprovalStatus `json:"status,omitzero"`
}

// ApprovalList is a list of Approvals.
// +kubebuilder:object:root=true
type ApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Approval `json:"items"`
}
