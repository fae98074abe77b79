-- Copyright The Interlock Authors.
-- SPDX-License-Identifier: Apache-2.0

-- The same tables as in postgres.sql. Money is in minor units, times are RFC 3339 in UTC.

CREATE TABLE IF NOT EXISTS payments (
  id             TEXT PRIMARY KEY,
  customer       TEXT NOT NULL,
  description    TEXT NOT NULL,
  amount_minor   INTEGER NOT NULL CHECK (amount_minor > 0),
  currency       TEXT NOT NULL,
  refunded_minor INTEGER NOT NULL DEFAULT 0 CHECK (refunded_minor BETWEEN 0 AND amount_minor),
  version        INTEGER NOT NULL DEFAULT 1,
  paid_at        TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS previews (
  id               TEXT PRIMARY KEY,
  operation_id     TEXT NOT NULL,
  principal        TEXT NOT NULL,
  tool             TEXT NOT NULL,
  arguments_digest TEXT NOT NULL,
  resource_version TEXT NOT NULL,
  body             TEXT NOT NULL,
  expires_at       TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS previews_operation ON previews (operation_id);

CREATE TABLE IF NOT EXISTS operations (
  id               TEXT PRIMARY KEY,
  principal        TEXT NOT NULL,
  tool             TEXT NOT NULL,
  arguments_digest TEXT NOT NULL,
  state            TEXT NOT NULL,
  answer           TEXT NOT NULL,
  created_at       TEXT NOT NULL
) STRICT;

-- payment_version is the payment's after the refund.
CREATE TABLE IF NOT EXISTS refunds (
  id              TEXT PRIMARY KEY,
  payment_id      TEXT NOT NULL REFERENCES payments (id),
  payment_version INTEGER NOT NULL,
  operation_id    TEXT NOT NULL UNIQUE REFERENCES operations (id),
  amount_minor    INTEGER NOT NULL CHECK (amount_minor > 0),
  currency        TEXT NOT NULL,
  reason          TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  UNIQUE (payment_id, payment_version)
) STRICT;

CREATE TABLE IF NOT EXISTS outbox (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  id           TEXT NOT NULL UNIQUE,
  body         TEXT NOT NULL,
  created_at   TEXT NOT NULL,
  delivered_at TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS outbox_pending ON outbox (seq) WHERE delivered_at IS NULL;

CREATE TABLE IF NOT EXISTS audit (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  at           TEXT NOT NULL,
  principal    TEXT NOT NULL,
  action       TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  preview_id   TEXT NOT NULL,
  subject      TEXT NOT NULL,
  detail       TEXT NOT NULL
) STRICT;

-- What happened stays, and so does what a person was shown.
CREATE TRIGGER IF NOT EXISTS audit_keep BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
CREATE TRIGGER IF NOT EXISTS audit_keep_all BEFORE DELETE ON audit
  BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
CREATE TRIGGER IF NOT EXISTS previews_keep BEFORE UPDATE ON previews
  BEGIN SELECT RAISE(ABORT, 'a preview is never changed'); END;
