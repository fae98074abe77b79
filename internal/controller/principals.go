// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/approval"
	"github.com/interlock-dev/interlock/internal/run"
)

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,verbs=create

// Principals are the ServiceAccounts that runs act as: what they may do, and how they are known to tool servers. It is safe
// for concurrent use.
type Principals struct {
	client client.Client
	// answers and tokens hold what was asked a short while ago.
	answers, tokens *cache.LRUExpireCache
}

const (
	// answerLife is how long an answer counts for calls that change nothing.
	answerLife = 10 * time.Second
	// tokenLife is what tokens are asked for, the least that the API server gives; they are used for half of it.
	tokenLife = 10 * time.Minute
	// remembered bounds the answers and the tokens that are held, each.
	remembered = 4096
)

// NewPrincipals makes Principals that ask the API server through c, which has no cache: what is asked is not stored.
func NewPrincipals(c client.Client) *Principals {
	return &Principals{client: c, answers: cache.NewLRUExpireCache(remembered), tokens: cache.NewLRUExpireCache(remembered)}
}

// A principal is one ServiceAccount.
type principal struct{ namespace, name string }

func principalOf(agentRun *v1alpha1.AgentRun) principal {
	return principal{agentRun.Namespace, agentRun.Spec.ServiceAccountName}
}

func (p principal) String() string { return approval.Principal(p.namespace, p.name) }

// May reports whether p may invoke a tool of its namespace. If fresh, the API server is asked in any case; otherwise an answer
// of the last ten seconds will do.
func (ps *Principals) May(ctx context.Context, p principal, tool string, fresh bool) (bool, error) {
	key := p.String() + " " + tool
	if may, ok := ps.answers.Get(key); ok && !fresh {
		return may == true, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   p.String(),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + p.namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: p.namespace, Verb: "invoke", Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
			Resource: "toolbindings", Name: tool,
		},
	}}
	if err := ps.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether %s may invoke %s: %w", p, tool, err)
	}
	ps.answers.Add(key, review.Status.Allowed, answerLife)
	return review.Status.Allowed, nil
}

// Token gives a token of p for an audience, which says nothing to the API server.
func (ps *Principals) Token(ctx context.Context, p principal, audience string) (run.Credential, error) {
	key := p.String() + " " + audience
	if token, ok := ps.tokens.Get(key); ok {
		if credential, ok := token.(run.Credential); ok {
			return credential, nil
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: new(int64(tokenLife / time.Second)),
	}}
	if err := ps.client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("asking for a token of %s: %w", p, err)
	}
	token := request.Status.Token
	credential := run.Credential(func() string { return token })
	ps.tokens.Add(key, credential, tokenLife/2)
	return credential, nil
}
