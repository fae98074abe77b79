// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import "fmt"

// decimals are the currencies (ISO 4217) that can be kept, with the digits of their minor units.
var decimals = map[string]int{"CHF": 2, "EUR": 2, "GBP": 2, "JPY": 0, "KWD": 3, "USD": 2}

// money writes an amount for people, such as "12.50 EUR". It never goes through a fraction.
func money(minor int64, currency string) string {
	digits := decimals[currency]
	if digits == 0 {
		return fmt.Sprintf("%d %s", minor, currency)
	}
	unit := int64(1)
	for range digits {
		unit *= 10
	}
	return fmt.Sprintf("%d.%0*d %s", minor/unit, digits, minor%unit, currency)
}
