// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

var _ = Describe("kubectl interlock", func() {
	// as runs the plugin as a user, and gives what it prints.
	as := func(ctx SpecContext, user string, args ...string) (string, error) {
		GinkgoHelper()
		kubeconfig, err := plane.KubeconfigForUser(user)
		Expect(err).NotTo(HaveOccurred())
		command := exec.CommandContext(ctx, binary("kubectl-interlock"), args...)
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		out, err := command.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			out = append(out, exit.Stderr...)
		}
		return string(out), err
	}

	It("shows what is asked, approves it, and denies it", func(ctx SpecContext) {
		namespace := aNamespace(ctx)
		aPerson(ctx, namespace, "ann", "interlock-approver")
		aPerson(ctx, namespace, "eve", "interlock-viewer")
		bank := aBank(ctx, namespace)
		aModel(ctx, namespace, asks(call("pay", `{"q":"1"}`)), asks(call("pay", `{"q":"2"}`)), asks(call("pay", `{"q":"3"}`)), says("The end."))
		r := aRun(ctx, namespace, []string{"pay"})
		awaiting(ctx, r, 1)

		Expect(as(ctx, "ann", "pending", "-n", namespace)).To(And(ContainSubstring("s1c1"), ContainSubstring("Pay.")))
		Expect(as(ctx, "eve", "pending", "-n", namespace)).NotTo(ContainSubstring("s1c1"), "it is not hers to answer")
		refused, err := as(ctx, "eve", "approve", "run", "-n", namespace, "--yes")
		Expect(err).To(HaveOccurred())
		Expect(refused).To(Or(ContainSubstring("forbidden"), ContainSubstring("may not")))

		said, err := as(ctx, "ann", "approve", "run", "s1c1", "-n", namespace, "--yes")
		Expect(err).NotTo(HaveOccurred(), said)
		Expect(said).To(And(ContainSubstring(`"q": "1"`), ContainSubstring("Effective")))
		eventually(ctx, r, func(g Gomega, r *v1alpha1.AgentRun) {
			g.Expect(r.Status.PendingApprovals).To(ContainElement(HaveField("CallID", "s2c1")))
		})
		said, err = as(ctx, "ann", "deny", "run", "-n", namespace, "--yes", "--reason", "Once is enough.")
		Expect(err).NotTo(HaveOccurred(), said)

		// For a pull request: written now, applied later.
		eventually(ctx, r, func(g Gomega, r *v1alpha1.AgentRun) {
			g.Expect(r.Status.PendingApprovals).To(ContainElement(HaveField("CallID", "s3c1")))
		})
		manifest, err := as(ctx, "ann", "approve", "run", "-n", namespace, "-o", "yaml")
		Expect(err).NotTo(HaveOccurred(), manifest)
		file := filepath.Join(GinkgoT().TempDir(), "approval.yaml")
		Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
		Expect(bank.paid()).To(HaveLen(1))
		// The pipeline that applies it is the administrator here, who requested the run as well.
		Expect(plane.Apply(ctx, file)).To(Succeed())
		a := &v1alpha1.Approval{}
		Expect(yaml.UnmarshalStrict([]byte(manifest), a)).To(Succeed())
		expectSaid(ctx, a, v1alpha1.ReasonSelfApproval)
		Expect(bank.paid()).To(HaveLen(1))
		said, err = as(ctx, "ann", "approve", "run", "-n", namespace, "--yes")
		Expect(err).NotTo(HaveOccurred(), said)

		r = ended(ctx, r)
		expectEnd(r, v1alpha1.TerminationFinal, "")
		Expect(bank.paid()).To(ConsistOf(`{"q":"1"}`, `{"q":"3"}`))
		Expect(as(ctx, "ann", "show", "run", "-n", namespace)).To(ContainSubstring("Final"))
	})
})
