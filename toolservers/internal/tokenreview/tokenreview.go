// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tokenreview finds out who calls a tool server by asking the cluster: a bearer token is a ServiceAccount's, made
// for this server's own audience.
//
// A token for anybody else's audience is refused, the API server's own included: who holds one of those could otherwise
// pass it on to us, or we to others. Tokens are remembered as digests only. The main type is Reviewer.
package tokenreview

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

const (
	// keepFor is how long a token is taken without asking again, and so how long one that was withdrawn lives on.
	keepFor = time.Minute
	// keepAtMost bounds how many tokens are remembered.
	keepAtMost = 4096
	// maxTokenBytes is well above what API servers issue.
	maxTokenBytes = 16 << 10
)

// A Reviewer authenticates by TokenReview. It is safe for concurrent use.
type Reviewer struct {
	reviews  client.TokenReviewInterface
	audience string
	now      func() time.Time
	log      *slog.Logger
	// known holds accepted tokens only: a refusal may be over in a moment, and must not push out what was accepted.
	known *lru.Cache[[sha256.Size]byte, acceptance]
}

type acceptance struct {
	principal string
	until     time.Time
}

// New makes a Reviewer of tokens for the audience.
func New(reviews client.TokenReviewInterface, audience string, now func() time.Time, log *slog.Logger) (*Reviewer, error) {
	known, err := lru.New[[sha256.Size]byte, acceptance](keepAtMost)
	if err != nil {
		return nil, fmt.Errorf("making a cache of tokens: %w", err)
	}
	return &Reviewer{reviews, audience, now, log, known}, nil
}

// Authenticate gives the name of the user that the token stands for.
func (r *Reviewer) Authenticate(ctx context.Context, token string) (string, error) {
	if len(token) > maxTokenBytes {
		return "", refused()
	}
	digest, now := sha256.Sum256([]byte(token)), r.now()
	if a, ok := r.known.Get(digest); ok && now.Before(a.until) {
		return a.principal, nil
	}
	principal, err := r.review(ctx, token)
	if err != nil {
		return "", err
	}
	// From before the question on: the answer is not younger than that.
	r.known.Add(digest, acceptance{principal, now.Add(keepFor)})
	return principal, nil
}

func (r *Reviewer) review(ctx context.Context, token string) (string, error) {
	answer, err := r.reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{r.audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		// The caller did nothing wrong and may come back. An API error may repeat what was sent to it.
		r.log.ErrorContext(ctx, "reviewing a token failed", "error", strings.ReplaceAll(err.Error(), token, "…"))
		return "", tool.Errorf(tool.Overloaded, "the cluster does not say who the caller is; try again later")
	}
	// An API server that knows nothing of audiences leaves them out, and its answer does not count.
	if s := answer.Status; s.Authenticated && s.User.Username != "" && slices.Contains(s.Audiences, r.audience) {
		return s.User.Username, nil
	}
	return "", refused()
}

func refused() error {
	return tool.Errorf(tool.Unauthenticated, "the token is not valid, has expired, or is not for this server")
}
