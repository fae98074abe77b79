// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// AdminKubeconfig is the path of a kubeconfig that may do anything.
func (c *Cluster) AdminKubeconfig() string {
	return filepath.Join(c.dir, "admin.kubeconfig")
}

// KubeconfigFor returns the path of a kubeconfig for a ServiceAccount that exists. Its token is good for a day, and its
// namespace is that of the ServiceAccount.
func (c *Cluster) KubeconfigFor(ctx context.Context, namespace, serviceAccount string) (string, error) {
	token, err := c.Kubectl(ctx, "create", "token", serviceAccount, "--namespace="+namespace, "--duration=24h")
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(c.AdminKubeconfig())
	if err != nil {
		return "", err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &api.AuthInfo{Token: strings.TrimSpace(token)}
	}
	for _, context := range config.Contexts {
		context.Namespace = namespace
	}
	path := filepath.Join(c.dir, fmt.Sprintf("serviceaccount-%s-%s.kubeconfig", namespace, serviceAccount))
	return path, clientcmd.WriteToFile(*config, path)
}

// KubeconfigForUser returns the path of a kubeconfig for a person of that name in those groups. There is nothing to create
// first: the API server believes the certificate.
func (c *Cluster) KubeconfigForUser(name string, groups ...string) (string, error) {
	user, err := c.plane.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return "", err
	}
	config, err := user.KubeConfig()
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, "user-"+strings.ReplaceAll(name, ":", "-")+".kubeconfig")
	return path, os.WriteFile(path, config, 0o600)
}
