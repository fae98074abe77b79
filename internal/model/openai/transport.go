// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/interlock-dev/interlock/internal/model"
)

// Limits of a connection. How long an answer may take is the caller's deadline; maxSilence is there for a caller that has
// none.
const (
	dialTimeout    = 10 * time.Second
	maxSilence     = 15 * time.Minute
	idleTimeout    = 60 * time.Second
	maxIdlePerHost = 32
	maxHeaderBytes = 64 << 10
	// maxErrorBytes bounds the body of an error, of which only a code is wanted.
	maxErrorBytes = 64 << 10
)

var errBodyTooLong = errors.New("the body is longer than its bound")

// newHTTPClient makes a client that follows no redirect, uses no proxy from the environment and reads no body past its
// bound.
func newHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: boundedTransport{next: &http.Transport{
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    dialTimeout,
			ResponseHeaderTimeout:  maxSilence,
			IdleConnTimeout:        idleTimeout,
			MaxIdleConnsPerHost:    maxIdlePerHost,
			MaxResponseHeaderBytes: maxHeaderBytes,
		}},
		// The answer to a request for another place is that redirect itself, which is then reported as a failure.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A boundedTransport bounds the bodies that it returns. It stands outside of http.Transport, so it counts the bytes after
// decompression: a small compressed body cannot become a large one.
type boundedTransport struct{ next http.RoundTripper }

// RoundTrip sends req and bounds the answer's body.
func (t boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	limit := int64(model.MaxBodyBytes)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		limit = maxErrorBytes
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: limit}
	return resp, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64 // below zero once the bound is passed
}

// Read fails with errBodyTooLong rather than end early: a body that is cut in silence could still look whole.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errBodyTooLong
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		err = errBodyTooLong
	}
	return n, err
}
