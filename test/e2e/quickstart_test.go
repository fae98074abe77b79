// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// theQuickstart starts the catalog and applies examples/quickstart in a namespace of its own, with the catalog's port there.
func theQuickstart(ctx context.Context) *v1alpha1.AgentRun {
	GinkgoHelper()
	port := freePort(ctx)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	catalog := &program{name: "catalog", args: []string{binary("catalog"), "--listen=" + address}, ready: loopback(port, "/readyz")}
	catalog.start()
	DeferCleanup(catalog.kill)

	namespace, dir := aNamespace(ctx), GinkgoT().TempDir()
	files, err := filepath.Glob(repository("examples", "quickstart", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		here := strings.ReplaceAll(string(text), "127.0.0.1:8471", address)
		if filepath.Base(file) == "kustomization.yaml" {
			here += "namespace: " + namespace + "\n"
		}
		Expect(os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(here), 0o600)).To(Succeed())
	}
	Expect(plane.Apply(ctx, dir)).To(Succeed())
	return &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "quickstart"}}
}

// expectQuickstart checks what the quickstart came to. Its facts are those of the web-features package: container queries
// became Baseline newly available on 2023-02-14 and widely available thirty months later; anchor positioning is limited.
func expectQuickstart(ctx context.Context, r *v1alpha1.AgentRun) {
	GinkgoHelper()
	expectEnd(r, v1alpha1.TerminationFinal, "")
	var cited []string
	for _, c := range r.Status.Result.Citations {
		cited = append(cited, c.ID)
	}
	Expect(cited).To(Equal([]string{"web-features:container-queries", "web-features:anchor-positioning"}))
	Expect(result(ctx, r, "s2c1").Data).To(And(ContainSubstring(`"asOf":"2023-12-31"`), ContainSubstring(`"status":"newly"`), ContainSubstring("2023-02-14")))
	Expect(result(ctx, r, "s2c2")).To(And(HaveField("State", v1alpha1.CallRejected), HaveField("Code", "InvalidArguments")))
	Expect(result(ctx, r, "s3c1").Data).To(And(ContainSubstring(`"status":"widely"`), ContainSubstring("2025-08-14")))
	Expect(result(ctx, r, "s3c2").Data).To(ContainSubstring(`"status":"limited"`))
	Expect(turns(ctx, r)).To(HaveLen(4))
}

var _ = Describe("the quickstart", func() {
	It("answers with citations", func(ctx SpecContext) {
		r := ended(ctx, theQuickstart(ctx))
		expectQuickstart(ctx, r)
		Expect(r.Status.Usage.ModelCalls).To(HaveValue(BeEquivalentTo(4)))
	})

	It("ends the same when the operator is killed in the middle, and no stored answer is asked for again", func(ctx SpecContext) {
		r := theQuickstart(ctx)
		const kills = 2
		for step := int32(2); step < 2+kills; step++ {
			eventually(ctx, r, func(g Gomega, now *v1alpha1.AgentRun) { g.Expect(now.Status.Step).To(BeNumerically(">=", step)) })
			interlock.restart()
		}
		r = ended(ctx, r)
		expectQuickstart(ctx, r)
		// Each kill can lose the request in flight; what is in a Turn is not asked for again.
		Expect(*r.Status.Usage.ModelCalls).To(BeNumerically("<=", 4+kills))
	})
})
