// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/interlock-dev/interlock/test/cluster"
)

func TestCluster(t *testing.T) {
	begin := time.Now()
	c, err := cluster.Start(t.Context(), cluster.Options{CRDs: []string{"../../config/crd/bases"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("started in %s", time.Since(begin))

	t.Run("serves the CRDs", func(t *testing.T) {
		kubectl(t, c, "get", "agentruns,modelbindings,toolbindings,turns", "--all-namespaces")
	})

	t.Run("collects what a deleted object owned", func(t *testing.T) {
		ownerAndChild(t, c, "owner", "child")
		kubectl(t, c, "delete", "configmap/owner")
		kubectl(t, c, "wait", "--for=delete", "configmap/child", "--timeout=1m")
	})

	t.Run("lets a ServiceAccount do what its roles say, and no more", func(t *testing.T) {
		kubectl(t, c, "create", "serviceaccount", "reader")
		kubeconfig, err := c.KubeconfigFor(t.Context(), "default", "reader")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Kubectl(t.Context(), "--kubeconfig="+kubeconfig, "get", "configmaps")
		if err == nil || !strings.Contains(err.Error(), "Forbidden") {
			t.Fatalf("got %v without a role, want Forbidden", err)
		}
		kubectl(t, c, "create", "rolebinding", "reader", "--clusterrole=view", "--serviceaccount=default:reader")
		eventually(t, c, "--kubeconfig="+kubeconfig, "get", "configmaps")
	})

	t.Run("knows a person by name and groups", func(t *testing.T) {
		kubeconfig, err := c.KubeconfigForUser("alice", "approvers")
		if err != nil {
			t.Fatal(err)
		}
		kubectl(t, c, "create", "rolebinding", "approvers", "--clusterrole=view", "--group=approvers")
		eventually(t, c, "--kubeconfig="+kubeconfig, "get", "configmaps")
		got := kubectl(t, c, "--kubeconfig="+kubeconfig, "auth", "whoami", "--output=jsonpath={.status.userInfo.username}")
		if got != "alice" {
			t.Errorf("got user %q, want alice", got)
		}
	})

	t.Run("serves admission policies", func(t *testing.T) {
		served := resources(t, c, "admissionregistration.k8s.io/v1")
		for _, want := range []string{
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
			"validatingadmissionpolicies", "validatingadmissionpolicybindings",
		} {
			if !slices.Contains(served, want) {
				t.Errorf("%s not among what is served: %v", want, served)
			}
		}
	})

	t.Run("forgets nothing while the API server is away", func(t *testing.T) {
		ownerAndChild(t, c, "survivor", "orphan")
		if err := c.StopAPIServer(); err != nil {
			t.Fatal(err)
		}
		if out, err := c.Kubectl(t.Context(), "get", "configmap/survivor"); err == nil {
			t.Fatalf("got %q from an API server that is away", out)
		}
		if err := c.StartAPIServer(); err != nil {
			t.Fatal(err)
		}
		kubectl(t, c, "delete", "configmap/survivor")
		kubectl(t, c, "wait", "--for=delete", "configmap/orphan", "--timeout=2m")
	})
}

func TestStart_saysWhereToGetTheProgramsFrom(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	_, err := cluster.Start(t.Context(), cluster.Options{})
	if err == nil || !strings.Contains(err.Error(), "make control-plane") {
		t.Errorf("got %v, want advice to run `make control-plane`", err)
	}
}

func kubectl(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually tries a command until it succeeds: the API server takes a moment to learn of a new role binding.
func eventually(t *testing.T, c *cluster.Cluster, args ...string) {
	t.Helper()
	var last error
	_ = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			_, last = c.Kubectl(ctx, args...)
			return last == nil, nil
		})
	if last != nil {
		t.Fatal(last)
	}
}

// ownerAndChild creates two ConfigMaps, the second owned by the first.
func ownerAndChild(t *testing.T, c *cluster.Cluster, owner, child string) {
	t.Helper()
	kubectl(t, c, "create", "configmap", owner)
	uid := kubectl(t, c, "get", "configmap", owner, "--output=jsonpath={.metadata.uid}")
	manifest := filepath.Join(t.TempDir(), "child.yaml")
	text := fmt.Appendf(nil, `{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": {"name": %q, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": %q, "uid": %q}]}
	}`, child, owner, uid)
	if err := os.WriteFile(manifest, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
}

// resources are the names of what an API group serves.
func resources(t *testing.T, c *cluster.Cluster, groupVersion string) []string {
	t.Helper()
	var list metav1.APIResourceList
	if err := json.Unmarshal([]byte(kubectl(t, c, "get", "--raw", "/apis/"+groupVersion)), &list); err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(list.APIResources))
	for i, r := range list.APIResources {
		names[i] = r.Name
	}
	return names
}
