// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// RefundExceedsPayment is a code of ours: there is less left of the payment than is to be refunded. Waiting does not help.
const RefundExceedsPayment tool.Code = "RefundExceedsPayment"

// order is a refund that is asked for.
type order struct {
	paymentID   string
	amountMinor int64
	currency    string
	// reason is a model's words, made harmless.
	reason string
}

func readOrder(arguments json.RawMessage) (order, error) {
	asked, err := decode[struct {
		PaymentID string `json:"paymentId"`
		// AmountMinor is a float because 1250.0 is an integer to JSON Schema, and not to encoding/json. The schema's maximum is
		// far below what a float counts exactly.
		AmountMinor float64 `json:"amountMinor"`
		Currency    string  `json:"currency"`
		Reason      string  `json:"reason"`
	}](arguments)
	if err != nil {
		return order{}, err
	}
	o := order{asked.PaymentID, int64(asked.AmountMinor), asked.Currency, clean(asked.Reason)}
	if o.reason == "" {
		return order{}, tool.Errorf(tool.InvalidArguments, "at /reason: it has to say why, in visible characters")
	}
	return o, nil
}

// check says why the order can't be done with the payment as it is.
func (o order) check(p payment) error {
	if o.currency != p.Currency {
		return tool.Errorf(tool.InvalidArguments, "at /currency: the payment %s is in %s", p.ID, p.Currency)
	}
	if o.amountMinor > p.RefundableMinor {
		return tool.Refusef(http.StatusConflict, RefundExceedsPayment, "%s can't be refunded: of the %s paid in payment %s, %s is left",
			money(o.amountMinor, p.Currency), money(p.AmountMinor, p.Currency), p.ID, money(p.RefundableMinor, p.Currency))
	}
	return nil
}

// clean makes a text fit to stand in quotes in one line that a person decides by: nothing invisible, nothing that turns
// the direction of what follows, and no quote that could end it.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '"' || r == '“' || r == '”' || r == '„':
			return '\''
		case !unicode.IsGraphic(r):
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
