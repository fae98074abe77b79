// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// payment is a row, and how answers write it.
type payment struct {
	ID            string `json:"id"`
	Customer      string `json:"customer"`
	Description   string `json:"description"`
	AmountMinor   int64  `json:"amountMinor"`
	Currency      string `json:"currency"`
	RefundedMinor int64  `json:"refundedMinor"`
	// RefundableMinor is what is left, for readers who don't like sums.
	RefundableMinor int64  `json:"refundableMinor"`
	PaidAt          string `json:"paidAt"`
	// version counts the refunds, from 1 on.
	version int64
}

// resourceVersion is what a commit names to say that nothing has changed.
func (p payment) resourceVersion() string { return strconv.FormatInt(p.version, 10) }

// resource is what previews and audit rows call it.
func (p payment) resource() string { return "payments/" + p.ID }

// source has no page to lead to: the server has none.
func (p payment) source() tool.Source {
	return tool.Source{ID: p.resource(), Title: "Payment " + p.ID, URL: "urn:interlock:payment:" + p.ID}
}

const paymentColumns = "id, customer, description, amount_minor, currency, refunded_minor, version, paid_at"

type scanner interface{ Scan(into ...any) error }

func scanPayment(row scanner) (payment, error) {
	var p payment
	err := row.Scan(&p.ID, &p.Customer, &p.Description, &p.AmountMinor, &p.Currency, &p.RefundedMinor, &p.version, &p.PaidAt)
	p.RefundableMinor = p.AmountMinor - p.RefundedMinor
	return p, err
}

// A querier is the database, or a transaction in it.
type querier interface {
	QueryRow(ctx context.Context, query string, args ...any) *sql.Row
}

func findPayment(ctx context.Context, in querier, id string) (payment, error) {
	return onePayment(in.QueryRow(ctx, "SELECT "+paymentColumns+" FROM payments WHERE id = $1", id), id)
}

// lockPayment keeps the payment as it is until the transaction ends.
func lockPayment(ctx context.Context, in querier, id string) (payment, error) {
	return onePayment(in.QueryRow(ctx, "SELECT "+paymentColumns+" FROM payments WHERE id = $1 FOR UPDATE", id), id)
}

func onePayment(row *sql.Row, id string) (payment, error) {
	p, err := scanPayment(row)
	if errors.Is(err, sql.ErrNoRows) {
		return payment{}, tool.Errorf(tool.NotFound, "there is no payment %q", id)
	}
	if err != nil {
		return payment{}, fmt.Errorf("reading a payment: %w", err)
	}
	return p, nil
}
