// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy answers one question about one proposed tool call: may it go ahead?
//
// Check runs a list of small checks in the order of the gate; the first that objects decides. It is pure: what has to be
// looked up or computed to know (is the tool bound, do the arguments fit its schema) comes in as facts. It never parses what
// the model wrote, and knows nothing of a run beyond the call at hand.
package policy

import "fmt"

// Codes of a refusal. They go to the model, into status and metrics.
const (
	CodeReplyCutOff        = "ReplyCutOff"
	CodeReplyRefused       = "ReplyRefused"
	CodeUnknownTool        = "UnknownTool"
	CodeToolUnavailable    = "ToolUnavailable"
	CodeMalformedArguments = "MalformedArguments"
	CodeInvalidArguments   = "InvalidArguments"
	CodeNotPermitted       = "NotPermitted"
)

// A Call is what is known of a proposed call.
type Call struct {
	// Tool is the name that the model used, fit to be shown.
	Tool string
	// CutOff and Refused say that the reply that holds the call is not whole, or was stopped by the provider: the call may not
	// be what the model meant.
	CutOff, Refused bool
	// Known is whether the run has a tool of that name; Known tools are listed in Tools otherwise.
	Known bool
	Tools string
	// Unavailable is why the known tool cannot be called now; empty if it can.
	Unavailable string
	// Malformed is why the arguments are not one unambiguous JSON object; empty if they are.
	Malformed string
	// Invalid is where the arguments break the tool's schema; empty if they do not.
	Invalid string
	// Unpermitted is why the run's principal may not call the tool; empty if it may.
	Unpermitted string
}

// A Verdict says whether a call may go ahead and, if not, why. The zero Verdict lets it go ahead.
type Verdict struct {
	// Code is one of the constants above; empty means go ahead. Message is a sentence for the model.
	Code, Message string
}

// Allowed reports whether the call may go ahead.
func (v Verdict) Allowed() bool { return v.Code == "" }

// checks is the gate, in order. The order is part of the design: a call that is refused for one reason is not looked at
// for a later one.
var checks = []func(Call) Verdict{
	replyIsWhole,
	toolIsKnown,
	toolIsAvailable,
	argumentsAreOneObject,
	argumentsFitTheSchema,
	principalMayCall,
}

// Check puts c through the gate.
func Check(c Call) Verdict {
	for _, check := range checks {
		if v := check(c); !v.Allowed() {
			return v
		}
	}
	return Verdict{}
}

func replyIsWhole(c Call) Verdict {
	switch {
	case c.Refused:
		return Verdict{CodeReplyRefused, "The reply was stopped by the model provider, so none of its calls was made."}
	case c.CutOff:
		return Verdict{CodeReplyCutOff, "The reply was cut off at its token limit, so none of its calls was made. Ask for less at a time."}
	}
	return Verdict{}
}

func toolIsKnown(c Call) Verdict {
	switch {
	case c.Known:
		return Verdict{}
	case c.Tools == "":
		return Verdict{CodeUnknownTool, fmt.Sprintf("There is no tool %q. This run has no tools.", c.Tool)}
	}
	return Verdict{CodeUnknownTool, fmt.Sprintf("There is no tool %q. The tools are: %s.", c.Tool, c.Tools)}
}

func toolIsAvailable(c Call) Verdict {
	if c.Unavailable == "" {
		return Verdict{}
	}
	return Verdict{CodeToolUnavailable, fmt.Sprintf("The tool %q can't be called now: %s.", c.Tool, c.Unavailable)}
}

func argumentsAreOneObject(c Call) Verdict {
	if c.Malformed == "" {
		return Verdict{}
	}
	return Verdict{CodeMalformedArguments, fmt.Sprintf("The arguments must be one JSON object: %s.", c.Malformed)}
}

func argumentsFitTheSchema(c Call) Verdict {
	if c.Invalid == "" {
		return Verdict{}
	}
	return Verdict{CodeInvalidArguments, fmt.Sprintf("The arguments don't fit the tool's schema: %s.", c.Invalid)}
}

func principalMayCall(c Call) Verdict {
	if c.Unpermitted == "" {
		return Verdict{}
	}
	return Verdict{CodeNotPermitted, fmt.Sprintf("This run may not call the tool %q: %s.", c.Tool, c.Unpermitted)}
}
