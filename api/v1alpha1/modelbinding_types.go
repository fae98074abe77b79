// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reasons of the Ready condition of a ModelBinding, beside ReasonAvailable.
const (
	// ReasonSecretMissing: the Secret, or the key in it, does not exist.
	ReasonSecretMissing = "SecretMissing"
	// ReasonScriptMissing: the ConfigMap, or the key in it, does not exist.
	ReasonScriptMissing = "ScriptMissing"
	// ReasonInvalidScript: the script is not one; the message says where.
	ReasonInvalidScript = "InvalidScript"
	// ReasonInvalidModel: the provider's settings can never work as they are written.
	ReasonInvalidModel = "InvalidModel"
)

// ModelFailureReason says in one word why a model call failed.
// +kubebuilder:validation:Enum=Unavailable;RateLimited;Timeout;Malformed;Unauthorized;NotFound;ContextLength;InvalidRequest;Refused
type ModelFailureReason string

// ScriptedFinish is why a scripted model stopped.
// +kubebuilder:validation:Enum=Stop;Length;Refused
type ScriptedFinish string

// ModelBindingSpec is one model endpoint and its rules.
// +kubebuilder:validation:ExactlyOneOf=openai;scripted
type ModelBindingSpec struct {
	// openai is any endpoint that speaks OpenAI's Chat Completions.
	// +optional
	OpenAI *OpenAIModel `json:"openai,omitempty"`

	// scripted is a model that answers from a script: for tests, demos and dry runs. It needs no network.
	// +optional
	Scripted *ScriptedModel `json:"scripted,omitempty"`

	// maxOutputTokens caps one answer, reasoning included. Default 4096, between 1 and 131072.
	// +optional
	// +default=4096
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=131072
	MaxOutputTokens int32 `json:"maxOutputTokens,omitempty"`

	// price is what a million tokens cost. Runs with limits.maxCost need it; left out, the cost of runs is not counted.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.cachedInput) || !isQuantity(self.cachedInput) || !isQuantity(self.input) || quantity(self.cachedInput).compareTo(quantity(self.input)) <= 0",message="cachedInput must not be above input: before a request, all of it counts as not cached"
	Price *ModelPrice `json:"price,omitempty"`

	// dataClasses are the classes of data that the model may be shown, in names of the platform's own: a run whose
	// spec.model.requires.dataClasses has others does not ask it. At most 16; none when left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DataClasses []Label `json:"dataClasses,omitempty"`

	// capabilities are what the model can do, in names of the platform's own, such as vision: a run whose
	// spec.model.requires.capabilities has others does not ask it. At most 16; none when left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Capabilities []Label `json:"capabilities,omitempty"`

	// suspend is the model's kill switch: while it is true, no request to it begins, in no run. What is in flight goes on. Runs that
	// need it wait, within their deadline, and go on when suspend is taken back. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"` //nolint:kubeapilinter // it is called so, and is a bool, in Jobs and CronJobs

	// timeoutSeconds is how long one attempt may take. The run's deadline counts as well. Default 120, between 1 and 1800.
	// +optional
	// +default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1800
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// retry says how often a request that failed for a passing reason is tried again.
	// +optional
	// +default={}
	Retry RetryPolicy `json:"retry,omitzero"`

	// rate bounds how often requests begin through this binding, over all runs. What comes too early waits its turn, within the
	// deadline of its run. It is kept in memory: an operator that starts begins with a full bucket. Left out, there is no such bound.
	// +optional
	Rate *RateLimit `json:"rate,omitempty"`

	// breaker keeps requests from the other side while that is down: after so many failures in a row nothing is sent for a while, and
	// then one attempt at a time, until the first that is answered closes it. Left out, there is none.
	// +optional
	Breaker *CircuitBreaker `json:"breaker,omitempty"`

	// concurrency bounds the requests under way at once through this binding.
	// +optional
	// +default={}
	Concurrency ConcurrencyLimit `json:"concurrency,omitzero"`
}

// UnitPrice is what a million tokens cost, as a decimal number in quotes, such as "0.15": at most 6 digits before the point, and 9
// after it.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]{0,5})(\.[0-9]{1,9})?$`
type UnitPrice string

// ModelPrice is what a million tokens cost, by their kind. A request is charged at the price of the moment it was reserved.
type ModelPrice struct {
	// input is the price of a million tokens in that the provider had not cached.
	// +required
	Input UnitPrice `json:"input,omitempty"`

	// cachedInput is the price of a million tokens in that it had. Default: as input.
	// +optional
	CachedInput UnitPrice `json:"cachedInput,omitempty"`

	// output is the price of a million tokens out.
	// +required
	Output UnitPrice `json:"output,omitempty"`

	// reasoning is the price of those of them that were spent on reasoning. Default: as output.
	// +optional
	Reasoning UnitPrice `json:"reasoning,omitempty"`
}

