// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal is what was said and done in a run: a Turn for each answer of the model, with the results of its calls.
//
// It builds what the model is shown from the Turns, finds what an answer cites, and keeps the newest histories in bounded
// memory; where the Turns are stored is behind Store. It never decides anything, and what it shows the model of a tool's
// answer is always data in an envelope. The main types are Turn and Journal.
package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/interlock-dev/interlock/internal/run"
)

// Bounds that make a Turn fit into one object of the API server (1.5 MiB in etcd), however it is escaped.
const (
	// MaxReplyStored bounds the reply of a Turn, in bytes of escaped JSON.
	MaxReplyStored = 704 << 10
	// MaxResultsStored bounds the data and sources of all results of one Turn, in bytes of escaped JSON.
	MaxResultsStored = 512 << 10
	// MaxMessageStored bounds the message of one result, in bytes of escaped JSON.
	MaxMessageStored = 4 << 10
	// MaxStepResults bounds the data that the tools of one step are asked for, in bytes.
	MaxStepResults = 384 << 10
)

// A Turn is one answer of the model, and what came of its calls.
type Turn struct {
	Step  int
	At    time.Time
	Reply Reply
	// Route: the answer is a chooser's, and no part of the conversation.
	Route bool
	// Results are at most one a call, in no order.
	Results []Result
	// Version is the store's, for the next write; empty before the first.
	Version string
}

// A Reply is what the model answered, fit to be stored.
type Reply struct {
	Text             string
	Finish           run.Finish
	Calls            []Call
	Usage            run.TokenUsage
	Model, RequestID string
}

// A Call is what the model asked for, under our name for it.
type Call struct {
	ID, ModelCallID, Tool string
	// Arguments are the canonical bytes or, if the model sent no object, the beginning of what it sent.
	Arguments string
}

// A Result is what came of one call.
type Result struct {
	run.CallResult
	At time.Time
	// OperationID is the key it was sent under; empty if it never was. ApprovedBy are those who approved ApprovalDigest.
	OperationID, ApprovalDigest string
	ApprovedBy                  []run.Consent
	// Answer is the tool's, for a call that succeeded.
	Answer run.ToolResult
}

// Result finds the result of a call.
func (t Turn) Result(callID string) (Result, bool) {
	for _, r := range t.Results {
		if r.CallID == callID {
			return r, true
		}
	}
	return Result{}, false
}

// Call finds a call by its ID.
func (t Turn) Call(id string) (Call, bool) {
	for _, c := range t.Reply.Calls {
		if c.ID == id {
			return c, true
		}
	}
	return Call{}, false
}

// Fingerprint tells one reply from another. It is over all that the store keeps of it, as it comes back from there.
func (r Reply) Fingerprint() string {
	r.Usage = run.TokenUsage{}
	text, err := json.Marshal(r)
	if err != nil {
		panic("journal: a reply is plain data: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ErrTooLarge is a reply that no Turn can hold.
var ErrTooLarge = errors.New("the reply is too large to be stored")

// Check reports whether the reply can be stored: nil or ErrTooLarge.
func (r Reply) Check() error {
	size := escapedSize(r.Text)
	for _, c := range r.Calls {
		size += escapedSize(c.Arguments) + escapedSize(c.Tool) + escapedSize(c.ModelCallID)
	}
	if size > MaxReplyStored {
		return ErrTooLarge
	}
	return nil
}

// Fit cuts an answer so that its Turn can hold it beside the other results of a step of n calls: first its sources, to a
// quarter of the room that there is for each call, then its data. O(n) in the answer's length.
func Fit(answer run.ToolResult, n int) run.ToolResult {
	room := MaxResultsStored / max(n, 1)
	answer.Sources = fitSources(answer.Sources, room/4)
	for _, s := range answer.Sources {
		room -= sourceSize(s)
	}
	if escapedSize(string(answer.Data)) <= room {
		return answer
	}
	var text string
	if !answer.Truncated || json.Unmarshal(answer.Data, &text) != nil {
		text = string(answer.Data)
	}
	// The text is escaped once as a JSON string and again inside the Turn; the two times two quotes are escaped, too.
	room -= 2 + 4
	for i, r := range text {
		if room -= escapedTwice(r); room < 0 {
			text = text[:i]
			break
		}
	}
	if data, err := json.Marshal(text); err == nil {
		answer.Data, answer.Truncated = data, true
	}
	return answer
}

// fitSources gives the first sources that take no more than room bytes together.
func fitSources(sources []run.Source, room int) []run.Source {
	for i, s := range sources {
		if room -= sourceSize(s); room < 0 {
			return sources[:i:i]
		}
	}
	return sources
}

// sourceSize is how many bytes s takes in a Turn, its keys included.
func sourceSize(s run.Source) int {
	const keys = len(`{"id":,"title":,"url":},`)
	return keys + escapedSize(s.ID) + escapedSize(s.Title) + escapedSize(s.URL)
}

// FitMessage cuts the message of a result so that its Turn can hold it, were all results messages.
func FitMessage(message string) string {
	room := MaxMessageStored - len(`""`)
	for i, r := range message {
		if room -= escaped(r); room < 0 {
			return message[:i]
		}
	}
	return message
}

// escapedSize is how many bytes s takes as a string inside a JSON document as encoding/json, and so the API server, writes it.
func escapedSize(s string) int {
	n := 2
	for _, r := range s {
		n += escaped(r)
	}
	return n
}

func escaped(r rune) int {
	switch r {
	case '"', '\\', '\b', '\f', '\n', '\r', '\t':
		return 2
	case '<', '>', '&', '\u2028', '\u2029', utf8.RuneError:
		return 6
	}
	if r < ' ' {
		return 6
	}
	return utf8.RuneLen(r)
}

// escapedTwice is how many bytes r takes as a string in a document that is itself a string in a document.
func escapedTwice(r rune) int {
	switch n := escaped(r); {
	case r == '"' || r == '\\':
		return 4
	case n != utf8.RuneLen(r):
		// The backslash of the escape is escaped.
		return n + 1
	default:
		return n
	}
}

// TurnName is the name under which the Turn of a step is stored: the run's UID and the step, so that a second one of the
// same step cannot be stored.
func TurnName(runUID string, step int) string { return fmt.Sprintf("%s-%d", runUID, step) }
