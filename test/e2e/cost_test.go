// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// A count is how often the API server was asked for something.
type count map[string]int

// requests reads from the API server's own metrics what it has been asked to write, by "verb resource/subresource".
func requests(ctx context.Context) count {
	GinkgoHelper()
	clients, err := kubernetes.NewForConfig(restConfig)
	Expect(err).NotTo(HaveOccurred())
	text, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	Expect(err).NotTo(HaveOccurred())
	counts := count{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "DELETE", "APPLY", "DELETECOLLECTION":
			name := labels["resource"]
			if labels["subresource"] != "" {
				name += "/" + labels["subresource"]
			}
			counts[labels["verb"]+" "+name] += int(m.GetCounter().GetValue())
		}
	}
	return counts
}

// since gives what has been added to before.
func (c count) since(before count) count {
	added := count{}
	for k, n := range c {
		if n != before[k] {
			added[k] = n - before[k]
		}
	}
	return added
}

var _ = Describe("the cost", func() {
	It("of a read-only step with one call is at most two status writes and two Turn writes", func(ctx SpecContext) {
		const steps = 5
		namespace := aNamespace(ctx)
		tools.answers("cheap", `"x"`)
		aTool(ctx, namespace, "cheap")
		var script []v1alpha1.ScriptedTurn
		for i := range steps {
			script = append(script, asks(call("cheap", fmt.Sprintf(`{"q":"%d"}`, i))))
		}
		aModel(ctx, namespace, append(script, says("done"))...)
		// A run that comes before its bindings are ready waits for them, with a write of its own.
		expectUsable(ctx, namespace, "cheap")
		expectBinding(ctx, &v1alpha1.ModelBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"}}, v1alpha1.ReasonAvailable, "")
		before := requests(ctx)
		expectEnd(ended(ctx, aRun(ctx, namespace, []string{"cheap"})), v1alpha1.TerminationFinal, "")

		added := requests(ctx).since(before)
		AddReportEntry("API writes of a run of 5 lookups and an answer", fmt.Sprint(added))
		// The first write begins the run, and the last step has an answer instead of a call.
		Expect(added["PUT agentruns/status"]).To(BeNumerically("<=", 2*steps+2))
		Expect(added["PATCH agentruns/status"]).To(BeZero())
		Expect(added["POST turns"] + added["PATCH turns"] + added["PUT turns"]).To(BeNumerically("<=", 2*steps+1))
		Expect(added).NotTo(HaveKey("PUT agentruns"))
		Expect(added).NotTo(HaveKey("PATCH agentruns"))
	})

	It("of an operator with nothing to do is no write at all", func(ctx SpecContext) {
		// What earlier specs left behind comes to its end first: events are written beside the runs.
		var before count
		Eventually(ctx, func() count {
			last := before
			before = requests(ctx)
			return before.since(last)
		}, patience, "2s").Should(BeEmpty())
		Consistently(ctx, func() count {
			added := requests(ctx).since(before)
			// The API server and the controllers renew their leases.
			delete(added, "PUT leases")
			return added
		}, "5s", "500ms").Should(BeEmpty())
	})
})
