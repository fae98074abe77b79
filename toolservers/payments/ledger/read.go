// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

const defaultLimit = 20

type getArguments struct {
	PaymentID string `json:"paymentId"`
}

type getAnswer struct {
	Payment payment  `json:"payment"`
	Refunds []refund `json:"refunds"`
}

// refund is how answers write one that was made.
type refund struct {
	ID          string `json:"id"`
	AmountMinor int64  `json:"amountMinor"`
	Currency    string `json:"currency"`
	Reason      string `json:"reason"`
	CreatedAt   string `json:"createdAt"`
}

func (l *Ledger) get(ctx context.Context, op tool.Operation) (tool.Answer, error) {
	asked, err := decode[getArguments](op.Arguments)
	if err != nil {
		return tool.Answer{}, err
	}
	p, err := findPayment(ctx, l.db, asked.PaymentID)
	if err != nil {
		return tool.Answer{}, err
	}
	refunds, err := l.refunds(ctx, p)
	if err != nil {
		return tool.Answer{}, fmt.Errorf("reading refunds: %w", err)
	}
	return tool.Answer{Data: getAnswer{p, refunds}, Sources: []tool.Source{p.source()}}, nil
}

// refunds gives those that the payment's sum covers, and none that came after it was read.
func (l *Ledger) refunds(ctx context.Context, p payment) ([]refund, error) {
	rows, err := l.db.Query(ctx, `SELECT id, amount_minor, currency, reason, created_at FROM refunds
		WHERE payment_id = $1 AND payment_version <= $2 ORDER BY payment_version`, p.ID, p.version)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	list := []refund{}
	for rows.Next() {
		var r refund
		if err := rows.Scan(&r.ID, &r.AmountMinor, &r.Currency, &r.Reason, &r.CreatedAt); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

type listArguments struct {
	Currency string `json:"currency"`
	// Limit is a float because 10.0 is an integer to JSON Schema, and not to encoding/json.
	Limit     float64 `json:"limit"`
	PageToken string  `json:"pageToken"`
}

type listAnswer struct {
	Payments      []payment `json:"payments"`
	NextPageToken string    `json:"nextPageToken,omitempty"`
}

func (l *Ledger) list(ctx context.Context, op tool.Operation) (tool.Answer, error) {
	asked, err := decode[listArguments](op.Arguments)
	if err != nil {
		return tool.Answer{}, err
	}
	limit := int(asked.Limit)
	if limit == 0 {
		limit = defaultLimit
	}
	after, ok := readToken(asked)
	if !ok {
		return tool.Answer{}, tool.Errorf(tool.InvalidArguments,
			"at /pageToken: it is not of this list; pass a nextPageToken on with the same currency, or leave it out to start again")
	}
	// One more than is asked for says whether there is a next page.
	payments, err := l.page(ctx, asked.Currency, after, limit+1)
	if err != nil {
		return tool.Answer{}, fmt.Errorf("listing payments: %w", err)
	}
	answer := listAnswer{Payments: payments}
	if len(payments) > limit {
		answer.Payments = payments[:limit]
		answer.NextPageToken = token(asked.Currency, payments[limit-1].ID)
	}
	sources := make([]tool.Source, 0, limit)
	for _, p := range answer.Payments {
		sources = append(sources, p.source())
	}
	return tool.Answer{Data: answer, Sources: sources}, nil
}

func (l *Ledger) page(ctx context.Context, currency, after string, limit int) ([]payment, error) {
	rows, err := l.db.Query(ctx, "SELECT "+paymentColumns+` FROM payments
		WHERE id > $1 AND ($2 = '' OR currency = $2) ORDER BY id LIMIT $3`, after, currency, limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	list := []payment{}
	for rows.Next() {
		p, err := scanPayment(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// A token is the place where the next page starts, and the currency of the list, so that it is not taken for another one.
// There is nothing to hide in it.
func token(currency, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(currency + "/" + after))
}

// readToken gives the ID after which the page starts; ok is false if the token is not one of this list's.
func readToken(asked listArguments) (after string, ok bool) {
	if asked.PageToken == "" {
		return "", true
	}
	b, err := base64.RawURLEncoding.DecodeString(asked.PageToken)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(b), asked.Currency+"/")
}
