// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/interlock-dev/interlock/toolservers/internal/serving"
)

func readManifest(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile("deploy/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func TestDeploy_startsWithItsFlagsAndFindsItsFiles(t *testing.T) {
	var d appsv1.Deployment
	readManifest(t, "deployment.yaml", &d)
	pod := d.Spec.Template.Spec
	o, err := parseOptions(pod.Containers[0].Args, io.Discard)
	if err != nil || !o.UsesTLS() {
		t.Errorf("flags %v: TLS %v, %v", pod.Containers[0].Args, o.UsesTLS(), err)
	}
	mount := pod.Containers[0].VolumeMounts[0]
	for _, file := range []string{o.CertFile, o.KeyFile} {
		if !strings.HasPrefix(file, mount.MountPath+"/") {
			t.Errorf("%s is not below %s", file, mount.MountPath)
		}
	}
	if mount.Name != pod.Volumes[0].Name || pod.Volumes[0].Secret == nil {
		t.Errorf("%s is mounted from %+v", mount.Name, pod.Volumes[0])
	}
	wait := int64(serving.ShutdownTimeout.Seconds()) + pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds
	if *pod.TerminationGracePeriodSeconds <= wait {
		t.Errorf("a grace period of %ds is over before the server has waited its %ds", *pod.TerminationGracePeriodSeconds, wait)
	}
}

// Two replicas share one database and one idea of who calls.
func TestDeploy_runsBesideItself(t *testing.T) {
	var d appsv1.Deployment
	readManifest(t, "deployment.yaml", &d)
	pod := d.Spec.Template.Spec
	o, err := parseOptions(pod.Containers[0].Args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if *d.Spec.Replicas < 2 || o.database != "postgres://" || pod.Containers[0].EnvFrom[0].SecretRef == nil || o.audience == "" || o.faults != "" {
		t.Errorf("%d replicas with %+v", *d.Spec.Replicas, o)
	}
}

func TestDeploy_mayAskWhoCallsAndNothingElse(t *testing.T) {
	raw, err := os.ReadFile("deploy/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(raw), "\n---\n")
	var account corev1.ServiceAccount
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	for i, into := range []any{&account, &role, &binding} {
		if err := yaml.UnmarshalStrict([]byte(documents[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	var d appsv1.Deployment
	readManifest(t, "deployment.yaml", &d)
	want := []rbacv1.PolicyRule{{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}}}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if binding.RoleRef.Name != role.Name || binding.Subjects[0].Name != account.Name || d.Spec.Template.Spec.ServiceAccountName != account.Name {
		t.Errorf("%+v is bound to %+v", binding.Subjects, binding.RoleRef)
	}
}

// What the restricted Pod Security Standard asks of a pod.
func TestDeploy_isRestricted(t *testing.T) {
	var d appsv1.Deployment
	readManifest(t, "deployment.yaml", &d)
	pod := d.Spec.Template.Spec
	if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod: %+v", pod.SecurityContext)
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s: %+v", c.Name, s)
		}
		if diff := cmp.Diff(&corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, s.Capabilities); diff != "" {
			t.Errorf("%s: capabilities (-want +got):\n%s", c.Name, diff)
		}
	}
}

func TestDeploy_serviceFindsThePods(t *testing.T) {
	var d appsv1.Deployment
	var s corev1.Service
	readManifest(t, "deployment.yaml", &d)
	readManifest(t, "service.yaml", &s)
	for _, labels := range []map[string]string{s.Spec.Selector, d.Spec.Selector.MatchLabels} {
		if diff := cmp.Diff(d.Spec.Template.Labels, labels); diff != "" {
			t.Errorf("a selector (-pods +selector):\n%s", diff)
		}
	}
	if got, want := s.Spec.Ports[0].TargetPort.StrVal, d.Spec.Template.Spec.Containers[0].Ports[0].Name; got != want {
		t.Errorf("the service leads to port %q, and the pod has %q", got, want)
	}
}
