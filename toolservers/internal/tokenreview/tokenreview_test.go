// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tokenreview

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// A cluster answers reviews, and counts them.
type cluster struct {
	status authenticationv1.TokenReviewStatus
	err    error
	asked  int
	now    time.Time
	log    bytes.Buffer
}

func (c *cluster) reviewer(t *testing.T) *Reviewer {
	t.Helper()
	set := fake.NewClientset()
	set.PrependReactor("create", "tokenreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		c.asked++
		review := a.(kubetesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if len(review.Spec.Audiences) != 1 || review.Spec.Audiences[0] != "payments" {
			t.Errorf("asked for %v", review.Spec.Audiences)
		}
		review.Status = c.status
		return true, review, c.err
	})
	r, err := New(set.AuthenticationV1().TokenReviews(), "payments", func() time.Time { return c.now },
		slog.New(slog.NewTextHandler(&c.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func accepted(audiences ...string) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: audiences,
		User: authenticationv1.UserInfo{Username: "system:serviceaccount:shop:agent"},
	}
}

func TestAuthenticate_takesTokensForOurAudienceOnly(t *testing.T) {
	refusal := accepted("payments")
	refusal.Authenticated = false
	nameless := accepted("payments")
	nameless.User.Username = ""
	for name, tt := range map[string]struct {
		cluster cluster
		token   string
		want    tool.Code // empty: it is taken
	}{
		"for us":              {cluster{status: accepted("payments")}, "t", ""},
		"for us and others":   {cluster{status: accepted("kube", "payments")}, "t", ""},
		"for others":          {cluster{status: accepted("kube")}, "t", tool.Unauthenticated},
		"for nobody said":     {cluster{status: accepted()}, "t", tool.Unauthenticated},
		"not authenticated":   {cluster{status: refusal}, "t", tool.Unauthenticated},
		"nobody's":            {cluster{status: nameless}, "t", tool.Unauthenticated},
		"too long to be one":  {cluster{status: accepted("payments")}, strings.Repeat("t", maxTokenBytes+1), tool.Unauthenticated},
		"which nobody judges": {cluster{err: errors.New("token t: no connection")}, "t", tool.Overloaded},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.cluster.reviewer(t).Authenticate(t.Context(), tt.token)
			known, _ := errors.AsType[*tool.Error](err)
			switch {
			case tt.want == "" && (err != nil || got != "system:serviceaccount:shop:agent"):
				t.Errorf("Authenticate = %q, %v", got, err)
			case tt.want != "" && (known == nil || known.Code != tt.want || got != ""):
				t.Errorf("Authenticate = %q, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestAuthenticate_logsWhyButNoToken(t *testing.T) {
	c := &cluster{err: errors.New("tokens are forbidden: secret-token")}
	_, _ = c.reviewer(t).Authenticate(t.Context(), "secret-token")
	if log := c.log.String(); !strings.Contains(log, "tokens are forbidden") || strings.Contains(log, "secret-token") {
		t.Errorf("log: %s", log)
	}
}

func TestAuthenticate_remembersAMinute(t *testing.T) {
	c := &cluster{status: accepted("payments"), now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	r := c.reviewer(t)
	ask := func(token string, want int) {
		t.Helper()
		_, _ = r.Authenticate(t.Context(), token)
		if c.asked != want {
			t.Errorf("the cluster was asked %d times, want %d", c.asked, want)
		}
	}
	ask("a", 1)
	ask("a", 1)
	ask("b", 2)
	c.now = c.now.Add(keepFor)
	ask("a", 3)
	c.status = authenticationv1.TokenReviewStatus{}
	ask("c", 4)
	ask("c", 5)
}

func TestAuthenticate_remembersABoundedNumber(t *testing.T) {
	c := &cluster{status: accepted("payments")}
	r := c.reviewer(t)
	for i := range keepAtMost + 10 {
		if _, err := r.Authenticate(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.known.Len(); got != keepAtMost {
		t.Errorf("%d tokens are remembered", got)
	}
}
