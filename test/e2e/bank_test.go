// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// A bank is a tool server whose tool "pay" writes, in both protocols, as toolservers/openapi.yaml has it. What it has done
// stands in its ledger, whatever becomes of the answers. A test can have it misbehave.
type bank struct {
	*httptest.Server

	mu      sync.Mutex
	version int
	// ledger holds what was paid, by operation ID: the arguments.
	ledger map[string]string
	// asked counts requests by what they were: preview, commit, invoke, operations. tokens are those that came with them.
	asked  map[string]int
	tokens []string
	// before is called with each request before anything happens, after with each that has had its effect, before its answer is
	// sent: what they answer is the answer. preview can change what a preview holds.
	before, after func(w http.ResponseWriter, r *http.Request, verb string) (answered bool)
	preview       func(map[string]any)
}

func newBank() *bank {
	b := &bank{version: 1, ledger: map[string]string{}, asked: map[string]int{}}
	b.Server = httptest.NewServer(b)
	return b
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, verb, _ := strings.Cut(r.URL.Path, ":")
	operation := r.Header.Get("Idempotency-Key")
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/operations/"); ok {
		verb, operation = "operations", id
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	b.mu.Lock()
	b.asked[verb]++
	b.tokens = append(b.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	before, after := b.before, b.after
	b.mu.Unlock()
	if before != nil && before(w, r, verb) {
		return
	}
	reply := b.act(r, verb, operation, string(body))
	if after != nil && after(w, r, verb) {
		return
	}
	reply(w)
}

// act does what a request asks for, and gives what to answer.
func (b *bank) act(r *http.Request, verb, operation, arguments string) func(http.ResponseWriter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	done, known := b.ledger[operation]
	switch verb {
	case "preview":
		return b.previewed(operation)
	case "commit", "invoke":
		switch {
		case known && done != arguments:
			return refusing(http.StatusUnprocessableEntity, "IdempotencyKeyReused")
		case !known && verb == "commit" && r.Header.Get("If-Match") != fmt.Sprintf(`"%d"`, b.version):
			return refusing(http.StatusPreconditionFailed, "ResourceChanged")
		case !known:
			b.ledger[operation] = arguments
			b.version++
		}
		return func(w http.ResponseWriter) { answer(w, received{Tool: "pay", OperationID: operation}, `"paid"`) }
	case "operations":
		if !known {
			return refusing(http.StatusNotFound, "UnknownOperation")
		}
		return func(w http.ResponseWriter) {
			result := httptest.NewRecorder()
			answer(result, received{Tool: "pay", OperationID: operation}, `"paid"`)
			_ = json.NewEncoder(w).Encode(map[string]any{"operationId": operation, "state": "Succeeded", "result": json.RawMessage(result.Body.Bytes())})
		}
	}
	return refusing(http.StatusNotFound, "UnknownTool")
}

func (b *bank) previewed(operation string) func(http.ResponseWriter) {
	p := map[string]any{"id": fmt.Sprintf("pv-%d", b.version), "resourceVersion": fmt.Sprint(b.version), "summary": "Pay.", "changes": "-1\n+2"}
	if b.preview != nil {
		b.preview(p)
	}
	return func(w http.ResponseWriter) {
		_ = json.NewEncoder(w).Encode(map[string]any{"operationId": operation, "preview": p})
	}
}

func refusing(status int, code string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { problem(w, status, code, "it is refused", false) }
}

// paid gives what was paid, however often it was asked for.
func (b *bank) paid() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, arguments := range b.ledger {
		all = append(all, arguments)
	}
	return all
}

// requests counts the requests of one kind.
func (b *bank) requests(verb string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[verb]
}

// change is what somebody else does to the account.
func (b *bank) change() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
}

// misbehave has the bank do so from now on.
func (b *bank) misbehave(before, after func(http.ResponseWriter, *http.Request, string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before, b.after = before, after
}

// cut breaks the connection for requests of one kind, the first n times.
func cut(verb string, n int) func(http.ResponseWriter, *http.Request, string) bool {
	var mu sync.Mutex
	return func(_ http.ResponseWriter, _ *http.Request, is string) bool {
		mu.Lock()
		if is != verb || n == 0 {
			mu.Unlock()
			return false
		}
		n--
		mu.Unlock()
		panic(http.ErrAbortHandler)
	}
}
