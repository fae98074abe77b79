// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// An Operation is one call, however often it is sent.
type Operation struct {
	// ID is the caller's: the same call has the same again.
	ID string
	// Principal is who calls; empty where the server does not authenticate.
	Principal string
	// Token is the bearer token that the principal showed. It is neither stored nor logged.
	Token string
	// Arguments are the bytes that the caller has sent.
	Arguments json.RawMessage
}

// A Precondition binds a commit to its preview.
type Precondition struct {
	PreviewID       string
	ResourceVersion string
}

// A Preview is what a commit would do. A person approves its bytes, so one that was given is never changed; it holds 8 KiB
// at most as JSON.
type Preview struct {
	ID string `json:"id"`
	// ResourceVersion is that of what the operation touches; the commit is refused if it is another by then.
	ResourceVersion string   `json:"resourceVersion"`
	Summary         string   `json:"summary"`
	Changes         string   `json:"changes,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	Cost            string   `json:"cost,omitempty"`
	// ExpiresAt is in UTC and whole seconds; zero, the preview does not expire.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// A State says how far an operation has come.
type State string

// The states.
const (
	InProgress State = "InProgress"
	Succeeded  State = "Succeeded"
	Failed     State = "Failed"
)

// OperationState is what became of an operation.
type OperationState struct {
	State State
	// Result is set if it Succeeded, Failure if it Failed.
	Result  *Result
	Failure *Error
}

// A Ledger remembers operations.
type Ledger interface {
	// Operation tells what became of one. One that was never done, or is another principal's, is UnknownOperation.
	Operation(ctx context.Context, id, principal string) (OperationState, error)
}

// Identity is what makes two calls the same operation.
type Identity struct {
	ID        string
	Principal string
	Tool      string
	// ArgumentsDigest is the SHA-256 of the arguments' bytes, in hex.
	ArgumentsDigest string
}

// Identify gives the identity of an operation of the named tool.
func (o Operation) Identify(tool string) Identity {
	sum := sha256.Sum256(o.Arguments)
	return Identity{o.ID, o.Principal, tool, hex.EncodeToString(sum[:])}
}

// Repeats fails with IdempotencyKeyReused unless the operation is the one that has used the ID first. It does not say in
// what they differ: the first may be somebody else's.
func (i Identity) Repeats(first Identity) error {
	if i == first {
		return nil
	}
	return Errorf(IdempotencyKeyReused, "the Idempotency-Key has come before, with another call")
}
