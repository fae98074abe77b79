// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/interlock-dev/interlock/toolservers/payments/database"
)

// Examples are payments to try the server with.
//
//go:embed seed.json
var Examples []byte

// Seed puts payments into an empty ledger: a JSON list with id, customer, description, amountMinor, currency and paidAt. A
// ledger that has payments stays as it is.
func (l *Ledger) Seed(ctx context.Context, list []byte) error {
	var payments []payment
	if err := json.Unmarshal(list, &payments); err != nil {
		return fmt.Errorf("reading payments: %w", err)
	}
	for _, p := range payments {
		if _, ok := decimals[p.Currency]; !ok {
			return fmt.Errorf("payment %s is in a currency that can't be kept: %q", p.ID, p.Currency)
		}
		if _, err := time.Parse(time.RFC3339, p.PaidAt); err != nil {
			return fmt.Errorf("payment %s: %w", p.ID, err)
		}
	}
	return l.db.Write(ctx, func(tx *database.Tx) error {
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM payments`).Scan(&count); err != nil {
			return fmt.Errorf("counting payments: %w", err)
		}
		if count > 0 {
			return nil
		}
		for _, p := range payments {
			// Another replica may be seeding, too.
			_, err := tx.Exec(ctx, `INSERT INTO payments (id, customer, description, amount_minor, currency, paid_at)
				VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING`,
				p.ID, p.Customer, p.Description, p.AmountMinor, p.Currency, p.PaidAt)
			if err != nil {
				return fmt.Errorf("storing payment %s: %w", p.ID, err)
			}
		}
		return nil
	})
}
