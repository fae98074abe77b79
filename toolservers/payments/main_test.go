// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/interlock-dev/interlock/toolservers/internal/httpapi/httpapitest"
	"github.com/interlock-dev/interlock/toolservers/internal/serving/servingtest"
	"github.com/interlock-dev/interlock/toolservers/payments/database/databasetest"
)

// asPayments makes the test binary be the server.
const asPayments = "TEST_AS_PAYMENTS"

func TestMain(m *testing.M) {
	if os.Getenv(asPayments) != "" {
		main()
		return
	}
	os.Exit(databasetest.Main(m))
}

// A counter is a server under test, whose answers are held to the protocol.
type counter struct {
	*httpapitest.Client
	token string
}

// start runs the server until the test ends.
func start(t *testing.T, args ...string) *counter {
	t.Helper()
	address := servingtest.Start(t, run, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	return &counter{Client: httpapitest.NewClient(t, "http://"+address)}
}

const refundOfTwelveFifty = `{"paymentId":"pay_1001","amountMinor":1250,"currency":"EUR","reason":"it arrived torn"}`

func (c *counter) header(key string, more ...string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Idempotency-Key", key)
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// send posts and decodes.
func (c *counter) send(t *testing.T, path, body string, header http.Header) (int, map[string]any) {
	t.Helper()
	return decode(t, c.Send(t, http.MethodPost, path, body, header))
}

// operation asks what became of op-1.
func (c *counter) operation(t *testing.T) (int, map[string]any) {
	t.Helper()
	return decode(t, c.Send(t, http.MethodGet, "/v1/operations/op-1", "", c.header("op-1")))
}

func decode(t *testing.T, r httpapitest.Reply) (int, map[string]any) {
	t.Helper()
	var answer map[string]any
	if err := json.Unmarshal(r.Body, &answer); err != nil {
		t.Fatalf("%v: %s", err, r.Body)
	}
	return r.Status, answer
}

// previewed previews a refund of twelve fifty, and gives the headers of the commit.
func (c *counter) previewed(t *testing.T, key string) http.Header {
	t.Helper()
	status, answer := c.send(t, "/v1/tools/refund_payment:preview", refundOfTwelveFifty, c.header(key))
	if status != http.StatusOK {
		t.Fatalf("%d: %v", status, answer)
	}
	p := answer["preview"].(map[string]any)
	return c.header(key, "If-Match", fmt.Sprintf("%q", p["resourceVersion"]), "Interlock-Preview", p["id"].(string))
}

const commitPath = "/v1/tools/refund_payment:commit"

func TestRun_refundsByTheProtocol(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			place := place(t)
			c := start(t, "--database", place)
			if status, answer := c.send(t, "/v1/tools/list_payments:invoke", `{"limit":2}`, c.header("op-0")); status != http.StatusOK {
				t.Errorf("%d: %v", status, answer)
			}
			if status, answer := c.operation(t); status != http.StatusNotFound {
				t.Errorf("%d: %v", status, answer)
			}
			header := c.previewed(t, "op-1")
			other := c.previewed(t, "op-2")
			var answers [2]string
			for i := range answers {
				status, answer := c.send(t, commitPath, refundOfTwelveFifty, header)
				if status != http.StatusOK {
					t.Fatalf("%d: %v", status, answer)
				}
				answers[i] = fmt.Sprint(answer)
			}
			if answers[0] != answers[1] {
				t.Errorf("the same call has another answer: %v", answers)
			}
			status, operation := c.operation(t)
			if status != http.StatusOK || operation["state"] != "Succeeded" || fmt.Sprint(operation["result"]) != answers[0] {
				t.Errorf("%d: %v", status, operation)
			}
			for want, send := range map[string]func() (int, map[string]any){
				"412 ResourceChanged":     func() (int, map[string]any) { return c.send(t, commitPath, refundOfTwelveFifty, other) },
				"428 MissingPrecondition": func() (int, map[string]any) { return c.send(t, commitPath, refundOfTwelveFifty, c.header("op-3")) },
				"404 UnknownPath": func() (int, map[string]any) {
					return c.send(t, "/v1/tools/refund_payment:invoke", refundOfTwelveFifty, header)
				},
				"409 RefundExceedsPayment": func() (int, map[string]any) {
					return c.send(t, "/v1/tools/refund_payment:preview", strings.Replace(refundOfTwelveFifty, "1250", "2751", 1), c.header("op-3"))
				},
				"422 IdempotencyKeyReused": func() (int, map[string]any) {
					return c.send(t, commitPath, strings.Replace(refundOfTwelveFifty, "1250", "1251", 1), header)
				},
				"404 NotFound": func() (int, map[string]any) {
					return c.send(t, "/v1/tools/get_payment:invoke", `{"paymentId":"pay_9"}`, c.header("op-3"))
				},
			} {
				if status, answer := send(); fmt.Sprintf("%d %s", status, answer["code"]) != want || answer["retryable"] != false {
					t.Errorf("%d: %v, want %s", status, answer, want)
				}
			}
		})
	}
}

