// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"database/sql"
	_ "embed"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

//go:embed schema/sqlite.sql
var sqliteSchema string

var sqliteDialect = dialect{
	schema: sqliteSchema,
	// A transaction that writes has the whole database to itself from its beginning, so there are no rows to lock.
	words: strings.NewReplacer("$", "?", " FOR UPDATE", ""),
	isBusy: func(err error) bool {
		known, ok := errors.AsType[*sqlite.Error](err)
		// The lowest byte is the kind; what is above tells kinds of it apart.
		return ok && known.Code()&0xff == sqlite3.SQLITE_BUSY
	},
}

func openSQLite(file string) (*DB, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	// SQLite would make it readable by everybody. Its other files take after this one.
	made, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the file is whoever's who starts the server
	if err != nil {
		return nil, err
	}
	if err := made.Close(); err != nil {
		return nil, err
	}
	place := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		// Waiting is for other processes, such as somebody's sqlite3. Without recursive triggers, INSERT OR REPLACE would delete
		// audit rows behind the trigger's back.
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "recursive_triggers(1)"},
		"_txlock": {"immediate"},
	}.Encode()}
	reads, err := sql.Open("sqlite", place.String())
	if err != nil {
		return nil, err
	}
	reads.SetMaxOpenConns(maxConnections)
	writes, err := sql.Open("sqlite", place.String())
	if err != nil {
		return nil, errors.Join(err, reads.Close())
	}
	writes.SetMaxOpenConns(1)
	return &DB{dialect: sqliteDialect, reads: reads, writes: writes}, nil
}
