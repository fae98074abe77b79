// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller holds the reconcilers. It is the only package that sees both the API's Kinds and the core: it turns
// what the cluster says into events, lets the core decide, records the decision with one status write under the optimistic
// lock, and only then hands the effects to package effect.
//
// A reconcile never waits for a model or a tool, and never polls: a run is looked at when its spec changes, when one of its
// effects has finished, and when the earliest of its timers is due. The main type is AgentRunReconciler.
package controller
