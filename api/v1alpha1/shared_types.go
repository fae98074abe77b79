// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition types that more than one Kind has.
const (
	// ConditionReady is the one to wait for. On a binding it says that runs may use it; on an AgentRun that it ended with
	// its answer.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the controller is at work, and absent otherwise (kstatus).
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing goes on without a person, and absent otherwise (kstatus).
	ConditionStalled = "Stalled"
)

// Effect says what calling a tool can do to the world.
// +kubebuilder:validation:Enum=ReadOnly;Write
type Effect string

// The effects.
const (
	// EffectReadOnly tools change nothing: a call can be repeated without harm.
	EffectReadOnly Effect = "ReadOnly"
	// EffectWrite tools change something: a call is made once.
	EffectWrite Effect = "Write"
)

// PlaintextPolicy says whether a connection may go without TLS.
// +kubebuilder:validation:Enum=Refused;Allowed
type PlaintextPolicy string

// The plaintext policies.
const (
	PlaintextRefused PlaintextPolicy = "Refused"
	PlaintextAllowed PlaintextPolicy = "Allowed"
)

// Amount is an amount of money, as a decimal number in quotes, such as "2.50". The unit is whatever the prices are in: Interlock
// adds and compares, and knows of no currencies. At most 9 digits before the point, and 9 after it.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=19
// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?$`
type Amount string

// ConcurrencyLimit bounds how much goes on at once.
type ConcurrencyLimit struct {
	// max is how many calls through this binding may be under way at once, over all runs. The rest wait their turn.
	// Default 16, between 1 and 1000.
	// +optional
	// +default=16
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Max int32 `json:"max,omitempty"`
}

// RateLimit bounds how often something begins, as a bucket does that is filled evenly: requests in perSeconds on average, and
// burst at once after a quiet time.
type RateLimit struct {
	// requests is how many may begin in perSeconds, on average. Between 1 and 100000.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Requests int32 `json:"requests,omitempty"`

	// perSeconds is the time for them. Default 60, between 1 and 86400 (a day).
	// +optional
	// +default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	PerSeconds int32 `json:"perSeconds,omitempty"`

	// burst is how many may begin at once. Default 1, between 1 and 1000.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Burst int32 `json:"burst,omitempty"`
}

// CircuitBreaker says when nothing is sent any more, and for how long. What counts is that the other side can't be reached, does not
// answer in time, is overloaded, or answers that it failed (5xx); that it refuses what was asked does not.
type CircuitBreaker struct {
	// failures is how many failures in a row open it, over all runs. Default 5, between 1 and 100.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Failures int32 `json:"failures,omitempty"`

	// openSeconds is how long it stays open before an attempt is let through. Default 30, between 1 and 3600.
	// +optional
	// +default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	OpenSeconds int32 `json:"openSeconds,omitempty"`
}

// BreakerState is how a breaker stands.
// +kubebuilder:validation:Enum=Closed;Open;HalfOpen
type BreakerState string

// The states of a breaker.
const (
	// BreakerClosed: everything is sent.
	BreakerClosed BreakerState = "Closed"
	// BreakerOpen: nothing is, but look-ups of writes that were sent.
	BreakerOpen BreakerState = "Open"
	// BreakerHalfOpen: one attempt is sent at a time, to see whether it is answered.
	BreakerHalfOpen BreakerState = "HalfOpen"
)

// Reasons of the events that tell of a breaker.
const (
	ReasonBreakerOpened   = "BreakerOpened"
	ReasonBreakerHalfOpen = "BreakerHalfOpen"
	ReasonBreakerClosed   = "BreakerClosed"
)

// BreakerStatus says how a breaker stands.
type BreakerStatus struct {
	// state is Closed, Open (nothing is sent) or HalfOpen (one attempt at a time is).
	// +required
	State BreakerState `json:"state,omitempty"`

	// since is when it came to stand so.
	// +required
	Since metav1.Time `json:"since,omitzero"`

	// failures counts the failures in a row that it has seen; absent while it is closed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Failures int32 `json:"failures,omitempty"`
}

