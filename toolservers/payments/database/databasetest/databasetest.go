// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package databasetest gives tests each database that payments can be kept in.
package databasetest

import (
	"path/filepath"
	"testing"

	"github.com/interlock-dev/interlock/toolservers/payments/database"
)

// Places gives, for each kind of database, what makes a new one and tells where it is. That of PostgreSQL skips the test
// where PostgreSQL isn't installed.
func Places() map[string]func(*testing.T) string {
	return map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { t.Helper(); return filepath.Join(t.TempDir(), "payments.db") },
		"postgres": newPostgres,
	}
}

// Open opens the database until the test ends.
func Open(t *testing.T, place string) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
