// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// callers knows two tokens, and that a third can't be judged.
type callers struct{}

func (callers) Authenticate(_ context.Context, token string) (string, error) {
	switch token {
	case "of-ann":
		return "ann", nil
	case "unlucky":
		return "", tool.Errorf(tool.Overloaded, "who you are can't be found out now")
	case "broken":
		return "", errors.New("secret")
	}
	return "", tool.Errorf(tool.Unauthenticated, "the token is not for this server")
}

// books remember three operations of ann's.
type books struct{}

func (books) Operation(_ context.Context, id, principal string) (tool.OperationState, error) {
	states := map[string]tool.OperationState{
		"running": {State: tool.InProgress},
		"done":    {State: tool.Succeeded, Result: &carved},
		"refused": {State: tool.Failed, Failure: tool.Refusef(http.StatusConflict, "StoneBroken", "the stone is broken")},
	}
	if state, ok := states[id]; ok && principal == "ann" {
		return state, nil
	}
	return tool.OperationState{}, tool.Errorf(tool.UnknownOperation, "nothing was done under this ID")
}

var carved = tool.Result{
	ObservedAt: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), SourceVersion: "stone@1",
	Data: json.RawMessage(`{"letters":"<a>"}`), Sources: []tool.Source{},
}

// openWorkshop serves tools that write, to ann alone: "carve" in two steps, "paint" in one. Both fail with what err gives.
func openWorkshop(t *testing.T, err error) *counter {
	t.Helper()
	result := func() (*tool.Result, error) { return &carved, err }
	return open(t, nil, []tool.Tool{
		{
			Name: "carve", InputSchema: json.RawMessage(input),
			Preview: func(_ context.Context, op tool.Operation) (*tool.Preview, error) {
				return &tool.Preview{ID: "p/1", ResourceVersion: "7", Summary: op.Principal + " carves", ExpiresAt: carved.ObservedAt}, err
			},
			Commit: func(_ context.Context, op tool.Operation, p tool.Precondition) (*tool.Result, error) {
				if want := (tool.Precondition{PreviewID: "p/1", ResourceVersion: "7"}); p != want || op.Principal != "ann" || op.Token != "of-ann" {
					t.Errorf("a commit of %s with %+v", op.Principal, p)
				}
				return result()
			},
		},
		{Name: "paint", InputSchema: json.RawMessage(input), Write: func(context.Context, tool.Operation) (*tool.Result, error) { return result() }},
	}, WithAuthenticator(callers{}), WithLedger(books{}), WithMCP(http.NotFoundHandler()))
}

const (
	previewPath = "/v1/tools/carve:preview"
	commitPath  = "/v1/tools/carve:commit"
	paintPath   = "/v1/tools/paint:invoke"
)

// ofAnn gives the headers of a proper commit, changed.
func ofAnn(changes ...string) http.Header {
	return headers(append([]string{"Authorization", "Bearer of-ann", "If-Match", `"7"`, "Interlock-Preview", "p/1"}, changes...)...)
}

func TestWrite_answers(t *testing.T) {
	const done = `{"operationId":"op-1","observedAt":"2026-01-02T12:00:00Z","sourceVersion":"stone@1","data":{"letters":"<a>"},"sources":[]}` + "\n"
	c := openWorkshop(t, nil)
	for path, want := range map[string]string{
		previewPath: `{"operationId":"op-1","preview":{"id":"p/1","resourceVersion":"7","summary":"ann carves","expiresAt":"2026-01-02T12:00:00Z"}}` + "\n",
		commitPath:  done,
		paintPath:   done,
	} {
		got := c.Send(t, http.MethodPost, path, `{"word":"a"}`, ofAnn())
		if diff := cmp.Diff(want, string(got.Body)); diff != "" || got.Status != http.StatusOK {
			t.Errorf("%s: %d (-want +got):\n%s", path, got.Status, diff)
		}
	}
}

