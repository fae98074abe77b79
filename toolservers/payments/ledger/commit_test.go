// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/payments/database"
)

func TestCommit_writesAllThatFollows(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			op := refundOf("op-1", "pay_1001", 1250)
			p := d.preview(t, op)
			result, err := d.commit(t, op, p)
			if err != nil {
				t.Fatal(err)
			}
			fits(t, RefundTool, result.Data)
			if !result.ObservedAt.Equal(noon) || result.SourceVersion != SourceVersion {
				t.Errorf("%+v", result)
			}
			var refundID, message, principal, previewID, subject string
			if err := d.db.QueryRow(t.Context(), `SELECT refunds.id, outbox.body, audit.principal, audit.preview_id, audit.subject
			FROM refunds, outbox, audit WHERE audit.operation_id = refunds.operation_id`).
				Scan(&refundID, &message, &principal, &previewID, &subject); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"refundId": refundID, "paymentId": "pay_1001", "amountMinor": 1250.0, "currency": "EUR", "refundedMinor": 1250.0, "refundableMinor": 2750.0,
			}
			var got, told map[string]any
			if err := json.Unmarshal(result.Data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the answer (-want +got):\n%s", diff)
			}
			if err := json.Unmarshal([]byte(message), &told); err != nil || told["refundId"] != refundID || told["operationId"] != "op-1" {
				t.Errorf("the message is %s (%v)", message, err)
			}
			if principal != "ann" || previewID != p.ID || subject != "payments/pay_1001" {
				t.Errorf("audited: %s, %s, %s", principal, previewID, subject)
			}
			d.wantBooks(t, 1, 1250)
		})
	}
}

func TestCommit_isDoneOnceAndAnswersAlike(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			op := refundOf("op-1", "pay_1001", 4000)
			p := d.preview(t, op)
			first, _ := d.commit(t, op, p)
			// By now the preview has expired, the payment has changed, and nothing is left of it.
			d.later.Store(1 << 20)
			second, err := d.commit(t, op, p)
			if diff := cmp.Diff(first, second); diff != "" || err != nil {
				t.Errorf("%v (-first +second):\n%s", err, diff)
			}
			state, err := d.Ask(t.Context(), d.ledger, "op-1", "ann")
			if diff := cmp.Diff(&tool.OperationState{State: tool.Succeeded, Result: first}, state); diff != "" || err != nil {
				t.Errorf("asked: %v (-want +got):\n%s", err, diff)
			}
			d.wantBooks(t, 1, 4000)
		})
	}
}

func TestCommit_isBoundToItsPreview(t *testing.T) {
	nothing := func(*testing.T, *desk, *tool.Operation, *tool.Precondition) {}
	tests := map[string]struct {
		change func(t *testing.T, d *desk, op *tool.Operation, given *tool.Precondition)
		want   tool.Code
	}{
		"nothing": {nothing, ""},
		"preview": {func(_ *testing.T, _ *desk, _ *tool.Operation, given *tool.Precondition) {
			given.PreviewID = "pv_none"
		}, tool.UnknownPreview},
		"arguments": {func(_ *testing.T, _ *desk, op *tool.Operation, _ *tool.Precondition) {
			op.Arguments = refundOf("", "pay_1001", 1251).Arguments
		}, tool.UnknownPreview},
		"operation": {func(_ *testing.T, _ *desk, op *tool.Operation, _ *tool.Precondition) {
			op.ID = "op-2"
		}, tool.UnknownPreview},
		"principal": {func(_ *testing.T, _ *desk, op *tool.Operation, _ *tool.Precondition) {
			op.Principal = "bob"
		}, tool.UnknownPreview},
		"version": {func(_ *testing.T, _ *desk, _ *tool.Operation, given *tool.Precondition) {
			given.ResourceVersion = "2"
		}, tool.ResourceChanged},
		"hour": {func(_ *testing.T, d *desk, _ *tool.Operation, _ *tool.Precondition) {
			d.later.Store(3600)
		}, tool.PreviewExpired},
		"payment": {func(t *testing.T, d *desk, _ *tool.Operation, _ *tool.Precondition) {
			t.Helper()
			d.refund(t, refundOf("op-3", "pay_1001", 1))
		}, tool.ResourceChanged},
		"payment, but that of others": {func(t *testing.T, d *desk, _ *tool.Operation, _ *tool.Precondition) {
			t.Helper()
			d.refund(t, refundOf("op-3", "pay_1002", 1))
		}, ""},
	}
	for name, tt := range tests {
		t.Run("another "+name, func(t *testing.T) {
			for kind, open := range desks() {
				t.Run(kind, func(t *testing.T) {
					d := open(t)
					op := refundOf("op-1", "pay_1001", 1250)
					p := d.preview(t, op)
					given := tool.Precondition{PreviewID: p.ID, ResourceVersion: p.ResourceVersion}
					tt.change(t, d, &op, &given)
					before := d.books(t)
					if _, err := d.Commit(t.Context(), RefundTool, op, given); code(err) != tt.want {
						t.Errorf("Commit = %v, want %q", err, tt.want)
					}
					if after := d.books(t); tt.want != "" && after != before {
						t.Errorf("it is refused, and done: %+v", after)
					}
				})
			}
		})
	}
}

