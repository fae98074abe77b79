// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	_ "embed"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

//go:embed schema/postgres.sql
var postgresSchema string

var postgresDialect = dialect{
	schema: postgresSchema,
	words:  strings.NewReplacer(),
	claim:  "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))",
	isBusy: func(err error) bool {
		known, ok := errors.AsType[*pgconn.PgError](err)
		// lock_not_available, serialization_failure, deadlock_detected.
		return ok && slices.Contains([]string{"55P03", "40001", "40P01"}, known.Code)
	},
}

func openPostgres(place string) (*DB, error) {
	config, err := pgx.ParseConfig(place)
	if err != nil {
		return nil, err
	}
	// Below what a call may take, so that whoever waits in vain is told so rather than cut off.
	config.RuntimeParams["lock_timeout"] = "5s"
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(maxConnections)
	pool.SetMaxIdleConns(maxConnections)
	return &DB{dialect: postgresDialect, reads: pool, writes: pool}, nil
}
