// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
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

// A RedirectError is the status of a redirect, which is not followed: arguments and credentials go to the configured endpoint
// only.
type RedirectError int

// Error implements error.
func (e RedirectError) Error() string {
	return fmt.Sprintf("the server redirects (%d), which is not followed", int(e))
}

// NoRedirect is an http.Client's CheckRedirect.
func NoRedirect(next *http.Request, _ []*http.Request) error {
	return RedirectError(next.Response.StatusCode)
}

// Watch gives a context for one request, and sent, which says whether a connection was ready for it: before that, nothing of
// it can have arrived.
func Watch(ctx context.Context) (watched context.Context, sent func() bool) {
	var ready atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { ready.Store(true) }}
	return httptrace.WithClientTrace(ctx, trace), ready.Load
}

// TransportError sorts an error of an HTTP exchange: what is known of the call depends on how far it came. Sent is from Watch.
func TransportError(ctx context.Context, err error, sent bool) *Error {
	e := &Error{Code: CodeUnavailable, Message: "The connection to the tool server broke before it had answered.", Outcome: InDoubt, Retryable: true, Err: err}
	if !sent {
		e.Outcome, e.Message = NotSent, "The tool server could not be reached."
	}
	redirect, redirects := errors.AsType[RedirectError](err)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	late := ctx.Err() != nil || isTimeout(err)
	switch {
	case redirects:
		e.Retryable, e.Message = false, "The tool server redirects elsewhere, which is not followed."
		// The others send a client elsewhere for the answer to what may have been done.
		if redirect == http.StatusTemporaryRedirect || redirect == http.StatusPermanentRedirect {
			e.Outcome = Refused
		}
	case unverified:
		e.Message = "The tool server's certificate is not trusted."
	case late && !sent:
		e.Code, e.Message = CodeTimeout, "The tool server could not be reached in time."
	case late:
		e.Code, e.Message = CodeTimeout, "The tool server did not answer in time."
	}
	return e
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// maxRetryAfter bounds a server's advice.
const maxRetryAfter = 7 * 24 * time.Hour

// RetryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds, or a date held against the response's own Date.
// Zero: there is none. It is at most a week.
func RetryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 63)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
