// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scraper gives the token of a ServiceAccount that may read the metrics, and nothing else.
var scraper = sync.OnceValue(func() string {
	ctx := context.Background()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scraper"}}
	create(ctx, account)
	create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	})
	create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "scraper"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "scraper"}},
	})
	request := &authenticationv1.TokenRequest{}
	Expect(admin.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
})

// metric reads a counter or a gauge of the operator, with exactly these labels; 0 if it is not there.
func (o *operator) metric(ctx context.Context, name string, labels map[string]string) float64 {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", o.metricsPort), nil)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+scraper())
	once := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := once.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	Expect(err).NotTo(HaveOccurred())
	for _, m := range families[name].GetMetric() {
		found := map[string]string{}
		for _, l := range m.GetLabel() {
			found[l.GetName()] = l.GetValue()
		}
		if maps.Equal(found, labels) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return 0
}

// refusals reads how often a policy has refused something.
func refusals(ctx context.Context, policy, detail string) float64 {
	GinkgoHelper()
	return interlock.metric(ctx, "interlock_runpolicy_refusals_total", map[string]string{"policy": policy, "detail": detail})
}
