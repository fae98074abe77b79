// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Transport makes a connection pool of its own for one endpoint, which trusts c.CABundle. TLS 1.2 is the least.
func Transport(c Config) (*http.Transport, error) {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport was replaced")
	}
	t = t.Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	t.MaxResponseHeaderBytes = 64 << 10
	t.MaxIdleConnsPerHost = 16
	if len(c.CABundle) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(c.CABundle) {
			return nil, errors.New("caBundle holds no PEM certificate")
		}
		t.TLSClientConfig.RootCAs = pool
	}
	return t, nil
}

// ErrRedirect stops a redirect: arguments and credentials go to the configured endpoint only.
var ErrRedirect = errors.New("the server redirects, which is not followed")

// NoRedirect is an http.Client's CheckRedirect.
func NoRedirect(*http.Request, []*http.Request) error { return ErrRedirect }

// TransportError sorts an error of an HTTP exchange: what is known of the call depends on how far it came.
func TransportError(ctx context.Context, err error) *Error {
	e := &Error{Code: CodeUnavailable, Message: "The tool server could not be reached.", Outcome: InDoubt, Retryable: true, Err: err}
	var dial *net.OpError
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.Is(err, ErrRedirect):
		e.Outcome, e.Retryable, e.Message = Refused, false, "The tool server redirects elsewhere, which is not followed."
	case errors.As(err, &unverified):
		e.Outcome, e.Message = NotSent, "The tool server's certificate is not trusted."
	case errors.As(err, &dial) && dial.Op == "dial":
		e.Outcome = NotSent
		if ctx.Err() != nil {
			e.Code, e.Message = CodeTimeout, "The tool server could not be reached in time."
		}
	case ctx.Err() != nil || isTimeout(err):
		e.Code, e.Message = CodeTimeout, "The tool server did not answer in time."
	default:
		e.Message = "The connection to the tool server broke before it had answered."
	}
	return e
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// RetryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds, or a date held against the response's own Date.
// Zero: there is none.
func RetryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, 7*24*3600)) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}
