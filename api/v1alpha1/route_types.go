// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ModelSelection says which model is asked: a fixed one, or one that a router finds.
// +kubebuilder:validation:ExactlyOneOf=name;router
type ModelSelection struct {
	// name is a ModelBinding in the same namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// router finds the model among several: rules cut the candidates, a chooser can be asked which of the rest fits, and when the
	// one that is asked is overloaded or goes out of service, the run goes on with the next.
	// +optional
	Router *ModelRouter `json:"router,omitempty"`

	// requires says what each model of the run has to meet, at each request. One that does not meet it is not asked. Left out,
	// nothing is required.
	// +optional
	Requires *ModelRequirements `json:"requires,omitempty"`
}

// ModelRouter finds the model of a run.
type ModelRouter struct {
	// candidates are the models that may be asked, in order of preference: the first that can be asked is taken when nobody chooses, or
	// the chooser is no help. Between 1 and 16.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Candidates []ModelCandidate `json:"candidates,omitempty"`

	// chooser is the ModelBinding that is asked, at the first step, which of the candidates fits the goal. It can also refuse the
	// task, or hand it over to a person; the run ends then. Its step, its tokens and their cost are the run's. Left out, nobody
	// chooses.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Chooser string `json:"chooser,omitempty"`
}

// ModelCandidate is a model that a router may put a run to.
type ModelCandidate struct {
	// name is a ModelBinding in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// purpose says to the chooser what the model is good for. At most 512 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Purpose string `json:"purpose,omitempty"`
}

// ModelRequirements are what a model has to meet to be asked. They hold for a chooser, too, but for the capabilities.
// +kubebuilder:validation:MinProperties=1
type ModelRequirements struct {
	// dataClasses are the classes of the data that the run has to do with: only a model whose spec.dataClasses has all of them is
	// shown it. They hold for the run's children as well. At most 16.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DataClasses []Label `json:"dataClasses,omitempty"`

	// capabilities are those that a model's spec.capabilities must all have. At most 16.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Capabilities []Label `json:"capabilities,omitempty"`

	// maxPrice is the most that a million tokens may cost. A model without a price is not asked then.
	// +optional
	MaxPrice *PriceCeiling `json:"maxPrice,omitempty"`
}

// Label is a name of the platform's own choice, such as confidential or vision: at most 63 of a-z, 0-9 and '-'.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type Label string

// PriceCeiling is the most that a million tokens of a model may cost.
// +kubebuilder:validation:MinProperties=1
type PriceCeiling struct {
	// input is for tokens in that the provider has not cached. Left out, any price will do.
	// +optional
	Input UnitPrice `json:"input,omitempty"`

	// output is for tokens out, reasoning included. Left out, any price will do.
	// +optional
	Output UnitPrice `json:"output,omitempty"`
}

// RouteReason is why a run is at the model that it is at.
// +kubebuilder:validation:Enum=Preferred;Chosen;Default;Fallback
type RouteReason string

// The reasons of a route.
const (
	// RoutePreferred: it is the first candidate that can be asked.
	RoutePreferred RouteReason = "Preferred"
	// RouteChosen: the chooser has chosen it.
	RouteChosen RouteReason = "Chosen"
	// RouteDefault: it is the first that can be asked: the chooser could not be, or named none that can.
	RouteDefault RouteReason = "Default"
	// RouteFallback: the one before was overloaded, or can't be asked any more.
	RouteFallback RouteReason = "Fallback"
)

// RouteStatus is which model a run asks, and why.
type RouteStatus struct {
	// model is the ModelBinding that is asked; absent while the chooser is, and if it wants none to be.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Model string `json:"model,omitempty"`

	// reason is why, in one word: Preferred, Chosen, Default or Fallback.
	// +optional
	Reason RouteReason `json:"reason,omitempty"`

	// message is why, in a sentence.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// fromModel is the reason that the chooser gave. These are the words of a model.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	FromModel string `json:"fromModel,omitempty"`

	// sinceStep is the step since which the run is at the model.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SinceStep int32 `json:"sinceStep,omitempty"`

	// questionTokens are the most that the request to the chooser can have, while that is asked.
	// +optional
	// +kubebuilder:validation:Minimum=1
	QuestionTokens int64 `json:"questionTokens,omitempty"`

	// excluded are the candidates that could not be asked when the run began.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Excluded []ExcludedModel `json:"excluded,omitempty"`
}

// ExcludedModel is a candidate that was left out.
type ExcludedModel struct {
	// name is its ModelBinding.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// message is why.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
