// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package database is where payments are kept: in an SQLite file, or in PostgreSQL. Both take the same queries, which are
// written for PostgreSQL.
//
// Whatever is to be true together is written in one transaction; there is no other way to write. The package knows the
// tables and nothing of what they mean. The main type is DB.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Why a transaction did not happen. Nothing was written then.
var (
	// ErrBusy: others held what it needed for too long.
	ErrBusy = errors.New("the database is busy")
	// ErrTaken: another transaction with the same key is under way.
	ErrTaken = errors.New("the key is taken")
)

// A DB is safe for concurrent use.
type DB struct {
	dialect dialect
	reads   *sql.DB
	// writes is the same as reads in PostgreSQL. SQLite has one writer at a time: with one connection they queue up in order,
	// and with more they would poll for their turn.
	writes *sql.DB
	// taken holds the keys of WriteAlone in this process.
	taken sync.Map
}

// Open opens the database at a postgres:// URL, or in the SQLite file of that name, which is made if it is not there. The
// tables are made if they are not there.
func Open(ctx context.Context, place string) (*DB, error) {
	open := openSQLite
	if strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://") {
		open = openPostgres
	}
	d, err := open(place)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	err = d.Write(ctx, func(tx *Tx) error {
		_, err := tx.tx.ExecContext(ctx, d.dialect.schema)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the tables: %w", err), d.Close())
	}
	return d, nil
}

// Close ends all connections.
func (d *DB) Close() error {
	err := d.reads.Close()
	if d.writes != d.reads {
		err = errors.Join(err, d.writes.Close())
	}
	return err
}

// Ready says whether the database answers.
func (d *DB) Ready(ctx context.Context) error { return d.reads.PingContext(ctx) }

// Query reads rows outside of any transaction.
func (d *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return d.reads.QueryContext(ctx, d.dialect.words.Replace(query), args...)
}

// QueryRow reads a row outside of any transaction.
func (d *DB) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return d.reads.QueryRowContext(ctx, d.dialect.words.Replace(query), args...)
}

// Write does the work in a transaction, which is rolled back if the work fails or ctx is done before its end.
func (d *DB) Write(ctx context.Context, work func(*Tx) error) error {
	err := d.write(ctx, work)
	if err != nil && d.dialect.isBusy(err) {
		return ErrBusy
	}
	return err
}

func (d *DB) write(ctx context.Context, work func(*Tx) error) (err error) {
	tx, err := d.writes.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	// Without effect once it is committed.
	defer func() { _ = tx.Rollback() }()
	if err := work(&Tx{tx, d.dialect}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return nil
}

// WriteAlone is Write, and fails with ErrTaken while there is another of the same key, in this process or, in PostgreSQL,
// in any.
func (d *DB) WriteAlone(ctx context.Context, key string, work func(*Tx) error) error {
	if _, taken := d.taken.LoadOrStore(key, nil); taken {
		return ErrTaken
	}
	defer d.taken.Delete(key)
	return d.Write(ctx, func(tx *Tx) error {
		if claim := d.dialect.claim; claim != "" {
			var isOurs bool
			if err := tx.QueryRow(ctx, claim, key).Scan(&isOurs); err != nil {
				return fmt.Errorf("claiming: %w", err)
			}
			if !isOurs {
				return ErrTaken
			}
		}
		return work(tx)
	})
}

// A Tx is a transaction under way.
type Tx struct {
	tx      *sql.Tx
	dialect dialect
}

// QueryRow reads a row; FOR UPDATE keeps others from changing it before the end of the transaction.
func (t *Tx) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(ctx, t.dialect.words.Replace(query), args...)
}

// Exec writes, and gives how many rows it touched.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := t.tx.ExecContext(ctx, t.dialect.words.Replace(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
