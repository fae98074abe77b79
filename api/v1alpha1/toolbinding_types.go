// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reasons of the Ready condition of a ToolBinding.
const (
	// ReasonAvailable: runs may use the binding.
	ReasonAvailable = "Available"
	// ReasonInvalidSchema: inputSchema is not a JSON Schema for an object; the message says where.
	ReasonInvalidSchema = "InvalidSchema"
	// ReasonInvalidBackend: the backend can never work as it is written, such as a caBundle without certificates.
	ReasonInvalidBackend = "InvalidBackend"
	// ReasonDiscoveryFailed: the MCP server could not be asked for the tool; it is asked again.
	ReasonDiscoveryFailed = "DiscoveryFailed"
	// ReasonSchemaDrift: the MCP server describes the tool otherwise than when it was accepted. The binding is out of service
	// until spec.backend.mcp.definitionDigest names the new digest.
	ReasonSchemaDrift = "SchemaDrift"
	// ReasonAdmissionMissing: Interlock's admission policies are not in place as they were shipped, so nobody can know who wrote
	// an approval. No write begins until they are: see config/admission.
	ReasonAdmissionMissing = "AdmissionMissing"
)

// ConditionWeakSchema is True when the schema leaves more open than a schema of a tool should, and absent otherwise. The
// message names what. It keeps nobody from using the tool.
const ConditionWeakSchema = "WeakSchema"

// ReasonOpenArguments is the reason of WeakSchema.
const ReasonOpenArguments = "OpenArguments"

// ToolProtocol is how a call is made.
// +kubebuilder:validation:Enum=Direct;PreviewCommit
type ToolProtocol string

// The tool protocols.
const (
	// ProtocolDirect: the call is sent, and that is it.
	ProtocolDirect ToolProtocol = "Direct"
	// ProtocolPreviewCommit: the server says first what it would do, and then does that or nothing.
	ProtocolPreviewCommit ToolProtocol = "PreviewCommit"
)

// Idempotency is what a tool server knows of operations.
// +kubebuilder:validation:Enum=Key;None
type Idempotency string

// The kinds of idempotency.
const (
	// IdempotencyKey: the server does one operation ID once, and says what became of it.
	IdempotencyKey Idempotency = "Key"
	// IdempotencyNone: it does neither.
	IdempotencyNone Idempotency = "None"
)

// ApprovalRule says when people are asked.
// +kubebuilder:validation:Enum=Never;Always
type ApprovalRule string

// The approval rules.
const (
	ApprovalNever  ApprovalRule = "Never"
	ApprovalAlways ApprovalRule = "Always"
)

// Risk is how much harm a call of a tool can do.
// +kubebuilder:validation:Enum=Low;Medium;High;Critical
type Risk string

// The risks, from the lowest to the highest.
const (
	RiskLow      Risk = "Low"
	RiskMedium   Risk = "Medium"
	RiskHigh     Risk = "High"
	RiskCritical Risk = "Critical"
)

// SelfApproval says whether the one who requested a run may approve its calls.
// +kubebuilder:validation:Enum=Refused;Allowed
type SelfApproval string

// The values of SelfApproval.
const (
	SelfApprovalRefused SelfApproval = "Refused"
	SelfApprovalAllowed SelfApproval = "Allowed"
)

