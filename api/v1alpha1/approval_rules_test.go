// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

func anApproval() *v1alpha1.Approval {
	return &v1alpha1.Approval{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "approval"},
		Spec: v1alpha1.ApprovalSpec{
			Run: v1alpha1.RunReference{Name: "run", UID: "6a2f0d4c"}, CallID: "s1c1", Tool: "pay",
			Digest: "sha256:" + strings.Repeat("0", 64), Decision: v1alpha1.DecisionApprove, Approver: "ann",
		},
	}
}

const wantUnchanged = "spec: an Approval can't be changed: create another one"

var approvalUpdates = table[*v1alpha1.Approval]{
	"nothing is changed": {mutate: func(*v1alpha1.Approval) {}},
	"a label is put on":  {mutate: func(a *v1alpha1.Approval) { a.Labels = map[string]string{"ticket": "1"} }},
	"another decision": {
		mutate:     func(a *v1alpha1.Approval) { a.Spec.Decision = v1alpha1.DecisionDeny },
		wantErrors: []string{wantUnchanged},
	},
	"another digest": {
		mutate:     func(a *v1alpha1.Approval) { a.Spec.Digest = "sha256:" + strings.Repeat("1", 64) },
		wantErrors: []string{wantUnchanged},
	},
	"another approver": {
		mutate:     func(a *v1alpha1.Approval) { a.Spec.Approver = "eve" },
		wantErrors: []string{wantUnchanged},
	},
	"a reason where there was none": {
		mutate:     func(a *v1alpha1.Approval) { a.Spec.Reason = "Why not." },
		wantErrors: []string{wantUnchanged},
	},
}

func TestApproval_cantBeChanged(t *testing.T) { checkUpdate(t, anApproval, approvalUpdates) }