// RetryPolicy says how often a call that failed for a passing reason is tried again. What failed for good is not.
type RetryPolicy struct {
	// maxAttempts counts all attempts, the first included. Default 3, between 1 and 10.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// backoffMilliseconds is the pause after the first failure; it doubles with each further one, up to a minute. A pause that
	// the server asks for (Retry-After) counts if it is longer. A pause that would pass the run's deadline is not made: the
	// call has failed then. Default 1000, between 10 and 60000.
	// +optional
	// +default=1000
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=60000
	BackoffMilliseconds int32 `json:"backoffMilliseconds,omitempty"`
}

// ToolSelection is one tool that the run may call.
type ToolSelection struct {
	// name is a ToolBinding in the same namespace; the model knows the tool by this name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}

// RunLimits are the limits of one run, with all child runs that it starts. None can be switched off.
type RunLimits struct {
	// maxSteps is how many times the model is asked for its next turn. The calls of the last turn are still made and recorded.
	// Default 25, between 1 and 500.
	// +optional
	// +default=25
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	MaxSteps int32 `json:"maxSteps,omitempty"`

	// deadlineSeconds is how long the run may take from the moment the operator first sees it, waiting included. Default 3600,
	// between 1 and 604800 (a week).
	// +optional
	// +default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	DeadlineSeconds int32 `json:"deadlineSeconds,omitempty"`

	// maxToolCalls is how many calls are sent to tools, each attempt counted. The call that would pass it is not sent: the run
	// ends with Budget. Default 100, between 0 and 5000.
	// +optional
	// +default=100
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5000
	MaxToolCalls *int32 `json:"maxToolCalls,omitempty"`

	// maxInputTokens is how many tokens the requests to the model may have together, those that the provider had cached included.
	// Before each request, as many are reserved as it can have at most: one for each byte of what the model is shown, and some for
	// what the provider adds. A request that does not fit is not sent: the run ends with Budget. What the provider reports is
	// charged afterwards or, if it reports nothing, the reservation. Default 2000000, between 1 and 1000000000.
	// +optional
	// +default=2000000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	MaxInputTokens int64 `json:"maxInputTokens,omitempty"`

	// maxOutputTokens is how many tokens the model's answers may have together, reasoning included. The model is told to stop at
	// what is left; with less than 16 left it is not asked, and the run ends with Budget. Default 200000, between 1 and
	// 1000000000.
	// +optional
	// +default=200000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	MaxOutputTokens int64 `json:"maxOutputTokens,omitempty"`

	// maxCost is what the run may cost, in the unit of the model's price. The model needs one. Reserved and charged as tokens are.
	// Left out, the cost is bounded only by what the tokens can cost.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^0([.]0*)?$')",message="maxCost must be above 0; to limit nothing but tokens, leave it out"
	MaxCost Amount `json:"maxCost,omitempty"`

	// maxRepeats is how many times the same call, with the same arguments and the same result, ends the run with ModelFailed: a
	// model that goes in circles is stopped. The last 32 different calls are counted; a count never goes back. Default 5, between 2
	// and 1000.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	MaxRepeats int32 `json:"maxRepeats,omitempty"`

	// maxChildren is how many child runs there may be, those that they start included. Default 16, between 0 and 1000.
	// +optional
	// +default=16
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxChildren *int32 `json:"maxChildren,omitempty"`

	// maxDepth is how many levels of child runs there may be below this one: with 1, child runs start none. Default 1, between 0
	// and 8.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	MaxDepth *int32 `json:"maxDepth,omitempty"`

	// parallelism is how many tool calls of this run, and child runs, may be under way at once. Default 4, between 1 and 16.
	// +optional
	// +default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Parallelism int32 `json:"parallelism,omitempty"`

	// maxInvalid is how many invalid things the model may send before the run ends with ModelFailed: calls that were refused
	// (but not those to a tool that is out of service), and answers that were empty or cut off. The count never goes down.
	// Default 10, between 0 and 100.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxInvalid *int32 `json:"maxInvalid,omitempty"`
}
