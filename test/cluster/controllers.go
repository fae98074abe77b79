// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// controllers are those that matter where nothing but the API is used.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"validatingadmissionpolicy-status-controller",
}

// startControllers starts kube-controller-manager and waits for the first thing it does.
func (c *Cluster) startControllers(ctx context.Context) error {
	p, err := c.prepare("kube-controller-manager")
	if err != nil {
		return err
	}
	kubeconfig, err := c.KubeconfigForUser("system:kube-controller-manager")
	if err != nil {
		return err
	}
	ca := filepath.Join(p.dir, "ca.crt")
	if err := os.WriteFile(ca, c.plane.Config.CAData, 0o600); err != nil {
		return err
	}
	c.controllers = exec.CommandContext(context.WithoutCancel(ctx), p.path,
		"--kubeconfig="+kubeconfig,
		"--controllers="+strings.Join(controllers, ","),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+filepath.Join(c.plane.ControlPlane.APIServer.CertDir, "sa-signer.key"),
		"--root-ca-file="+ca,
		"--leader-elect=false",
		"--secure-port=0",
	)
	c.controllers.Stderr = p.log
	if err := c.controllers.Start(); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "wait", "--for=create", "serviceaccount/default", "--timeout="+patience.String())
	return err
}

func (c *Cluster) stopControllers() error {
	if c.controllers == nil || c.controllers.Process == nil {
		return nil
	}
	// It is killed because it has nothing to lose, and takes its time to stop when asked to.
	err := c.controllers.Process.Kill()
	_ = c.controllers.Wait() // "signal: killed" is what we want to hear
	return err
}
