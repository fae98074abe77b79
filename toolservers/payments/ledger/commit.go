// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/payments/database"
)

// commit makes the refund that was previewed, or gives the answer that is stored.
func (l *Ledger) commit(ctx context.Context, op tool.Operation, given tool.Precondition) (result *tool.Result, err error) {
	o, err := readOrder(op.Arguments)
	if err != nil {
		return nil, err
	}
	identity, now := op.Identify(RefundTool), l.now()
	err = l.db.WriteAlone(ctx, claim(op.ID, op.Principal), func(tx *database.Tx) error {
		if result, err = findOperation(ctx, tx, identity); err != nil || result != nil {
			return err
		}
		if err := checkPreview(ctx, tx, identity, given, now); err != nil {
			return err
		}
		p, err := lockPayment(ctx, tx, o.paymentID)
		if err != nil {
			return err
		}
		if p.resourceVersion() != given.ResourceVersion {
			return tool.Errorf(tool.ResourceChanged, "the payment %s was refunded since the preview; nothing was done", p.ID)
		}
		if err := o.check(p); err != nil {
			return err
		}
		m := made{newID("re"), newID("msg"), now, identity, given.PreviewID, o, p}
		if result, err = m.answer(); err != nil {
			return err
		}
		return m.write(ctx, tx, result)
	})
	if err != nil {
		return nil, asRefusal(err)
	}
	return result, nil
}

// made is a refund about to be written.
type made struct {
	id        string
	messageID string
	at        time.Time
	operation tool.Identity
	previewID string
	order     order
	// before is the payment as the transaction holds it.
	before payment
}

func (m made) answer() (*tool.Result, error) {
	return tool.Answer{
		Data: map[string]any{
			"refundId":        m.id,
			"paymentId":       m.before.ID,
			"amountMinor":     m.order.amountMinor,
			"currency":        m.order.currency,
			"refundedMinor":   m.before.RefundedMinor + m.order.amountMinor,
			"refundableMinor": m.before.RefundableMinor - m.order.amountMinor,
		},
		Sources: []tool.Source{m.before.source()},
	}.Result(m.at, SourceVersion)
}

// message is what the outbox tells the world.
func (m made) message() ([]byte, error) {
	return json.Marshal(map[string]any{
		"id":          m.messageID,
		"type":        "refund.created",
		"createdAt":   text(m.at),
		"operationId": m.operation.ID,
		"refundId":    m.id,
		"paymentId":   m.before.ID,
		"amountMinor": m.order.amountMinor,
		"currency":    m.order.currency,
	})
}

func (m made) detail() ([]byte, error) {
	return json.Marshal(map[string]any{
		"refundId":    m.id,
		"amountMinor": m.order.amountMinor,
		"currency":    m.order.currency,
		"reason":      m.order.reason,
	})
}

// write stores all that follows from the refund. What fails takes everything back.
func (m made) write(ctx context.Context, tx *database.Tx, result *tool.Result) error {
	answer, answerErr := json.Marshal(result)
	message, messageErr := m.message()
	detail, detailErr := m.detail()
	if err := errors.Join(answerErr, messageErr, detailErr); err != nil {
		return fmt.Errorf("encoding a refund: %w", err)
	}
	if err := keepOperation(ctx, tx, m.operation, string(answer), m.at); err != nil {
		return err
	}
	o, at := m.order, text(m.at)
	changed, err := tx.Exec(ctx, `UPDATE payments SET refunded_minor = refunded_minor + $1, version = version + 1
		WHERE id = $2 AND version = $3`, o.amountMinor, m.before.ID, m.before.version)
	if err != nil {
		return fmt.Errorf("counting the refund: %w", err)
	}
	if changed != 1 {
		return fmt.Errorf("the payment %s has changed under its lock", m.before.ID)
	}
	for _, row := range []struct {
		statement string
		values    []any
	}{
		{
			`INSERT INTO refunds (id, payment_id, payment_version, operation_id, amount_minor, currency, reason, created_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			[]any{m.id, m.before.ID, m.before.version + 1, m.operation.ID, o.amountMinor, o.currency, o.reason, at},
		},
		{
			`INSERT INTO outbox (id, body, created_at) VALUES ($1, $2, $3)`,
			[]any{m.messageID, string(message), at},
		},
		{
			`INSERT INTO audit (at, principal, action, operation_id, preview_id, subject, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			[]any{at, m.operation.Principal, RefundTool, m.operation.ID, m.previewID, m.before.resource(), string(detail)},
		},
	} {
		if _, err := tx.Exec(ctx, row.statement, row.values...); err != nil {
			return fmt.Errorf("storing a refund: %w", err)
		}
	}
	return nil
}
