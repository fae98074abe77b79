// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a Kubernetes control plane on this machine: a real etcd, kube-apiserver and
// kube-controller-manager, on free ports of the loopback interface. It has no nodes, so nothing in it runs a Pod; what is
// under test runs beside it, with a kubeconfig.
//
//	c, err := cluster.Start(ctx, cluster.Options{CRDs: []string{"../../config/crd/bases"}})
//	defer c.Stop()
//	err = c.Apply(ctx, "../../config/rbac")
//	kubeconfig, err := c.KubeconfigFor(ctx, "interlock-system", "interlock-operator")
//	out, err := c.Kubectl(ctx, "--kubeconfig="+kubeconfig, "get", "agentruns")
//
// The programs come from the folder that KUBEBUILDER_ASSETS names; `make control-plane` builds them. They end with the
// process that started the cluster, however it ends. (Where there is no setpriv(1), as on macOS, only Stop ends them.)
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience is how long each program may take to start or to stop. It is rarely more than a few seconds, but a machine can
// be busy.
const patience = time.Minute

// Options says what a cluster is to have beyond the bare control plane.
type Options struct {
	// CRDs are files and folders of CustomResourceDefinitions. They are served before the controllers start: of a Kind that
	// comes later, the garbage collector learns only half a minute later.
	CRDs []string
	// Logs is an existing folder for what the programs print, one file each. Left out, that is lost when the cluster stops.
	Logs string
}

// A Cluster is a control plane that runs. Only Kubectl, Apply and the readers are safe for concurrent use.
type Cluster struct {
	assets string // the folder of the programs
	dir    string // everything that the cluster writes; Stop removes it
	logs   string

	plane       *envtest.Environment // etcd and kube-apiserver
	controllers *exec.Cmd            // kube-controller-manager; nil before it is started
}

// Start returns a cluster whose API server answers, whose CRDs are served and whose controllers are at work. ctx bounds
// the start, not the life of the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS is not set: `make test-e2e` sets it, " +
			"and `make control-plane` builds what it names, bin/k8s/<version>")
	}
	dir, err := os.MkdirTemp("", "interlock-cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{assets: assets, dir: dir, logs: o.Logs}
	if c.logs == "" {
		c.logs = dir
	}
	if err := c.start(ctx, o.CRDs); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, crds []string) error {
	if err := c.startPlane(crds); err != nil {
		return fmt.Errorf("starting etcd and kube-apiserver: %w\n%s\n%s", err, c.lastWords("etcd"), c.lastWords("kube-apiserver"))
	}
	if err := os.WriteFile(c.AdminKubeconfig(), c.plane.KubeConfig, 0o600); err != nil {
		return err
	}
	if err := c.startControllers(ctx); err != nil {
		return fmt.Errorf("starting kube-controller-manager: %w\n%s", err, c.lastWords("kube-controller-manager"))
	}
	return nil
}

// Stop ends the cluster and removes its data.
func (c *Cluster) Stop() error {
	errs := []error{c.stopControllers()}
	if c.plane != nil {
		errs = append(errs, c.plane.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

// Config is for a client that may do anything.
func (c *Cluster) Config() *rest.Config {
	return rest.CopyConfig(c.plane.Config)
}

// StopAPIServer makes the API server go away. etcd keeps what was written, and the controllers keep trying.
func (c *Cluster) StopAPIServer() error {
	return c.plane.ControlPlane.APIServer.Stop()
}

// StartAPIServer brings back the API server after StopAPIServer, at the same address, with the same certificates.
func (c *Cluster) StartAPIServer() error {
	return c.plane.ControlPlane.APIServer.Start()
}

// startPlane starts etcd and kube-apiserver, with the flags and certificates of envtest where nothing else is said.
func (c *Cluster) startPlane(crds []string) error {
	etcd, err := c.prepare("etcd")
	if err != nil {
		return err
	}
	apiServer, err := c.prepare("kube-apiserver")
	if err != nil {
		return err
	}
	c.plane = &envtest.Environment{
		ControlPlane: envtest.ControlPlane{
			Etcd:      &envtest.Etcd{Path: etcd.path, DataDir: etcd.dir, Err: etcd.log},
			APIServer: &envtest.APIServer{Path: apiServer.path, CertDir: apiServer.dir, Err: apiServer.log},
		},
		UseExistingCluster:       new(false),
		CRDDirectoryPaths:        crds,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
	}
	c.plane.ControlPlane.APIServer.Configure().
		// Left out, it is found by looking for a default route, which an isolated machine does not have. Nothing connects to
		// this one: it is out of a range reserved for documentation.
		Set("advertise-address", "192.0.2.1").
		// Left out, the API server waits a minute for its clients to end their watches before it stops.
		Set("shutdown-watch-termination-grace-period", "1s")
	_, err = c.plane.Start()
	return err
}
