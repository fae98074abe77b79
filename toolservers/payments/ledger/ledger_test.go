// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/payments/database"
	"github.com/interlock-dev/interlock/toolservers/payments/database/databasetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

var noon = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

// A desk is a ledger with the example payments, called as a door would.
type desk struct {
	*tool.Runner
	ledger *Ledger
	db     *database.DB
	// later is how many seconds it is after noon.
	later atomic.Int64
	log   bytes.Buffer
}

func (d *desk) now() time.Time { return noon.Add(time.Duration(d.later.Load()) * time.Second) }

// desks gives, for each kind of database, what opens a desk over a new one.
func desks() map[string]func(*testing.T) *desk {
	all := map[string]func(*testing.T) *desk{}
	for kind, place := range databasetest.Places() {
		all[kind] = func(t *testing.T) *desk {
			t.Helper()
			return openDesk(t, place(t))
		}
	}
	return all
}

// openDesk opens a desk over the database there.
func openDesk(t *testing.T, place string) *desk {
	t.Helper()
	d := &desk{db: databasetest.Open(t, place)}
	d.ledger = New(d.db, time.Hour, d.now)
	tools, err := d.ledger.Tools()
	if err != nil {
		t.Fatal(err)
	}
	if d.Runner, err = tool.NewRunner(SourceVersion, d.now, slog.New(slog.NewTextHandler(&d.log, nil)), tools...); err != nil {
		t.Fatal(err)
	}
	if err := d.ledger.Seed(t.Context(), Examples); err != nil {
		t.Fatal(err)
	}
	return d
}

// refundOf gives an operation of ann's, in EUR.
func refundOf(id, payment string, minor int64) tool.Operation {
	arguments := fmt.Sprintf(`{"paymentId":%q,"amountMinor":%d,"currency":"EUR","reason":"it arrived torn"}`, payment, minor)
	return tool.Operation{ID: id, Principal: "ann", Arguments: json.RawMessage(arguments)}
}

func (d *desk) preview(t *testing.T, op tool.Operation) *tool.Preview {
	t.Helper()
	p, err := d.Preview(t.Context(), RefundTool, op)
	if err != nil {
		t.Fatalf("previewing %s: %v", op.ID, err)
	}
	return p
}

func (d *desk) commit(t *testing.T, op tool.Operation, p *tool.Preview) (*tool.Result, *tool.Error) {
	t.Helper()
	return d.Commit(t.Context(), RefundTool, op, tool.Precondition{PreviewID: p.ID, ResourceVersion: p.ResourceVersion})
}

// refund previews and commits, and expects no trouble.
func (d *desk) refund(t *testing.T, op tool.Operation) *tool.Result {
	t.Helper()
	result, err := d.commit(t, op, d.preview(t, op))
	if err != nil {
		t.Fatalf("committing %s: %v", op.ID, err)
	}
	return result
}

// books are what the tables hold of refunds.
type books struct{ Refunds, Operations, Messages, Audited, Sum, Counted int64 }

// books counts, for all payments together.
func (d *desk) books(t *testing.T) (b books) {
	t.Helper()
	err := d.db.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM refunds), (SELECT count(*) FROM operations), (SELECT count(*) FROM outbox), (SELECT count(*) FROM audit),
		(SELECT CAST(coalesce(sum(amount_minor), 0) AS bigint) FROM refunds), (SELECT CAST(sum(refunded_minor) AS bigint) FROM payments)`).
		Scan(&b.Refunds, &b.Operations, &b.Messages, &b.Audited, &b.Sum, &b.Counted)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantBooks fails the test unless everything is there that many times.
func (d *desk) wantBooks(t *testing.T, refunds, sum int64) {
	t.Helper()
	if diff := cmp.Diff(books{refunds, refunds, refunds, refunds, sum, sum}, d.books(t)); diff != "" {
		t.Errorf("the books (-want +got):\n%s", diff)
	}
}

// fits fails the test unless the data fits the tool's output schema.
func fits(t *testing.T, name string, data json.RawMessage) {
	t.Helper()
	raw, err := schemas.ReadFile("schemas/" + name + ".output.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:schema", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("urn:schema")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s: %v: %s", name, err, data)
	}
}

func code(err *tool.Error) tool.Code {
	if err == nil {
		return ""
	}
	return err.Code
}
