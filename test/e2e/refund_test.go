// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// aPaymentServer starts toolservers/payments over a new database, and gives its address.
func aPaymentServer(ctx context.Context) string {
	GinkgoHelper()
	port := freePort(ctx)
	payments := &program{
		name:  "payments",
		args:  []string{binary("payments"), fmt.Sprintf("--listen=127.0.0.1:%d", port), "--database=" + filepath.Join(GinkgoT().TempDir(), "payments.db")},
		ready: loopback(port, "/readyz"),
	}
	payments.start()
	DeferCleanup(payments.kill)
	return loopback(port, "")
}

// refunds gives the amounts that were refunded of a payment, as the server tells.
func refunds(server, payment string) []int {
	GinkgoHelper()
	request, err := http.NewRequest(http.MethodPost, server+"/v1/tools/get_payment:invoke", strings.NewReader(`{"paymentId":"`+payment+`"}`)) //nolint:noctx // loopback
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Idempotency-Key", "look")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	var answer struct {
		Data struct {
			Refunds []struct {
				AmountMinor int `json:"amountMinor"`
			} `json:"refunds"`
		} `json:"data"`
	}
	Expect(json.Unmarshal(body, &answer)).To(Succeed(), string(body))
	amounts := []int{}
	for _, r := range answer.Data.Refunds {
		amounts = append(amounts, r.AmountMinor)
	}
	return amounts
}

var _ = Describe("an operator that is killed at any request between proposal and outcome", func() {
	It("refunds exactly once", func(ctx SpecContext) {
		namespace := aNamespace(ctx)
		ann := aPerson(ctx, namespace, "ann", "interlock-approver")
		payments := aPaymentServer(ctx)
		blade := &guillotine{}
		tools := httptest.NewServer(blade.before(passOn(payments, nil), func(*http.Request) bool { return true }))
		DeferCleanup(func() { tools.CloseClientConnections(); tools.Close() })
		aTool(ctx, namespace, "refund", func(t *v1alpha1.ToolBinding) {
			t.Spec.Effect, t.Spec.Protocol, t.Spec.Idempotency = v1alpha1.EffectWrite, v1alpha1.ProtocolPreviewCommit, v1alpha1.IdempotencyKey
			t.Spec.InputSchema = &runtime.RawExtension{Raw: []byte(`{"type":"object","additionalProperties":true}`)}
			t.Spec.Backend.HTTP = &v1alpha1.HTTPBackend{URL: tools.URL, Tool: "refund_payment"}
		})
		expectUsable(ctx, namespace, "refund")
		interlock.kill()
		DeferCleanup(interlock.start)
		blade.anOperatorBehind(ctx, namespace)
		blade.arm(0, false)
		blade.victim.start()
		DeferCleanup(func() { blade.victim.kill() })

		// One after the other, until a run goes through without the blade having fallen: that was the last request.
		var want []int
		points := 0
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				amount := 1 + len(want)
				want = append(want, amount)
				blade.arm(at, after)
				aModelFor(ctx, namespace, fmt.Sprintf("model-%t-%d", after, at), amount)
				r := aRun(ctx, namespace, []string{"refund"}, func(r *v1alpha1.AgentRun) {
					r.Name = fmt.Sprintf("run-%t-%d", after, at)
					r.Spec.Model.Name = fmt.Sprintf("model-%t-%d", after, at)
				})
				fell := goesThrough(ctx, blade, ann, r)
				Expect(refunds(payments, "pay_1001")).To(Equal(want), "%s", blade)
				if !fell {
					break
				}
				points++
			}
		}
		AddReportEntry("points at which the operator was killed", points)
		Expect(points).To(BeNumerically(">", 20))
	}, SpecTimeout(5*time.Minute))
})

// goesThrough approves whatever a run asks, starts the operator again when it was killed, and reports whether it was.
func goesThrough(ctx context.Context, blade *guillotine, ann client.Client, r *v1alpha1.AgentRun) (fell bool) {
	GinkgoHelper()
	approved := map[string]bool{}
	Eventually(ctx, func(g Gomega) {
		select {
		case <-blade.fell:
			if !fell {
				fell = true
				_ = blade.victim.cmd.Wait()
				blade.victim.start()
			}
		default:
		}
		var now v1alpha1.AgentRun
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(r), &now)).To(Succeed())
		for _, asked := range now.Status.PendingApprovals {
			if !approved[asked.Digest] {
				approved[asked.Digest] = true
				approve(ctx, ann, asked)
			}
		}
		g.Expect(now.Status.Termination).To(HaveValue(HaveField("Reason", v1alpha1.TerminationFinal)), "%s: %s", blade, summary(&now))
		g.Expect(now.Finalizers).To(BeEmpty())
	}, patience, 10*time.Millisecond).Should(Succeed())
	return fell
}

// aModelFor is a model that asks for one refund.
func aModelFor(ctx context.Context, namespace, name string, amount int) {
	GinkgoHelper()
	create(ctx, scripted(namespace, name,
		asks(call("refund", fmt.Sprintf(`{"paymentId":"pay_1001","amountMinor":%d,"currency":"EUR","reason":"It arrived torn."}`, amount))), says("Refunded.")))
}
