// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller holds the reconcilers. It is the only package that sees both the API's Kinds and the core: it turns
// what the cluster says into events, lets the core decide, records the decision with one status write under the optimistic
// lock, and only then hands the effects to package effect.
//
// A reconcile never waits for a model or a tool. A run is not polled: it is looked at when its spec changes, when one of its
// effects has finished, when the earliest of its timers is due and, before it has begun, when a binding that it needs changes.
// A binding whose Secret, script or server is missing is looked at every 15 seconds, since nothing tells of those. The main
// type is AgentRunReconciler.
package controller
