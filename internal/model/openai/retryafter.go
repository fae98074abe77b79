// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter bounds a provider's advice, so that no number overflows.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads how long the provider advises to wait; zero means that it does not say. A date counts from the answer's
// own Date header, so that no clock of ours has a part in it.
func retryAfter(h http.Header) time.Duration {
	if d, ok := number(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	if d, ok := number(h.Get("Retry-After"), time.Second); ok {
		return d
	}
	until, err := http.ParseTime(h.Get("Retry-After"))
	if err != nil {
		return 0
	}
	sent, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(until.Sub(sent), 0), maxRetryAfter)
}

func number(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(maxRetryAfter))), true
}
