// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reasons of the Ready condition of a RunPolicy.
const (
	// ReasonInForce: the operator has read the policy, and runs are held to it.
	ReasonInForce = "InForce"
	// ReasonInvalidSelector: spec.namespaceSelector can't be read, so that the policy holds in every namespace until it can.
	ReasonInvalidSelector = "InvalidSelector"
)

// SelectorOperator says how the label of a namespace is compared with values.
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
type SelectorOperator string

// The operators.
const (
	// SelectorIn: the namespace has the label, with one of values.
	SelectorIn SelectorOperator = "In"
	// SelectorNotIn: the namespace does not have the label, or has it with none of values.
	SelectorNotIn SelectorOperator = "NotIn"
	// SelectorExists: the namespace has the label.
	SelectorExists SelectorOperator = "Exists"
	// SelectorDoesNotExist: the namespace does not have the label.
	SelectorDoesNotExist SelectorOperator = "DoesNotExist"
)

// RunPolicySpec is what holds in the namespaces that it selects.
type RunPolicySpec struct {
	// namespaceSelector selects the namespaces by their labels, as selectors do everywhere in Kubernetes: both of its parts must hold.
	// {} selects all. The API server labels each namespace with kubernetes.io/metadata.name. Who may label a namespace decides
	// which policies hold there.
	// +required
	NamespaceSelector *NamespaceSelector `json:"namespaceSelector,omitempty"`

	// suspend stops all runs of the namespaces: what is in flight is aborted, but for writes that were sent, which are settled;
	// nothing else begins until suspend is taken back. Deadlines go on. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"` //nolint:kubeapilinter // it is called so, and is a bool, in Jobs and CronJobs

	// maxLimits are the most that limits of a run may be. A run that asks for more is refused when it is created or, if the policy
	// came between, ends with PolicyDenied before it has begun. Runs that have begun keep their limits.
	// +optional
	MaxLimits *LimitCeilings `json:"maxLimits,omitempty"`

	// models are the ModelBindings that runs may name. Any other is refused as a limit that is too high is. At most 64; all when
	// left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Models []string `json:"models,omitempty"`

	// maxConcurrentRuns is how many runs may be under way at once in each of the namespaces. The others wait in phase Pending and begin
	// in the order in which they were created; their deadlines go on. Child runs are not counted, and a run that waits for people, or
	// is suspended after it has begun, is. Between 1 and 10000; any number when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxConcurrentRuns int32 `json:"maxConcurrentRuns,omitempty"`

	// requireApproval has people asked before calls that write, whatever their ToolBindings say of approval. A call that was let
	// through before, and is not sent yet, is refused with PolicyStricter; what was sent is settled. Left out, the ToolBindings
	// alone say when people are asked.
	// +optional
	RequireApproval *ApprovalRequirement `json:"requireApproval,omitempty"`
}

// ApprovalRequirement says before which calls people are asked.
type ApprovalRequirement struct {
	// fromRisk is the lowest spec.risk of a ToolBinding from which on people are asked before it writes. One without a risk counts
	// as Critical. How many have to approve, who counts and how long they have is as in spec.approval of the ToolBinding, and as
	// it is there by default if it has none.
	// +required
	FromRisk Risk `json:"fromRisk,omitempty"`
}

