// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl and returns what it prints; the error holds what it complains of. It may do anything, but for a
// --kubeconfig or --as among the arguments.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, nil, args...)
}

func (c *Cluster) kubectl(ctx context.Context, in io.Reader, args ...string) (string, error) {
	var out, complaint strings.Builder
	cmd := exec.CommandContext(ctx, filepath.Join(c.assets, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.AdminKubeconfig(), "KUBECACHEDIR="+filepath.Join(c.dir, "cache"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// Apply applies a file, a folder of manifests or a folder with a kustomization.
func (c *Cluster) Apply(ctx context.Context, path string) error {
	kind := "--filename="
	if _, err := os.Stat(filepath.Join(path, "kustomization.yaml")); err == nil {
		kind = "--kustomize="
	}
	_, err := c.Kubectl(ctx, "apply", "--server-side", kind+path)
	return err
}
