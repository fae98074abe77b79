// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model is the port to language models: one interface, its errors and its limits. An adapter for each provider
// lives in a folder beneath it, and package modeltest holds the contract that all of them pass.
//
// An adapter never retries (the run's state machine does, and charges for it), never follows a redirect with a credential,
// and never returns anything of its provider's SDK.
package model

import (
	"context"

	"github.com/interlock-dev/interlock/internal/run"
)

// Limits on what an adapter returns, whatever the provider sends. A reply beyond them is an *Error with ReasonMalformed.
const (
	// MaxBodyBytes bounds the bytes read of one response body.
	MaxBodyBytes = 8 << 20
	// MaxReplyBytes bounds the text and arguments of one reply taken together, so that its Turn fits in one object.
	MaxReplyBytes = 256 << 10
	// MaxCalls bounds the calls in one reply.
	MaxCalls = 64
)

// A Model answers one turn.
//
// Implementations are safe for concurrent use, return when ctx is done, and return nil or an *Error.
type Model interface {
	// Complete puts req to the model. The provider may see two calls with one req.ID.
	Complete(ctx context.Context, req run.ModelRequest) (run.Reply, error)
}

// A Config is what an adapter needs to know of one model endpoint.
type Config struct {
	// BaseURL is the API's root, such as https://api.openai.com/v1. Model is the name that the provider knows.
	BaseURL, Model string
	// APIKey is sent to BaseURL only. Empty: the request carries none.
	APIKey Secret
	// Script is the scripted adapter's: a document in YAML or JSON.
	Script []byte
}

// A Factory makes a Model of a Config. It does no I/O; an error means that the config can never work.
type Factory func(Config) (Model, error)

// A Secret is a credential. However it is printed, and whatever holds it, what shows is "[redacted]" or an address: the
// credential itself is behind a function. The zero Secret is empty.
type Secret struct {
	reveal func() string
}

// NewSecret makes a Secret.
func NewSecret(credential string) Secret { return Secret{func() string { return credential }} }

// Reveal gives the credential, for where it is sent.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// String hides the credential.
func (Secret) String() string { return "[redacted]" }

// GoString hides the credential from %#v.
func (Secret) GoString() string { return "[redacted]" }

// MarshalText hides the credential from JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }
