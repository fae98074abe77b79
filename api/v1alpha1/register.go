// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every Kind here.
var GroupVersion = schema.GroupVersion{Group: "interlock.dev", Version: "v1alpha1"}

// AddToScheme registers the Kinds of this package. It never fails; the error is for the use as a SchemeBuilder's function.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&AgentRun{}, &AgentRunList{},
		&Approval{}, &ApprovalList{},
		&ToolBinding{}, &ToolBindingList{},
		&ModelBinding{}, &ModelBindingList{},
		&Turn{}, &TurnList{},
		&RunPolicy{}, &RunPolicyList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