// once sends a call on a connection of its own: if one that was kept breaks, net/http sends the call again by itself.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// A caller whose answer was lost finds out what became of the call, and need not send it again.
func TestRun_tellsOfACommitWhoseAnswerWasLost(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			place := place(t)
			file := filepath.Join(t.TempDir(), "faults.json")
			if err := os.WriteFile(file, []byte(`{"refund_payment:commit": {"loseAnswer": true, "times": 1}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			c := start(t, "--database", place, "--faults", file)
			header := c.previewed(t, "op-1")
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+commitPath, strings.NewReader(refundOfTwelveFifty))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = header
			if response, err := once.Do(r); err == nil {
				_ = response.Body.Close()
				t.Fatalf("the answer was not lost: %s", response.Status)
			}
			if status, operation := c.operation(t); status != http.StatusOK || operation["state"] != "Succeeded" {
				t.Errorf("%d: %v", status, operation)
			}
			_, answer := c.send(t, "/v1/tools/get_payment:invoke", `{"paymentId":"pay_1001"}`, c.header("op-2"))
			if p := answer["data"].(map[string]any)["payment"].(map[string]any); p["refundedMinor"] != 1250.0 {
				t.Errorf("%v", p)
			}
		})
	}
}

// cluster stands for an API server, whose kubeconfig it leaves in KUBECONFIG. Each token stands for a user of its name.
func cluster(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		review, ok := decoded.(*authenticationv1.TokenReview)
		if !ok {
			t.Errorf("%s: %v", r.URL.Path, err)
			return
		}
		review.Status = authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{Username: review.Spec.Token},
		}
		review.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("TokenReview"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":""}}],
		"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

func TestRun_keepsPrincipalsApart(t *testing.T) {
	cluster(t)
	c := start(t, "--database", filepath.Join(t.TempDir(), "payments.db"), "--audience", "payments")
	if status, answer := c.send(t, "/v1/tools/get_payment:invoke", `{"paymentId":"pay_1001"}`, c.header("op-0")); status != http.StatusUnauthorized {
		t.Errorf("nobody: %d: %v", status, answer)
	}
	c.token = "ann"
	header := c.previewed(t, "op-1")
	if status, answer := c.send(t, commitPath, refundOfTwelveFifty, header); status != http.StatusOK {
		t.Errorf("%d: %v", status, answer)
	}
	bob := &counter{c.Client, "bob"}
	if status, answer := bob.operation(t); status != http.StatusNotFound || answer["code"] != "UnknownOperation" {
		t.Errorf("%d: %v", status, answer)
	}
	header.Set("Authorization", "Bearer bob")
	if status, answer := bob.send(t, commitPath, refundOfTwelveFifty, header); answer["code"] != "IdempotencyKeyReused" {
		t.Errorf("%d: %v", status, answer)
	}
}

func TestRun_startsWithGivenPaymentsOnce(t *testing.T) {
	dir := t.TempDir()
	place, seed := filepath.Join(dir, "payments.db"), filepath.Join(dir, "seed.json")
	payments := `[{"id":"p-1","customer":"c","description":"d","amountMinor":5,"currency":"KWD","paidAt":"2026-01-01T00:00:00Z"}]`
	if err := os.WriteFile(seed, []byte(payments), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--database", place, "--seed", seed}, {"--database", place}} {
		t.Run(fmt.Sprint(len(args)), func(t *testing.T) {
			c := start(t, args...)
			_, answer := c.send(t, "/v1/tools/list_payments:invoke", `{}`, c.header("op"))
			if list := answer["data"].(map[string]any)["payments"].([]any); len(list) != 1 {
				t.Errorf("%v", list)
			}
		})
	}
}

func TestRun_saysWhyItDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "missing"))
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`[{"id":"p","currency":"XXX"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no such directory":        {"--database", filepath.Join(dir, "missing", "payments.db")},
		"no payments there":        {"--database", filepath.Join(dir, "a.db"), "--seed", "missing.json"},
		"a currency we don't have": {"--database", filepath.Join(dir, "a.db"), "--seed", bad},
		"no cluster":               {"--database", filepath.Join(dir, "a.db"), "--audience", "payments"},
		"open to all":              {"--database", filepath.Join(dir, "a.db"), "--listen", ":0", "--plaintext"},
	} {
		if err := run(t.Context(), append([]string{"--listen", "127.0.0.1:0"}, args...), io.Discard); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
}
