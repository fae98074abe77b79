// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A guillotine stands between a program and all that it talks to, and kills it at one request: before it is passed on, or
// after it was, with the answer in hand. Requests that change nothing and no run's are not counted.
type guillotine struct {
	victim *program

	mu sync.Mutex
	// seen counts requests since it was armed. At is the one to kill at; 0: none. After: with the answer in hand.
	seen, at int
	after    bool
	log      []string
	fell     chan struct{}
}

// arm sets the request to kill at.
func (g *guillotine) arm(at int, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen, g.at, g.after, g.log, g.fell = 0, at, after, nil, make(chan struct{})
}

// before reports whether the request is not to be passed on; then whether its answer is not to be.
func (g *guillotine) count(what string) (before, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen++
	g.log = append(g.log, what)
	if g.seen != g.at {
		return false, false
	}
	return !g.after, g.after
}

func (g *guillotine) fall() {
	_ = g.victim.cmd.Process.Kill()
	close(g.fell)
	panic(http.ErrAbortHandler)
}

// before passes requests on to target, and falls at the one that it is armed for.
func (g *guillotine) before(target http.Handler, counts func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !counts(r) {
			target.ServeHTTP(w, r)
			return
		}
		before, after := g.count(r.Method + " " + r.URL.Path)
		if before {
			g.fall()
		}
		if !after {
			target.ServeHTTP(w, r)
			return
		}
		target.ServeHTTP(httptest.NewRecorder(), r)
		g.fall()
	})
}

// writesOfRuns are the requests by which the operator records a run: status, finalizer and Turns.
func writesOfRuns(namespace string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, "/apis/interlock.dev/") || !strings.Contains(r.URL.Path, "/namespaces/"+namespace+"/") {
			return false
		}
		return strings.Contains(r.URL.Path, "/agentruns/") || strings.Contains(r.URL.Path, "/turns")
	}
}

// anOperatorBehind makes an operator that reaches the API server through the guillotine.
func (g *guillotine) anOperatorBehind(ctx context.Context, namespace string) {
	GinkgoHelper()
	path, err := plane.KubeconfigFor(ctx, "interlock-system", "interlock-operator")
	Expect(err).NotTo(HaveOccurred())
	behind := newOperator(ctx)
	for i, arg := range behind.args {
		if strings.HasPrefix(arg, "--kubeconfig=") {
			behind.args[i] = "--kubeconfig=" + g.kubeconfigBehind(path, writesOfRuns(namespace))
		}
	}
	g.victim = &behind.program
}

// kubeconfigBehind makes a kubeconfig that leads to the same API server through the guillotine.
func (g *guillotine) kubeconfigBehind(path string, counts func(*http.Request) bool) string {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	Expect(err).NotTo(HaveOccurred())
	proxy := httptest.NewTLSServer(g.before(passOn(config.Host, rest.AnonymousClientConfig(config)), counts))
	DeferCleanup(func() { proxy.CloseClientConnections(); proxy.Close() })

	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["proxy"] = &clientcmdapi.Cluster{
		Server: proxy.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}),
	}
	kubeconfig.AuthInfos["operator"] = &clientcmdapi.AuthInfo{Token: config.BearerToken, TokenFile: config.BearerTokenFile}
	kubeconfig.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "operator"}
	kubeconfig.CurrentContext = "proxy"
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*kubeconfig, file)).To(Succeed())
	return file
}

// passOn is a proxy that streams.
func passOn(target string, config *rest.Config) *httputil.ReverseProxy {
	GinkgoHelper()
	address, err := url.Parse(target)
	Expect(err).NotTo(HaveOccurred())
	proxy := httputil.NewSingleHostReverseProxy(address)
	proxy.FlushInterval = -1
	if config != nil {
		proxy.Transport, err = rest.TransportFor(config)
		Expect(err).NotTo(HaveOccurred())
	}
	return proxy
}

// String says where it fell.
func (g *guillotine) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := "nothing"
	if len(g.log) > 0 {
		last = g.log[min(g.at, len(g.log))-1]
	}
	return fmt.Sprintf("killed at request %d (after: %t): %s", g.at, g.after, last)
}
