// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import "strings"

// A dialect is what differs between the two databases.
type dialect struct {
	// schema makes what is not there yet.
	schema string
	// words turns a query for PostgreSQL into one for this database.
	words *strings.Replacer
	// claim says whether the transaction is the only one with its key; empty if there can be one transaction only.
	claim string
	// isBusy says whether an error means that others were in the way.
	isBusy func(error) bool
}

// maxConnections bounds each pool.
const maxConnections = 16
