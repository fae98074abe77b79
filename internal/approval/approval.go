// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package approval makes the digest that people approve: one value that stands for a call as it will be sent, down to the
// byte, and for the time until which it may be. Whoever has what is shown of a call can make the digest again, and so know that
// what is shown is what is signed. docs/spec/approvals.md describes it for other implementations, and testdata/vectors.json
// holds examples.
package approval

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/interlock-dev/interlock/internal/arguments"
)

// version separates this digest from all others.
const version = "interlock.dev/approval/v1"

// A Subject is all that an approval binds.
type Subject struct {
	// RunUID and CallID say who asks, and Principal as whom it would act.
	RunUID, CallID, Principal string
	// OperationID is the idempotency key; it covers the arguments, too.
	OperationID string
	// BindingUID and BindingGeneration name the version of the tool's rules, DefinitionDigest the tool as the model sees it, and
	// Endpoint where the call goes.
	BindingUID        string
	BindingGeneration int64
	DefinitionDigest  string
	Endpoint          string
	// ArgumentsDigest is of the canonical arguments.
	ArgumentsDigest string
	// PreviewDigest and ResourceVersion are of the preview; both empty if there is none.
	PreviewDigest, ResourceVersion string
	// Expires is until when the call may be sent, to the second.
	Expires time.Time
}

// Digest is "sha256:" and the hexadecimal SHA-256 of the RFC 8785 form of the subject, with the version as a member of its
// own.
func (s Subject) Digest() string {
	canonical, err := Canonical(map[string]any{
		"version": version, "runUID": s.RunUID, "callID": s.CallID, "principal": s.Principal, "operationID": s.OperationID,
		"bindingUID": s.BindingUID, "bindingGeneration": s.BindingGeneration, "definitionDigest": s.DefinitionDigest,
		"endpoint": s.Endpoint, "argumentsDigest": s.ArgumentsDigest, "previewDigest": s.PreviewDigest,
		"resourceVersion": s.ResourceVersion, "expires": s.Expires.UTC().Format(time.RFC3339),
	})
	if err != nil {
		// Strings and one integer always have a form; and no digest at all is never approved.
		return ""
	}
	return arguments.Digest(canonical)
}

// Canonical gives the RFC 8785 form of v.
func Canonical(v any) ([]byte, error) {
	document, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing it as JSON: %w", err)
	}
	canonical, err := jcs.Transform(document)
	if err != nil {
		return nil, fmt.Errorf("writing it canonically: %w", err)
	}
	return canonical, nil
}

// Principal is the user name of a ServiceAccount.
func Principal(namespace, serviceAccount string) string {
	return "system:serviceaccount:" + namespace + ":" + serviceAccount
}