// ToolBindingSpec is one tool and its rules.
// +kubebuilder:validation:XValidation:rule="!has(self.protocol) || self.protocol == 'Direct' || (self.effect == 'Write' && has(self.backend.http))",message="protocol PreviewCommit is for effect Write and an http backend: MCP has no previews"
// +kubebuilder:validation:XValidation:rule="has(self.idempotency) == (self.effect == 'Write')",message="idempotency is required for effect Write, and only there: Key if the server does each operation ID once and says what became of it, None if it does not"
// +kubebuilder:validation:XValidation:rule="!has(self.idempotency) || (has(self.backend.http) || self.idempotency == (has(self.backend.agent) ? 'Key' : 'None'))",message="idempotency Key needs an http or an agent backend, since MCP has no way to ask what became of a call; an agent backend is always Key"
// +kubebuilder:validation:XValidation:rule="has(self.inputSchema) || has(self.backend.mcp)",message="inputSchema is required for an http or agent backend: write the JSON Schema of the tool's arguments"
type ToolBindingSpec struct {
	// description tells the model what the tool does and when to use it. Between 1 and 4096 characters. Required for an http
	// or agent backend; for an mcp backend the server's own description is used when it is left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// inputSchema is the JSON Schema of the tool's arguments, as an object: 2020-12 unless $schema says otherwise, "type: object"
	// at its root, no references to other documents. Arguments that it does not name are refused, unless it says otherwise
	// with additionalProperties. Required for an http or agent backend; for an mcp backend the server's own schema is used when it is
	// left out.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	InputSchema *runtime.RawExtension `json:"inputSchema,omitempty"`

	// backend is what has the tool: exactly one of http, mcp and agent.
	// +required
	Backend ToolBackend `json:"backend,omitzero"`

	// effect says what a call can do to the world. ReadOnly: nothing; a call may be repeated. Write: something; a call is made
	// once, after every call that the model asked for before it, and its outcome is settled before the run ends. What a server
	// says about its tools is not relied on: a tool that may write is declared Write.
	// +required
	Effect Effect `json:"effect,omitempty"`

	// protocol is how a call of effect Write is made. Direct (the default): it is sent. PreviewCommit: the server says what it
	// would do, people see that when they are asked, and then exactly that is done or, if what it touches has changed, nothing.
	// +optional
	// +default="Direct"
	Protocol ToolProtocol `json:"protocol,omitempty"`

	// idempotency is what the server knows of operations; required for effect Write. Key: it does one operation ID once, and
	// answers GET /v1/operations/{id}, so that a lost answer is looked up. None: it does not, so that a lost answer ends the
	// run with ToolFailed/OutcomeUnknown, and a person has to find out.
	// +optional
	Idempotency Idempotency `json:"idempotency,omitempty"`

	// approval says when people are asked before a call is made, and who counts. Left out, they are asked for effect Write, and
	// not for ReadOnly.
	// +optional
	Approval *ApprovalPolicy `json:"approval,omitempty"`

	// risk is how much harm a call can do: Low, Medium, High or Critical. RunPolicies ask people before calls that write, from a
	// risk on (spec.requireApproval); the tool does not need to know. Left out, it counts as Critical.
	// +optional
	Risk Risk `json:"risk,omitempty"`

	// suspend is the tool's kill switch: while it is true, no call of it begins, in no run. What is in flight goes on. Runs that
	// need it wait, within their deadline, and go on when suspend is taken back. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"` //nolint:kubeapilinter // it is called so, and is a bool, in Jobs and CronJobs

	// timeoutSeconds is how long one attempt may take. The run's deadline counts as well. Default 30, between 1 and 600.
	// +optional
	// +default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// retry says how often a call that failed for a passing reason is tried again.
	// +optional
	// +default={}
	Retry RetryPolicy `json:"retry,omitzero"`

	// rate bounds how often calls, previews among them, begin through this binding, over all runs. What comes too early waits its turn, within the
	// deadline of its run. It is kept in memory: an operator that starts begins with a full bucket. Left out, there is no such bound.
	// +optional
	Rate *RateLimit `json:"rate,omitempty"`

	// breaker keeps calls from the other side while that is down: after so many failures in a row nothing is sent for a while, and
	// then one attempt at a time, until the first that is answered closes it. Left out, there is none.
	// +optional
	Breaker *CircuitBreaker `json:"breaker,omitempty"`

	// concurrency bounds the calls under way at once through this binding.
	// +optional
	// +default={}
	Concurrency ConcurrencyLimit `json:"concurrency,omitzero"`

	// result bounds what is kept of an answer and shown to the model.
	// +optional
	// +default={}
	Result ResultPolicy `json:"result,omitzero"`
}

