// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

func (d *desk) call(t *testing.T, name, arguments string) (*tool.Result, *tool.Error) {
	t.Helper()
	return d.Call(t.Context(), name, tool.Operation{Arguments: json.RawMessage(arguments)})
}

func TestGet_tellsOfThePaymentAndItsRefunds(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			d.refund(t, refundOf("op-1", "pay_1001", 1250))
			d.refund(t, refundOf("op-2", "pay_1001", 50))
			result, err := d.call(t, GetTool, `{"paymentId":"pay_1001"}`)
			if err != nil {
				t.Fatal(err)
			}
			fits(t, GetTool, result.Data)
			var got getAnswer
			if err := json.Unmarshal(result.Data, &got); err != nil {
				t.Fatal(err)
			}
			for i := range got.Refunds {
				got.Refunds[i].ID = ""
			}
			want := getAnswer{
				payment{"pay_1001", "cus_501", "Order 58213: one wool blanket", 4000, "EUR", 1300, 2700, "2026-01-05T09:12:44Z", 0},
				[]refund{
					{"", 1250, "EUR", "it arrived torn", "2026-02-01T12:00:00Z"},
					{"", 50, "EUR", "it arrived torn", "2026-02-01T12:00:00Z"},
				},
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(payment{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := d.call(t, GetTool, `{"paymentId":"pay_9"}`); code(err) != tool.NotFound {
				t.Errorf("a payment that isn't there: %v", err)
			}
		})
	}
}

func TestList_goesThroughAllPages(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			for currency, want := range map[string][]string{
				"":    {"pay_1001", "pay_1002", "pay_1003", "pay_1004", "pay_1005", "pay_1006"},
				"EUR": {"pay_1001", "pay_1002"},
				"KWD": nil,
			} {
				for _, limit := range []string{"1", "2.0", "4", "6", "100"} {
					var got []string
					for page, more := "", true; more; more = page != "" {
						result, err := d.call(t, ListTool, fmt.Sprintf(`{"limit":%s%s%s}`, limit, member("currency", currency), member("pageToken", page)))
						if err != nil {
							t.Fatal(err)
						}
						fits(t, ListTool, result.Data)
						var answer listAnswer
						if err := json.Unmarshal(result.Data, &answer); err != nil {
							t.Fatal(err)
						}
						for _, p := range answer.Payments {
							got = append(got, p.ID)
						}
						page = answer.NextPageToken
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("currency %q, limit %s (-want +got):\n%s", currency, limit, diff)
					}
				}
			}
		})
	}
}

// member writes one more of an object, or nothing.
func member(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(`,%q:%q`, name, value)
}

func TestList_refusesTokensOfOtherLists(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			for _, arguments := range []string{
				`{"pageToken":"?"}`,
				`{"pageToken":"` + token("EUR", "pay_1001") + `"}`,
				`{"pageToken":"` + token("", "pay_1001") + `","currency":"EUR"}`,
			} {
				if _, err := d.call(t, ListTool, arguments); code(err) != tool.InvalidArguments {
					t.Errorf("%s: %v", arguments, err)
				}
			}
		})
	}
}
