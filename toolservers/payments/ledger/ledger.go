// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger is the payments server's three tools: get_payment and list_payments read, refund_payment gives money back
// in two steps, a preview that a person can judge and a commit that does just that.
//
// A refund, the answer to its operation, the message about it and its audit row are one transaction, so they are all there
// or none is. The sum of refunds never passes the payment: the row is locked, its version is checked, and the table itself
// refuses. Money is counted in minor units, never in fractions. The main type is Ledger.
package ledger

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/payments/database"
)

// The names of the tools.
const (
	GetTool    = "get_payment"
	ListTool   = "list_payments"
	RefundTool = "refund_payment"
)

// SourceVersion names what the answers are made of: this server's tables, in their first form.
const SourceVersion = "payments@1"

//go:embed schemas/*.json
var schemas embed.FS

// A Ledger is safe for concurrent use.
type Ledger struct {
	db *database.DB
	// previewsLast is how long a preview can be committed.
	previewsLast time.Duration
	now          func() time.Time
}

var _ tool.Ledger = (*Ledger)(nil)

// New makes a Ledger over the database.
func New(db *database.DB, previewsLast time.Duration, now func() time.Time) *Ledger {
	return &Ledger{db, previewsLast, now}
}

// Tools gives the three tools.
func (l *Ledger) Tools() ([]tool.Tool, error) {
	tools := []tool.Tool{
		{
			Name:        GetTool,
			Title:       "Get a payment",
			Description: "Tell all about one payment: what was paid, what was refunded and why, and what can still be refunded.",
			Call:        l.get,
		},
		{
			Name:        ListTool,
			Title:       "List payments",
			Description: "List payments by their IDs, a page at a time. Use get_payment for the refunds of one.",
			Call:        l.list,
		},
		{
			Name:  RefundTool,
			Title: "Refund a payment",
			Description: "Give back a payment or a part of it. The amount is in minor units of the payment's currency: 12.50 EUR is " +
				"1250. It can't pass what is left of the payment, and can't be taken back.",
			Preview: l.preview,
			Commit:  l.commit,
		},
	}
	for i := range tools {
		t := &tools[i]
		var inputErr, outputErr error
		t.InputSchema, inputErr = schemas.ReadFile("schemas/" + t.Name + ".input.json")
		t.OutputSchema, outputErr = schemas.ReadFile("schemas/" + t.Name + ".output.json")
		if err := errors.Join(inputErr, outputErr); err != nil {
			return nil, fmt.Errorf("describing %s: %w", t.Name, err)
		}
	}
	return tools, nil
}

// decode reads arguments that the schema has let through.
func decode[T any](arguments json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(arguments, &v); err != nil {
		return v, fmt.Errorf("reading arguments that fit their schema: %w", err)
	}
	return v, nil
}

// asRefusal tells callers what it means to them that a transaction did not happen.
func asRefusal(err error) error {
	switch {
	case errors.Is(err, database.ErrTaken):
		return tool.Errorf(tool.OperationInProgress, "the operation is under way; ask for it, or send it again later")
	case errors.Is(err, database.ErrBusy):
		return tool.Errorf(tool.Overloaded, "too many write at once; nothing was done")
	}
	return err
}

// text is how the tables keep an instant.
func text(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Ready says whether the ledger can answer.
func (l *Ledger) Ready(ctx context.Context) error { return l.db.Ready(ctx) }