// ApprovalPolicy says when people are asked, and who counts.
type ApprovalPolicy struct {
	// policy is Always or Never.
	// +required
	Policy ApprovalRule `json:"policy,omitempty"`

	// quorum is how many different people have to approve. One who denies is enough to stop the call. Default 1, between 1
	// and 8.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	Quorum int32 `json:"quorum,omitempty"`

	// ttlSeconds is how long people have, from the model's reply on. What the preview says of its own expiry, and the run's
	// deadline, count as well. Default 3600, between 1 and 604800 (a week).
	// +optional
	// +default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`

	// selfApproval says whether the one who requested the run counts. The run's own ServiceAccount, and any other that an agent
	// runs as, never does. Default Refused.
	// +optional
	// +default="Refused"
	SelfApproval SelfApproval `json:"selfApproval,omitempty"`
}

// ToolBackend is what has the tool.
// +kubebuilder:validation:ExactlyOneOf=http;mcp;agent
type ToolBackend struct {
	// http is a server of the HTTP tool protocol (toolservers/openapi.yaml).
	// +optional
	HTTP *HTTPBackend `json:"http,omitempty"`

	// mcp is an MCP server over Streamable HTTP.
	// +optional
	MCP *MCPBackend `json:"mcp,omitempty"`

	// agent answers a call with a child run: an AgentRun of its own, with the arguments as its goal, that acts as its parent's
	// ServiceAccount. What it uses counts for its parent, too.
	// +optional
	Agent *AgentBackend `json:"agent,omitempty"`
}

// AgentBackend is a child run.
type AgentBackend struct {
	// model is the model that the child asks; left out, its parent's.
	// +optional
	Model *ModelSelection `json:"model,omitempty"`

	// instructions are added to the system text that the child's model is shown. At most 16384 characters; none when left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Instructions string `json:"instructions,omitempty"`

	// tools are the tools that the child may see and call. Each must be one of its parent's, too. At most 64; none when left out.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Tools []ToolSelection `json:"tools,omitempty"`

	// limits are the most that the child may use. What its parent has left counts as well: it is reserved there before the child
	// starts, and what the child did not use is given back.
	// +optional
	// +default={}
	Limits RunLimits `json:"limits,omitzero"`
}

// HTTPBackend is a tool on a server of the HTTP tool protocol.
// +kubebuilder:validation:XValidation:rule="!isURL(self.url) || !self.url.startsWith('http://') || (has(self.plaintext) && self.plaintext == 'Allowed') || url(self.url).getHostname() in ['localhost', '127.0.0.1', '::1']",message="url must begin with https://; to send calls in the clear, set plaintext: Allowed"
type HTTPBackend struct {
	// url is the server's base address, without the /v1/tools part, such as https://catalog.tools.svc:8443.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.matches('^https?://[^/?#@]+(/|$)') && !self.contains('?') && !self.contains('#')",message="url must be an http or https address with a host, and without credentials, query and fragment"
	URL string `json:"url,omitempty"`

	// tool is the tool's name on that server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	Tool string `json:"tool,omitempty"`

	// audience has each call carry a short-lived token of the run's ServiceAccount for this audience, so that the server knows
	// as whom it acts. It begins with tools.interlock.dev/, which no API server accepts. Left out, calls carry no token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^tools\.interlock\.dev/[a-z0-9]([-a-z0-9./]*[a-z0-9])?$`
	Audience string `json:"audience,omitempty"`

	// caBundle holds PEM certificates of the authorities to trust instead of the system's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`

	// plaintext allows http:// to a host other than this machine. Default Refused.
	// +optional
	Plaintext PlaintextPolicy `json:"plaintext,omitempty"`
}