func TestCommit_refusesAKeyThatWasUsed(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			op := refundOf("op-1", "pay_1001", 1250)
			p := d.preview(t, op)
			if _, err := d.commit(t, op, p); err != nil {
				t.Fatal(err)
			}
			other := op
			other.Principal = "bob"
			for name, op := range map[string]tool.Operation{"other arguments": refundOf("op-1", "pay_1001", 1251), "somebody else": other} {
				if _, err := d.commit(t, op, p); code(err) != tool.IdempotencyKeyReused {
					t.Errorf("a commit with %s: %v", name, err)
				}
				if _, err := d.Preview(t.Context(), RefundTool, op); code(err) != tool.IdempotencyKeyReused {
					t.Errorf("a preview with %s: %v", name, err)
				}
			}
			d.wantBooks(t, 1, 1250)
		})
	}
}

func TestOperation_isNobodyElsesBusiness(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			d.refund(t, refundOf("op-1", "pay_1001", 1250))
			for _, asked := range [][2]string{{"op-1", "bob"}, {"op-1", ""}, {"op-2", "ann"}} {
				if state, err := d.Ask(t.Context(), d.ledger, asked[0], asked[1]); code(err) != tool.UnknownOperation {
					t.Errorf("%v: %v, %v", asked, state, err)
				}
			}
		})
	}
}

func TestOperation_isInProgressWhileItIsWritten(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			op := refundOf("op-1", "pay_1001", 1250)
			p := d.preview(t, op)
			err := d.db.WriteAlone(t.Context(), claim("op-1", "ann"), func(*database.Tx) error {
				if state, err := d.Ask(t.Context(), d.ledger, "op-1", "ann"); err != nil || state.State != tool.InProgress {
					t.Errorf("asked: %v, %v", state, err)
				}
				if _, err := d.commit(t, op, p); code(err) != tool.OperationInProgress {
					t.Errorf("sent again: %v", err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Whatever can't be stored, nothing is.
func TestCommit_isAllOrNothing(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			op := refundOf("op-1", "pay_1001", 1250)
			p := d.preview(t, op)
			rename := func(from, to string) {
				t.Helper()
				err := d.db.Write(t.Context(), func(tx *database.Tx) error {
					_, err := tx.Exec(t.Context(), "ALTER TABLE "+from+" RENAME TO "+to)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, table := range []string{"outbox", "audit"} {
				rename(table, "gone")
				if _, err := d.commit(t, op, p); code(err) != tool.Internal {
					t.Errorf("without %s: %v", table, err)
				}
				rename("gone", table)
				d.wantBooks(t, 0, 0)
			}
			if _, err := d.commit(t, op, p); err != nil {
				t.Error(err)
			}
			d.wantBooks(t, 1, 1250)
		})
	}
}
