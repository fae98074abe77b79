// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/interlock-dev/interlock/internal/tool"
)

// asideTimeout bounds a request that nobody waits for: a notification, an answer to the server, the end of a session.
const asideTimeout = time.Second

// errNoAnswer is an answer that is none. To the SDK it is a request that never went out, which leaves the session as it is;
// the answer itself would end it, and the calls of others with it.
var errNoAnswer = errors.New("the answer is not what the protocol promises")

// A recorder bounds every body, and notes in the exchange of the context what the wire holds.
type recorder struct {
	next http.RoundTripper
	gate *tool.Gate
}

// RoundTrip implements http.RoundTripper.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	seen, _ := request.Context().Value(exchangeKey{}).(*exchange)
	id := callID(request)
	if seen == nil || id == nil {
		return r.aside(request)
	}
	watched, sent := tool.Watch(request.Context())
	seen.begin(id, sent)
	response, err := r.next.RoundTrip(request.WithContext(watched))
	if err != nil {
		return nil, err
	}
	seen.head(response)
	response.Body = &recordedBody{response.Body, seen, tool.MaxBodyBytes}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if isSuccess(response) && kind == eventStream {
		return response, nil
	}
	return r.whole(response, seen)
}

// whole reads an answer that is no stream, and lets it through if it is an answer.
func (r recorder) whole(response *http.Response, seen *exchange) (*http.Response, error) {
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	redirects := response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest
	answer, ok := seen.response()
	switch {
	case redirects:
		return nil, tool.RedirectError(response.StatusCode)
	case err != nil:
		return nil, err
	case !isSuccess(response) && ok && answer.Error != nil:
		return nil, answer.Error
	case !isSuccess(response) || !ok:
		return nil, errNoAnswer
	}
	response.Header.Set("Content-Type", "application/json")
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// aside makes a request whose answer holds nothing of use. Only the end of a session is sent once the gate is closed.
func (r recorder) aside(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(request.Context(), asideTimeout)
	defer cancel()
	if request.Method != http.MethodDelete {
		inside, leave, err := r.gate.Enter(ctx)
		if err != nil {
			_ = request.Body.Close()
			return nil, err
		}
		defer leave()
		ctx = inside
	}
	response, err := r.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	// A short body that is read to its end leaves the connection fit for use.
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	_ = response.Body.Close()
	if !isSuccess(response) {
		return nil, errNoAnswer
	}
	response.Body = http.NoBody
	return response, nil
}

func isSuccess(r *http.Response) bool {
	return r.StatusCode >= http.StatusOK && r.StatusCode < http.StatusMultipleChoices
}

// callID is the ID of the JSON-RPC call in a request, and nil if it holds none.
func callID(request *http.Request) json.RawMessage {
	if request.GetBody == nil {
		return nil
	}
	body, err := request.GetBody()
	if err != nil {
		return nil
	}
	defer func() { _ = body.Close() }()
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(body).Decode(&m) != nil || m.Method == "" {
		return nil
	}
	return m.ID
}