// OpenAIModel is an endpoint that speaks OpenAI's Chat Completions.
// +kubebuilder:validation:XValidation:rule="!has(self.baseURL) || !isURL(self.baseURL) || !self.baseURL.startsWith('http://') || (has(self.plaintext) && self.plaintext == 'Allowed') || url(self.baseURL).getHostname() in ['localhost', '127.0.0.1', '::1']",message="baseURL must begin with https://; to send prompts and the API key in the clear, set plaintext: Allowed"
type OpenAIModel struct {
	// baseURL is the API's root, the part before /chat/completions. Left out, it is https://api.openai.com/v1.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.matches('^https?://[^/?#@]+(/|$)') && !self.contains('?') && !self.contains('#')",message="baseURL must be an http or https address with a host, and without credentials, query and fragment"
	BaseURL string `json:"baseURL,omitempty"`

	// model is the model's name at the provider.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`

	// apiKeySecret is where the API key is. Left out, requests carry none.
	// +optional
	APIKeySecret *SecretKey `json:"apiKeySecret,omitempty"`

	// plaintext allows http:// to a host other than this machine. Default Refused.
	// +optional
	Plaintext PlaintextPolicy `json:"plaintext,omitempty"`
}

// SecretKey is one entry of a Secret in the same namespace.
type SecretKey struct {
	// name is the Secret's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key is the entry's key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ConfigMapKey is one entry of a ConfigMap in the same namespace.
type ConfigMapKey struct {
	// name is the ConfigMap's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key is the entry's key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ScriptedModel is a script: its n-th turn is the answer to a run's n-th step.
// +kubebuilder:validation:ExactlyOneOf=turns;configMap
type ScriptedModel struct {
	// turns are the answers, in order. A run that asks for more turns than there are ends with ModelFailed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Turns []ScriptedTurn `json:"turns,omitempty"`

	// configMap holds the same as YAML or JSON, a document with the one key "turns": for long scripts (up to 200 turns), or to share one.
	// +optional
	ConfigMap *ConfigMapKey `json:"configMap,omitempty"`
}

// ScriptedTurn is one answer, with what is expected of the question.
type ScriptedTurn struct {
	// expect is what the model must have been shown; if it was not, the run ends with ModelFailed and a message that says what
	// was missing.
	// +optional
	Expect *ScriptedExpectation `json:"expect,omitempty"`

	// text is what the model says.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Text string `json:"text,omitempty"`

	// calls are the tool calls it asks for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Calls []ScriptedCall `json:"calls,omitempty"`

	// finish is why it stops. Default Stop.
	// +optional
	Finish ScriptedFinish `json:"finish,omitempty"`

	// usage is what it reports. Left out, it reports nothing.
	// +optional
	Usage *ScriptedUsage `json:"usage,omitempty"`

	// delayMilliseconds is how long it thinks. Default 0, at most 600000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600000
	DelayMilliseconds *int32 `json:"delayMilliseconds,omitempty"`

	// fail makes the first attempts at this turn fail.
	// +optional
	Fail *ScriptedFailure `json:"fail,omitempty"`
}

// ScriptedExpectation is what a scripted model expects to be shown.
type ScriptedExpectation struct {
	// contains are texts that must stand in what was said since the model's last answer.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Contains []string `json:"contains,omitempty"`

	// tools are the names of exactly the tools that must be offered, in any order.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Tools []string `json:"tools,omitempty"`
}

// ScriptedCall is one tool call of a script.
// +kubebuilder:validation:XValidation:rule="!(has(self.arguments) && has(self.rawArguments))",message="set arguments or rawArguments, not both"
type ScriptedCall struct {
	// id is the model's own name for the call; a real model may send an empty or repeated one, and so may this.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=256
	ID *string `json:"id,omitempty"`

	// tool is the name of the tool, known or not.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Tool string `json:"tool,omitempty"`

	// arguments are the call's arguments. Left out, and without rawArguments, they are {}.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Arguments *runtime.RawExtension `json:"arguments,omitempty"`

	// rawArguments are the call's arguments as a string, to send what is not valid.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=16384
	RawArguments *string `json:"rawArguments,omitempty"`
}

// ScriptedUsage is the usage that a scripted model reports, in tokens.
type ScriptedUsage struct {
	// input are the tokens in, cached ones included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Input *int64 `json:"input,omitempty"`

	// cachedInput are those of input that were cached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	CachedInput *int64 `json:"cachedInput,omitempty"`

	// output are the tokens out, reasoning included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Output *int64 `json:"output,omitempty"`

	// reasoning are those of output that were spent on reasoning.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Reasoning *int64 `json:"reasoning,omitempty"`
}

// ScriptedFailure makes attempts fail.
type ScriptedFailure struct {
	// times is how many attempts fail before one succeeds. Between 1 and 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Times int32 `json:"times,omitempty"`

	// reason is why they fail.
	// +required
	Reason ModelFailureReason `json:"reason,omitempty"`

	// retryAfterSeconds is the pause that the model advises. Default: none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	RetryAfterSeconds int32 `json:"retryAfterSeconds,omitempty"`
}

// ModelBindingStatus says whether runs may use the binding.
type ModelBindingStatus struct {
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

	// breaker says how spec.breaker stands; absent without one. It is kept in memory: an operator that starts begins with it closed.
	// +optional
	Breaker *BreakerStatus `json:"breaker,omitempty"`
}

// ModelBinding is one model that runs in its namespace may ask.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mb,categories={interlock}
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.openai.model`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="the name of a ModelBinding has at most 63 of a-z, 0-9 and '-', without dots"
type ModelBinding struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the model endpoint and its rules.
	// +required
	Spec ModelBindingSpec `json:"spec,omitzero"`

	// status says whether runs may use the binding.
	// +optional
	Status ModelBindingStatus `json:"status,omitzero"`
}

// ModelBindingList is a list of ModelBindings.
// +kubebuilder:object:root=true
type ModelBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ModelBinding `json:"items"`
}
