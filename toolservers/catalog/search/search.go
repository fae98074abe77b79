// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package search ranks documents by how well they fit a few words: an SQLite full-text index (FTS5) in memory, built once
// and read-only from then on.
//
// The words come from a model and are data: they are taken apart into terms here and quoted, so nothing in them is read as
// FTS5's query language or as SQL. The package knows nothing of what the documents are about. The main type is Index.
package search

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

// maxReaders bounds the queries that run side by side; each has a connection, and with it a page cache, of its own.
const maxReaders = 4

// A Document is what is searched.
type Document struct {
	// ID is lower-case words, joined by hyphens.
	ID string
	// Name weighs most, then Keywords; Text is the rest.
	Name     string
	Keywords string
	Text     string
}

// An Index searches documents. It is safe for concurrent use.
type Index struct {
	// anchor keeps the database alive: one in memory goes with its last connection, and the pool may drop any of its own.
	anchor *sql.Conn
	writer *sql.DB
	reader *sql.DB
}

// New indexes the documents.
func New(ctx context.Context, documents []Document) (*Index, error) {
	// The memdb VFS shares a database between the connections of this process by its name.
	dsn := "file:/" + rand.Text() + "?vfs=memdb&_pragma=temp_store(2)"
	writer, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("opening the index: %w", err)
	}
	reader, err := sql.Open("sqlite", dsn+"&_pragma=query_only(1)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the index: %w", err), writer.Close())
	}
	reader.SetMaxOpenConns(maxReaders)
	reader.SetMaxIdleConns(maxReaders)

	x := &Index{writer: writer, reader: reader}
	if err := x.build(ctx, documents); err != nil {
		return nil, errors.Join(fmt.Errorf("building the index: %w", err), x.Close())
	}
	return x, nil
}

func (x *Index) build(ctx context.Context, documents []Document) (err error) {
	if x.anchor, err = x.writer.Conn(ctx); err != nil {
		return err
	}
	tx, err := x.anchor.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreDone(tx.Rollback())) }()

	const schema = `CREATE VIRTUAL TABLE documents USING fts5(
		id UNINDEXED, name, keywords, text, tokenize = 'porter unicode61 remove_diacritics 2')`
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, `INSERT INTO documents (id, name, keywords, text) VALUES (?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for _, d := range documents {
		if _, err := insert.ExecContext(ctx, d.ID, d.Name, d.Keywords, d.Text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// ignoreDone forgives a rollback after the commit.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// Ping says whether the index can still be read.
func (x *Index) Ping(ctx context.Context) error { return x.reader.PingContext(ctx) }

// Close frees the index. Searches under way may fail.
func (x *Index) Close() error {
	var err error
	if x.anchor != nil {
		err = x.anchor.Close()
	}
	return errors.Join(err, x.reader.Close(), x.writer.Close())
}

// Rank gives the IDs of the documents that fit the words, best first, and ties by ID. A document that the words name exactly
// comes before all others. Documents that have every term are sought first; only if there are none, those that have any.
// Words without a letter or digit fit nothing.
func (x *Index) Rank(ctx context.Context, words string) (ids []string, all bool, err error) {
	terms := quote(words)
	if len(terms) == 0 {
		return nil, true, nil
	}
	ids, err = x.match(ctx, strings.Join(terms, " AND "), words)
	if err != nil || len(ids) > 0 || len(terms) == 1 {
		return ids, true, err
	}
	ids, err = x.match(ctx, strings.Join(terms, " OR "), words)
	return ids, false, err
}

func (x *Index) match(ctx context.Context, expression, words string) (ids []string, err error) {
	const query = `SELECT id FROM documents WHERE documents MATCH ?1
		ORDER BY (id = ?2 OR name = ?3 COLLATE NOCASE) DESC, bm25(documents, 0, 10, 5, 1), id`
	// IDs are words joined by hyphens.
	id := strings.Join(strings.Fields(strings.ToLower(words)), "-")
	rows, err := x.reader.QueryContext(ctx, query, expression, id, strings.TrimSpace(words))
	if err != nil {
		return nil, fmt.Errorf("searching: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("reading what was found: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
