// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the Kinds of interlock.dev: AgentRun, ToolBinding, ModelBinding and Turn.
//
// +kubebuilder:object:generate=true
// +groupName=interlock.dev
package v1alpha1
