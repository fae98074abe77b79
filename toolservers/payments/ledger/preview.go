// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/payments/database"
)

// preview gives the stored one for as long as it can be committed: a person may be looking at it.
func (l *Ledger) preview(ctx context.Context, op tool.Operation) (preview *tool.Preview, err error) {
	o, err := readOrder(op.Arguments)
	if err != nil {
		return nil, err
	}
	identity, now := op.Identify(RefundTool), l.now()
	err = l.db.Write(ctx, func(tx *database.Tx) error {
		if _, err := findOperation(ctx, tx, identity); err != nil {
			return err
		}
		p, err := findPayment(ctx, tx, o.paymentID)
		if err != nil {
			return err
		}
		if err := o.check(p); err != nil {
			return err
		}
		if preview, err = findPreview(ctx, tx, identity, p, now); err != nil || preview != nil {
			return err
		}
		preview = o.describe(p, newID("pv"), now.Add(l.previewsLast))
		return keepPreview(ctx, tx, identity, preview)
	})
	return preview, asRefusal(err)
}

// describe says what a person has to know to decide.
func (o order) describe(p payment, id string, expiresAt time.Time) *tool.Preview {
	amount, paid := money(o.amountMinor, p.Currency), money(p.AmountMinor, p.Currency)
	change := func(what string, before, after int64) string {
		return fmt.Sprintf("%s: %s -> %s", what, money(before, p.Currency), money(after, p.Currency))
	}
	return &tool.Preview{
		ID:              id,
		ResourceVersion: p.resourceVersion(),
		Summary: fmt.Sprintf("Refund %s of %s paid in payment %s (already refunded: %s) because: \"%s\"",
			amount, paid, p.ID, money(p.RefundedMinor, p.Currency), o.reason),
		Changes: strings.Join([]string{
			fmt.Sprintf("payment %s of %s: %s", p.ID, p.Customer, p.Description),
			change("refunded", p.RefundedMinor, p.RefundedMinor+o.amountMinor),
			change("left to refund", p.RefundableMinor, p.RefundableMinor-o.amountMinor),
		}, "\n"),
		Resources: []string{p.resource()},
		Cost:      amount,
		ExpiresAt: expiresAt.UTC().Truncate(time.Second),
	}
}

// findPreview gives nil if there is none of the operation that could be committed now.
func findPreview(ctx context.Context, tx *database.Tx, i tool.Identity, p payment, now time.Time) (*tool.Preview, error) {
	var body []byte
	err := tx.QueryRow(ctx, `SELECT body FROM previews
		WHERE operation_id = $1 AND principal = $2 AND tool = $3 AND arguments_digest = $4 AND resource_version = $5 AND expires_at > $6
		ORDER BY expires_at DESC LIMIT 1`,
		i.ID, i.Principal, i.Tool, i.ArgumentsDigest, p.resourceVersion(), text(now)).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a preview: %w", err)
	}
	preview := &tool.Preview{}
	if err := json.Unmarshal(body, preview); err != nil {
		return nil, fmt.Errorf("decoding a preview: %w", err)
	}
	return preview, nil
}

func keepPreview(ctx context.Context, tx *database.Tx, i tool.Identity, preview *tool.Preview) error {
	body, err := json.Marshal(preview)
	if err != nil {
		return fmt.Errorf("encoding a preview: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO previews
		(id, operation_id, principal, tool, arguments_digest, resource_version, body, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		preview.ID, i.ID, i.Principal, i.Tool, i.ArgumentsDigest, preview.ResourceVersion, string(body), text(preview.ExpiresAt))
	if err != nil {
		return fmt.Errorf("storing a preview: %w", err)
	}
	return nil
}

// checkPreview says why the precondition is not that of a preview of this operation.
func checkPreview(ctx context.Context, tx *database.Tx, i tool.Identity, given tool.Precondition, now time.Time) error {
	var previewed tool.Identity
	var version, expiresAt string
	err := tx.QueryRow(ctx, `SELECT operation_id, principal, tool, arguments_digest, resource_version, expires_at
		FROM previews WHERE id = $1`, given.PreviewID).
		Scan(&previewed.ID, &previewed.Principal, &previewed.Tool, &previewed.ArgumentsDigest, &version, &expiresAt)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("reading the preview: %w", err)
	}
	switch {
	case err != nil || previewed != i:
		return tool.Errorf(tool.UnknownPreview, "there is no such preview of this operation")
	case expiresAt <= text(now):
		return tool.Errorf(tool.PreviewExpired, "the preview has expired at %s", expiresAt)
	case version != given.ResourceVersion:
		return tool.Errorf(tool.ResourceChanged, "the preview was not of version %s", given.ResourceVersion)
	}
	return nil
}

// newID makes one that nobody can guess and that tells what it names.
func newID(kind string) string { return kind + "_" + strings.ToLower(rand.Text()) }
