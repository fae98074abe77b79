-- Copyright The Interlock Authors.
-- SPDX-License-Identifier: Apache-2.0

-- The same tables as in sqlite.sql. Money is in minor units, times are RFC 3339 in UTC.

-- Replicas that start together make the tables one after the other. The number only has to be nobody else's.
SELECT pg_advisory_xact_lock(8158472002);

CREATE TABLE IF NOT EXISTS payments (
  id             TEXT PRIMARY KEY,
  customer       TEXT NOT NULL,
  description    TEXT NOT NULL,
  amount_minor   BIGINT NOT NULL CHECK (amount_minor > 0),
  currency       TEXT NOT NULL,
  refunded_minor BIGINT NOT NULL DEFAULT 0 CHECK (refunded_minor BETWEEN 0 AND amount_minor),
  version        BIGINT NOT NULL DEFAULT 1,
  paid_at        TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS previews (
  id               TEXT PRIMARY KEY,
  operation_id     TEXT NOT NULL,
  principal        TEXT NOT NULL,
  tool             TEXT NOT NULL,
  arguments_digest TEXT NOT NULL,
  resource_version TEXT NOT NULL,
  body             TEXT NOT NULL,
  expires_at       TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS previews_operation ON previews (operation_id);

CREATE TABLE IF NOT EXISTS operations (
  id               TEXT PRIMARY KEY,
  principal        TEXT NOT NULL,
  tool             TEXT NOT NULL,
  arguments_digest TEXT NOT NULL,
  state            TEXT NOT NULL,
  answer           TEXT NOT NULL,
  created_at       TEXT NOT NULL
);

-- payment_version is the payment's after the refund.
CREATE TABLE IF NOT EXISTS refunds (
  id              TEXT PRIMARY KEY,
  payment_id      TEXT NOT NULL REFERENCES payments (id),
  payment_version BIGINT NOT NULL,
  operation_id    TEXT NOT NULL UNIQUE REFERENCES operations (id),
  amount_minor    BIGINT NOT NULL CHECK (amount_minor > 0),
  currency        TEXT NOT NULL,
  reason          TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  UNIQUE (payment_id, payment_version)
);

CREATE TABLE IF NOT EXISTS outbox (
  seq          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,
  body         TEXT NOT NULL,
  created_at   TEXT NOT NULL,
  delivered_at TEXT
);
CREATE INDEX IF NOT EXISTS outbox_pending ON outbox (seq) WHERE delivered_at IS NULL;

CREATE TABLE IF NOT EXISTS audit (
  seq          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at           TEXT NOT NULL,
  principal    TEXT NOT NULL,
  action       TEXT NOT NULL,
  operation_id TEXT NOT NULL,
  preview_id   TEXT NOT NULL,
  subject      TEXT NOT NULL,
  detail       TEXT NOT NULL
);

-- What happened stays, and so does what a person was shown.
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
  $body$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $body$;
CREATE OR REPLACE TRIGGER audit_keep BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
  FOR EACH STATEMENT EXECUTE FUNCTION refuse('audit is append-only');
CREATE OR REPLACE TRIGGER previews_keep BEFORE UPDATE ON previews
  FOR EACH STATEMENT EXECUTE FUNCTION refuse('a preview is never changed');