// MCPBackend is a tool on an MCP server.
// +kubebuilder:validation:XValidation:rule="!isURL(self.url) || !self.url.startsWith('http://') || (has(self.plaintext) && self.plaintext == 'Allowed') || url(self.url).getHostname() in ['localhost', '127.0.0.1', '::1']",message="url must begin with https://; to send calls in the clear, set plaintext: Allowed"
type MCPBackend struct {
	// url is the server's MCP endpoint, such as https://catalog.tools.svc:8443/mcp.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.matches('^https?://[^/?#@]+([/?]|$)') && !self.contains('#')",message="url must be an http or https address with a host, and without credentials and fragment"
	URL string `json:"url,omitempty"`

	// tool is the tool's name on that server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	Tool string `json:"tool,omitempty"`

	// definitionDigest accepts one definition of the tool, by its digest: the one in status.definition, or the one that a
	// SchemaDrift condition names. Left out, the first definition seen is accepted, and a different one later is drift.
	// +optional
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	DefinitionDigest string `json:"definitionDigest,omitempty"`

	// caBundle holds PEM certificates of the authorities to trust instead of the system's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`

	// plaintext allows http:// to a host other than this machine. Default Refused.
	// +optional
	Plaintext PlaintextPolicy `json:"plaintext,omitempty"`
}

// ResultPolicy bounds what is kept of an answer.
type ResultPolicy struct {
	// maxBytes is how much of one answer is kept and shown to the model; the rest is cut off, and marked as cut. The calls of
	// one step share 384 KiB, so that many large answers may be cut sooner. Default 16384, between 256 and 262144.
	// +optional
	// +default=16384
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=262144
	MaxBytes int32 `json:"maxBytes,omitempty"`
}

// ToolBindingStatus says whether runs may use the binding.
type ToolBindingStatus struct {
	// conditions are Ready, and Reconciling or Stalled while it is not: Stalled when only an edit of the binding can help. And
	// WeakSchema, when the schema leaves more open than it should.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// rulesGeneration is the generation at which anything but suspend last changed: the version of the tool's rules that calls
	// and approvals are for.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RulesGeneration int64 `json:"rulesGeneration,omitempty"`

	// rulesDigest is "sha256:" and a digest of the spec without suspend, by which the operator knows that nothing else changed.
	// +optional
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	RulesDigest string `json:"rulesDigest,omitempty"`

	// definition is the tool as its MCP server described it when it was accepted.
	// +optional
	Definition *ToolDefinition `json:"definition,omitempty"`

	// breaker says how spec.breaker stands; absent without one. It is kept in memory: an operator that starts begins with it closed.
	// +optional
	Breaker *BreakerStatus `json:"breaker,omitempty"`
}

// ToolDefinition is a tool as its MCP server describes it.
type ToolDefinition struct {
	// digest is "sha256:" and the digest of the canonical JSON (RFC 8785) of the tool's name, description, schemas and
	// annotations.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// description is what the server says the tool does, without control characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// inputSchema is the server's JSON Schema of the arguments.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	InputSchema *runtime.RawExtension `json:"inputSchema,omitempty"`
}

// ToolBinding is one tool that runs in its namespace may be given: where it is, what its arguments look like, and the
// rules it is called by.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tb,categories={interlock}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.spec.effect`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="the name of a ToolBinding is the tool's name for the model: at most 63 of a-z, 0-9 and '-', without dots"
// +kubebuilder:validation:XValidation:rule="has(self.spec.description) || has(self.spec.backend.mcp)",message="spec.description is required for an http or agent backend: tell the model what the tool does and when to use it"
type ToolBinding struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the tool and its rules.
	// +required
	Spec ToolBindingSpec `json:"spec,omitzero"`

	// status says whether runs may use the binding.
	// +optional
	Status ToolBindingStatus `json:"status,omitzero"`
}

// ToolBindingList is a list of ToolBindings.
// +kubebuilder:object:root=true
type ToolBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ToolBinding `json:"items"`
}
