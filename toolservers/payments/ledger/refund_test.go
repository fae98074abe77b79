// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

func TestPreview_tellsWhatAPersonHasToKnow(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			d.refund(t, refundOf("op-0", "pay_1001", 500))
			got := d.preview(t, refundOf("op-1", "pay_1001", 1250))
			want := &tool.Preview{
				ID:              got.ID,
				ResourceVersion: "2",
				Summary:         `Refund 12.50 EUR of 40.00 EUR paid in payment pay_1001 (already refunded: 5.00 EUR) because: "it arrived torn"`,
				Changes: "payment pay_1001 of cus_501: Order 58213: one wool blanket\n" +
					"refunded: 5.00 EUR -> 17.50 EUR\n" +
					"left to refund: 35.00 EUR -> 22.50 EUR",
				Resources: []string{"payments/pay_1001"},
				Cost:      "12.50 EUR",
				ExpiresAt: noon.Add(time.Hour),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			d.wantBooks(t, 1, 500)
		})
	}
}

func TestPreview_staysUntilSomethingChanges(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			op := refundOf("op-1", "pay_1001", 1250)
			first := d.preview(t, op)
			d.later.Store(3599)
			if diff := cmp.Diff(first, d.preview(t, op)); diff != "" {
				t.Errorf("nothing has changed (-first +second):\n%s", diff)
			}
			if other := d.preview(t, refundOf("op-2", "pay_1001", 1250)); other.ID == first.ID {
				t.Error("another operation has the same preview")
			}
			d.later.Store(3600)
			afterHour := d.preview(t, op)
			if afterHour.ID == first.ID {
				t.Error("it has expired, and is given again")
			}
			d.refund(t, refundOf("op-3", "pay_1001", 1))
			if d.preview(t, op).ID == afterHour.ID {
				t.Error("the payment has changed, and the preview has not")
			}
		})
	}
}

func TestRefund_refusesWithACode(t *testing.T) {
	tests := map[string]struct {
		arguments string
		want      tool.Code
		says      string
	}{
		"a payment that isn't there": {`{"paymentId":"pay_9","amountMinor":1,"currency":"EUR","reason":"r"}`, tool.NotFound, "pay_9"},
		"another currency":           {`{"paymentId":"pay_1001","amountMinor":1,"currency":"USD","reason":"r"}`, tool.InvalidArguments, "is in EUR"},
		"more than was paid": {
			`{"paymentId":"pay_1001","amountMinor":4001,"currency":"EUR","reason":"r"}`, RefundExceedsPayment,
			"40.01 EUR can't be refunded: of the 40.00 EUR paid in payment pay_1001, 40.00 EUR is left",
		},
		"nothing":             {`{"paymentId":"pay_1001","amountMinor":0,"currency":"EUR","reason":"r"}`, tool.InvalidArguments, "/amountMinor"},
		"less than nothing":   {`{"paymentId":"pay_1001","amountMinor":-1,"currency":"EUR","reason":"r"}`, tool.InvalidArguments, "/amountMinor"},
		"a fraction":          {`{"paymentId":"pay_1001","amountMinor":12.5,"currency":"EUR","reason":"r"}`, tool.InvalidArguments, "/amountMinor"},
		"more than there is":  {`{"paymentId":"pay_1001","amountMinor":1e30,"currency":"EUR","reason":"r"}`, tool.InvalidArguments, "/amountMinor"},
		"no visible reason":   {`{"paymentId":"pay_1001","amountMinor":1,"currency":"EUR","reason":"\u200b \u202e"}`, tool.InvalidArguments, "/reason"},
		"no reason":           {`{"paymentId":"pay_1001","amountMinor":1,"currency":"EUR"}`, tool.InvalidArguments, "reason"},
		"a hostile payment":   {`{"paymentId":"' OR 1=1 --","amountMinor":1,"currency":"EUR","reason":"r"}`, tool.InvalidArguments, "/paymentId"},
		"something else, too": {`{"paymentId":"pay_1001","amountMinor":1,"currency":"EUR","reason":"r","to":"me"}`, tool.InvalidArguments, "'to'"},
	}
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			for name, tt := range tests {
				_, err := d.Preview(t.Context(), RefundTool, tool.Operation{ID: "op", Arguments: json.RawMessage(tt.arguments)})
				if code(err) != tt.want || !strings.Contains(err.Message, tt.says) || err.Code.Retryable() {
					t.Errorf("%s: %v, want %s with %q", name, err, tt.want, tt.says)
				}
			}
			d.wantBooks(t, 0, 0)
		})
	}
}

func TestRefund_takesWholeNumbersInAnySpelling(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			op := tool.Operation{ID: "op", Arguments: json.RawMessage(`{"paymentId":"pay_1001","amountMinor":1.25e3,"currency":"EUR","reason":"r"}`)}
			if got := d.preview(t, op).Cost; got != "12.50 EUR" {
				t.Errorf("it costs %s", got)
			}
		})
	}
}

func TestClean_leavesNothingThatMisleads(t *testing.T) {
	for given, want := range map[string]string{
		"  it\narrived\ttorn ":                 "it arrived torn",
		`torn" (approved by: "boss`:            `torn' (approved by: 'boss`,
		"“torn”":                               "'torn'",
		"torn\u202e drawkcab \u2066x":          "torn drawkcab x",
		"to\u200brn\x1b[31m":                   "to rn [31m",
		"größer als gedacht, 本当に":              "größer als gedacht, 本当に",
		"\u2028line\u2029s\x00 and \ufeffmore": "line s and more",
	} {
		if got := clean(given); got != want {
			t.Errorf("clean(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestMoney_isWrittenByItsCurrency(t *testing.T) {
	for want, got := range map[string]string{
		"0.00 EUR":   money(0, "EUR"),
		"0.05 EUR":   money(5, "EUR"),
		"12.50 USD":  money(1250, "USD"),
		"12800 JPY":  money(12800, "JPY"),
		"12.345 KWD": money(12345, "KWD"),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