// NamespaceSelector selects namespaces by their labels. What is left out selects all.
type NamespaceSelector struct {
	// matchLabels are labels that the namespace must have, each with just this value. At most 16.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !format.qualifiedName().validate(k).hasValue())",message="each key must be the name of a label, such as team or example.com/team"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.labelValue().validate(self[k]).hasValue())",message="each value must be that of a label: at most 63 of letters, digits, '-', '_' and '.', with a letter or digit at both ends"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are more that must hold of its labels. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []SelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// SelectorRequirement is something that must hold of one label.
// +kubebuilder:validation:XValidation:rule="has(self.values) == (self.operator in ['In', 'NotIn'])",message="values are required for the operators In and NotIn, and only there"
type SelectorRequirement struct {
	// key is the label's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="key must be the name of a label, such as team or example.com/team"
	Key string `json:"key,omitempty"`

	// operator is In, NotIn (which also holds of a namespace without the label), Exists or DoesNotExist.
	// +required
	Operator SelectorOperator `json:"operator,omitempty"`

	// values are those that In and NotIn speak of. At most 32.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(v, !format.labelValue().validate(v).hasValue())",message="each value must be that of a label: at most 63 of letters, digits, '-', '_' and '.', with a letter or digit at both ends"
	Values []LabelValue `json:"values,omitempty"`
}

// LimitCeilings are the most that each of a run's limits may be. What is left out has no ceiling here.
// +kubebuilder:validation:MinProperties=1
type LimitCeilings struct {
	// maxSteps is the most that limits.maxSteps may be. Between 1 and 500.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	MaxSteps int32 `json:"maxSteps,omitempty"`

	// deadlineSeconds is the most that limits.deadlineSeconds may be. Between 1 and 604800 (a week).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	DeadlineSeconds int32 `json:"deadlineSeconds,omitempty"`

	// maxToolCalls is the most that limits.maxToolCalls may be. Between 0 and 5000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5000
	MaxToolCalls *int32 `json:"maxToolCalls,omitempty"`

	// maxInputTokens is the most that limits.maxInputTokens may be. Between 1 and 1000000000.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	MaxInputTokens int64 `json:"maxInputTokens,omitempty"`

	// maxOutputTokens is the most that limits.maxOutputTokens may be. Between 1 and 1000000000.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	MaxOutputTokens int64 `json:"maxOutputTokens,omitempty"`

	// maxCost is the most that limits.maxCost may be. A run has to have a maxCost then, and its model a price.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^0([.]0*)?$')",message="maxCost must be above 0: to let no run begin, set suspend"
	MaxCost Amount `json:"maxCost,omitempty"`

	// maxRepeats is the most that limits.maxRepeats may be. Between 2 and 1000.
	// +optional
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	MaxRepeats int32 `json:"maxRepeats,omitempty"`

	// maxChildren is the most that limits.maxChildren may be. Between 0 and 1000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxChildren *int32 `json:"maxChildren,omitempty"`

	// maxDepth is the most that limits.maxDepth may be. Between 0 and 8.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	MaxDepth *int32 `json:"maxDepth,omitempty"`

	// parallelism is the most that limits.parallelism may be. Between 1 and 16.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Parallelism int32 `json:"parallelism,omitempty"`

	// maxInvalid is the most that limits.maxInvalid may be. Between 0 and 100.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxInvalid *int32 `json:"maxInvalid,omitempty"`
}

// RunPolicyStatus says whether the policy is in force.
type RunPolicyStatus struct {
	// conditions are Ready, and Stalled while it is not.
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

// RunPolicy is what the platform team asks of all runs in the namespaces that it selects. All policies that select a namespace hold
// there at once: the strictest counts.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=runpolicies,singular=runpolicy,shortName=rpol,categories={interlock}
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Max Runs",type=integer,priority=1,JSONPath=`.spec.maxConcurrentRuns`
// +kubebuilder:printcolumn:name="Models",type=string,priority=1,JSONPath=`.spec.models`
// +kubebuilder:printcolumn:name="Max Cost",type=string,priority=1,JSONPath=`.spec.maxLimits.maxCost`
// +kubebuilder:printcolumn:name="Approval From",type=string,priority=1,JSONPath=`.spec.requireApproval.fromRisk`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="the name of a RunPolicy has at most 63 of a-z, 0-9 and '-', without dots"
type RunPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what holds in the namespaces that it selects.
	// +required
	Spec RunPolicySpec `json:"spec,omitzero"`

	// status says whether the policy is in force.
	// +optional
	Status RunPolicyStatus `json:"status,omitzero"`
}

// RunPolicyList is a list of RunPolicies.
// +kubebuilder:object:root=true
type RunPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []RunPolicy `json:"items"`
}
