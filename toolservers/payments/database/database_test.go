// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package database_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/interlock-dev/interlock/toolservers/payments/database"
	"github.com/interlock-dev/interlock/toolservers/payments/database/databasetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

const insertAudit = `INSERT INTO audit (at, principal, action, operation_id, preview_id, subject, detail)
	VALUES ('now', 'ann', 'refund', 'op-1', 'pv-1', 'payments/1', '')`

func exec(t *testing.T, db *database.DB, statement string, args ...any) error {
	t.Helper()
	return db.Write(t.Context(), func(tx *database.Tx) error {
		_, err := tx.Exec(t.Context(), statement, args...)
		return err
	})
}

func TestAudit_isAppendOnly(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			db := databasetest.Open(t, place(t))
			if err := exec(t, db, insertAudit); err != nil {
				t.Fatal(err)
			}
			for _, statement := range []string{
				`UPDATE audit SET principal = 'bob'`,
				`UPDATE audit SET detail = 'more' WHERE seq = 1`,
				`DELETE FROM audit`,
				`DELETE FROM audit WHERE principal = 'ann'`,
			} {
				if err := exec(t, db, statement); err == nil || !strings.Contains(err.Error(), "audit is append-only") {
					t.Errorf("%s: %v", statement, err)
				}
			}
			var left int
			if err := db.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE principal = 'ann' AND detail = ''`).Scan(&left); err != nil || left != 1 {
				t.Errorf("%d rows are left (%v)", left, err)
			}
		})
	}
}

// What only one of them has: another way around the triggers.
func TestAudit_isAppendOnlyByAnyWords(t *testing.T) {
	around := map[string]string{
		"sqlite":   `INSERT OR REPLACE INTO audit SELECT seq, at, 'bob', action, operation_id, preview_id, subject, detail FROM audit`,
		"postgres": `TRUNCATE audit`,
	}
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			db := databasetest.Open(t, place(t))
			if err := exec(t, db, insertAudit); err != nil {
				t.Fatal(err)
			}
			statement := around[kind]
			if err := exec(t, db, statement); err == nil || !strings.Contains(err.Error(), "audit is append-only") {
				t.Errorf("%s: %v", statement, err)
			}
		})
	}
}

func TestPreviews_areNeverChanged(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			db := databasetest.Open(t, place(t))
			if err := exec(t, db, `INSERT INTO previews VALUES ('pv', 'op', '', 'tool', 'digest', '1', '{}', 'later')`); err != nil {
				t.Fatal(err)
			}
			if err := exec(t, db, `UPDATE previews SET body = $1`, "{}"); err == nil || !strings.Contains(err.Error(), "a preview is never changed") {
				t.Error(err)
			}
		})
	}
}

func TestWrite_isAllOrNothing(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			db := databasetest.Open(t, place(t))
			boom := errors.New("boom")
			ctx, cancel := context.WithCancel(t.Context())
			for name, end := range map[string]func() error{
				"a failure":           func() error { return boom },
				"a caller that is up": func() error { cancel(); return nil },
			} {
				err := db.Write(ctx, func(tx *database.Tx) error {
					if _, err := tx.Exec(t.Context(), insertAudit); err != nil {
						return err
					}
					return end()
				})
				var left int
				if scanErr := db.QueryRow(t.Context(), `SELECT count(*) FROM audit`).Scan(&left); err == nil || scanErr != nil || left != 0 {
					t.Errorf("%s: %d rows are left (%v, %v)", name, left, err, scanErr)
				}
				ctx, cancel = context.WithCancel(t.Context())
			}
			cancel()
		})
	}
}

func TestWriteAlone_isAloneWithItsKey(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			place := place(t)
			// Another process, as far as the databases can tell.
			var dbs [2]*database.DB
			for i := range dbs {
				var err error
				if dbs[i], err = database.Open(t.Context(), place); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = dbs[i].Close() }()
			}
			others := dbs[:1]
			if strings.HasPrefix(place, "postgres:") {
				others = dbs[:]
			}
			err := dbs[0].WriteAlone(t.Context(), "op-1", func(*database.Tx) error {
				for i, db := range others {
					if err := db.WriteAlone(t.Context(), "op-1", func(*database.Tx) error { return nil }); !errors.Is(err, database.ErrTaken) {
						t.Errorf("process %d: %v", i, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if err := dbs[1].WriteAlone(t.Context(), "op-1", func(*database.Tx) error { return nil }); err != nil {
				t.Errorf("it is not free again: %v", err)
			}
		})
	}
}

// Others may hold what a transaction needs for long. It is told so before its caller gives up.
func TestWrite_doesNotWaitForever(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			at := place(t)
			first, second := databasetest.Open(t, at), databasetest.Open(t, at)
			if err := exec(t, first, `INSERT INTO payments VALUES ('p', '', '', 1, 'EUR', 0, 1, '')`); err != nil {
				t.Fatal(err)
			}
			touch := `UPDATE payments SET version = version + 1`
			err := first.Write(t.Context(), func(tx *database.Tx) error {
				if _, err := tx.Exec(t.Context(), touch); err != nil {
					return err
				}
				if err := exec(t, second, touch); !errors.Is(err, database.ErrBusy) {
					t.Errorf("beside another: %v", err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpen_togetherMakesTheTablesOnce(t *testing.T) {
	for kind, place := range databasetest.Places() {
		t.Run(kind, func(t *testing.T) {
			place := place(t)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					db, err := database.Open(t.Context(), place)
					if err != nil {
						t.Error(err)
						return
					}
					_ = db.Close()
				})
			}
			all.Wait()
		})
	}
}

func TestOpen_keepsAFileToItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a ?strange%20name#.db")
	db, err := database.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if err := exec(t, db, insertAudit); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, name := range []string{file, file + "-wal"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestOpen_saysWhyNot(t *testing.T) {
	for _, place := range []string{filepath.Join(t.TempDir(), "missing", "payments.db"), "postgres://%", "postgres://nobody@127.0.0.1:1/none?sslmode=disable"} {
		if db, err := database.Open(t.Context(), place); err == nil {
			t.Errorf("%s is open: %v", place, db.Close())
		}
	}
}
