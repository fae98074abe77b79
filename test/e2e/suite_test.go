// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e_test runs the built operator against a real API server: as its own ServiceAccount, with scripted models, real
// tool servers and programs that others wrote, killed and restarted in the middle.
package e2e_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/test/cluster"
)

// What all specs share.
var (
	plane      *cluster.Cluster
	restConfig *rest.Config
	admin      client.Client
	// asOperator writes what only the operator may.
	asOperator client.Client
	interlock  *operator
	tools      *toolServer
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "end to end")
}

// repository is the root of the source tree.
func repository(parts ...string) string {
	return filepath.Join(append([]string{"..", ".."}, parts...)...)
}

// binary is a program that `make build` has built.
func binary(name string) string {
	path, err := filepath.Abs(repository("bin", name))
	Expect(err).NotTo(HaveOccurred())
	Expect(path).To(BeAnExistingFile(), "run these specs with `make test-e2e`, which builds what they need")
	return path
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	plane, err = cluster.Start(ctx, cluster.Options{CRDs: []string{repository("config", "crd", "bases")}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	Expect(plane.Apply(ctx, repository("config", "manager", "namespace.yaml"))).To(Succeed())
	Expect(plane.Apply(ctx, repository("config", "rbac"))).To(Succeed())
	Expect(plane.InstallAdmission(ctx, repository("config", "admission"))).To(Succeed())

	restConfig, err = clientcmd.BuildConfigFromFlags("", plane.AdminKubeconfig())
	Expect(err).NotTo(HaveOccurred())
	restConfig.QPS = -1
	admin = clientOf(plane.AdminKubeconfig())

	kubeconfig, err := plane.KubeconfigFor(ctx, "interlock-system", "interlock-operator")
	Expect(err).NotTo(HaveOccurred())
	asOperator = clientOf(kubeconfig)

	tools = newToolServer()
	DeferCleanup(func() { tools.CloseClientConnections(); tools.Close() })
	interlock = newOperator(ctx)
	interlock.start()
	DeferCleanup(func() { interlock.kill() })
})

// clientOf makes a client of whom a kubeconfig is for.
func clientOf(kubeconfig string) client.Client {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	c, err := client.New(config, client.Options{Scheme: scheme, FieldValidation: "Strict"})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// freePort is one that nobody listened at just now.
func freePort(ctx context.Context) int {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func loopback(port int, path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", port, path) }