func TestWrite_refusesWithACode(t *testing.T) {
	c := openWorkshop(t, nil)
	for name, tt := range map[string]struct {
		path   string
		header http.Header
		want   int
		code   tool.Code
	}{
		"two steps in one":          {"/v1/tools/carve:invoke", ofAnn(), 404, codeUnknownPath},
		"one step in two":           {"/v1/tools/paint:preview", ofAnn(), 404, codeUnknownPath},
		"one step, the second":      {"/v1/tools/paint:commit", ofAnn(), 404, codeUnknownPath},
		"nobody":                    {previewPath, ofAnn("Authorization", ""), 401, tool.Unauthenticated},
		"another scheme":            {previewPath, ofAnn("Authorization", "Basic of-ann"), 401, tool.Unauthenticated},
		"somebody, of another tool": {"/v1/tools/melt:invoke", ofAnn("Authorization", "Bearer b"), 401, tool.Unauthenticated},
		"somebody":                  {commitPath, ofAnn("Authorization", "Bearer of-bob"), 401, tool.Unauthenticated},
		"somebody by MCP":           {"/mcp", ofAnn("Authorization", "Bearer of-bob"), 401, tool.Unauthenticated},
		"who can't be known":        {commitPath, ofAnn("Authorization", "Bearer unlucky"), 503, tool.Overloaded},
		"a broken authenticator":    {commitPath, ofAnn("Authorization", "Bearer broken"), 500, tool.Internal},
		"a commit without version":  {commitPath, ofAnn("If-Match", ""), 428, tool.MissingPrecondition},
		"a commit without preview":  {commitPath, ofAnn("Interlock-Preview", ""), 428, tool.MissingPrecondition},
		"a commit of any version":   {commitPath, ofAnn("If-Match", "*"), 400, tool.MalformedRequest},
		"a commit of two versions":  {commitPath, ofAnn("If-Match", `"7", "8"`), 400, tool.MalformedRequest},
		"a commit of about that":    {commitPath, ofAnn("If-Match", `W/"7"`), 400, tool.MalformedRequest},
		"a commit of no ID":         {commitPath, ofAnn("Interlock-Preview", "p 1"), 400, tool.MalformedRequest},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.path == "/mcp" { // the document does not describe it
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+"/mcp", nil)
				r.Header = tt.header
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if response.StatusCode != tt.want {
					t.Errorf("%d", response.StatusCode)
				}
				return
			}
			checkProblem(t, c.Send(t, http.MethodPost, tt.path, `{}`, tt.header), tt.want, tt.code)
		})
	}
}

func TestWrite_sendsWhatAToolSays(t *testing.T) {
	for code, tt := range map[tool.Code]struct {
		status int
		path   string
	}{
		tool.Forbidden:            {403, paintPath},
		tool.OperationInProgress:  {409, paintPath},
		"StoneBroken":             {409, paintPath},
		tool.ResourceChanged:      {412, commitPath},
		tool.PreviewExpired:       {412, commitPath},
		tool.UnknownPreview:       {412, commitPath},
		tool.IdempotencyKeyReused: {422, commitPath},
	} {
		c := openWorkshop(t, &tool.Error{Code: code, Message: "no", Status: tt.status})
		got := c.Send(t, http.MethodPost, tt.path, `{}`, ofAnn())
		checkProblem(t, got, tt.status, code)
		if after := got.Header.Get("Retry-After"); (after != "") != code.Retryable() {
			t.Errorf("%s: Retry-After %q", code, after)
		}
	}
}

func TestOperations_areTold(t *testing.T) {
	c := openWorkshop(t, nil)
	for id, want := range map[string]string{
		"running": `{"operationId":"running","state":"InProgress"}`,
		"done": `{"operationId":"done","state":"Succeeded","result":{"operationId":"done","observedAt":"2026-01-02T12:00:00Z",` +
			`"sourceVersion":"stone@1","data":{"letters":"<a>"},"sources":[]}}`,
		"refused": `{"operationId":"refused","state":"Failed","problem":{"type":"urn:interlock:problem:StoneBroken",` +
			`"title":"The operation can't be done as things stand","status":409,"detail":"the stone is broken","code":"StoneBroken","retryable":false}}`,
	} {
		got := c.Send(t, http.MethodGet, "/v1/operations/"+id, "", ofAnn())
		if diff := cmp.Diff(want+"\n", string(got.Body)); diff != "" || got.Status != http.StatusOK {
			t.Errorf("%s: %d (-want +got):\n%s", id, got.Status, diff)
		}
	}
	checkProblem(t, c.Send(t, http.MethodGet, "/v1/operations/other", "", ofAnn()), 404, tool.UnknownOperation)
	checkProblem(t, c.Send(t, http.MethodGet, "/v1/operations/a%20b", "", ofAnn()), 404, tool.UnknownOperation)
	checkProblem(t, c.Send(t, http.MethodGet, "/v1/operations/done", "", headers()), 401, tool.Unauthenticated)
	checkProblem(t, c.Send(t, http.MethodDelete, "/v1/operations/done", "", ofAnn()), 405, codeMethodNotAllowed)
}
