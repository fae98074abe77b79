// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/model/modeltest"
	"github.com/interlock-dev/interlock/internal/model/openai"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/test/chatserver"
)

func TestComplete_sendsTheRequestAsTheAPIWantsIt(t *testing.T) {
	m, s := serving(t, chatserver.Always(chatserver.Text("ok")))
	if _, err := m.Complete(t.Context(), modeltest.Request()); err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(s.Requests()[0].Body, &got); err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal([]byte(`{
		"model": "m1",
		"max_completion_tokens": 1000,
		"messages": [
			{"role": "system", "content": "Be brief."},
			{"role": "user", "content": "Compare the two."},
			{"role": "assistant", "tool_calls": [
				{"id": "s0c1", "type": "function", "function": {"name": "search", "arguments": "{\"query\":\"one\"}"}},
				{"id": "s0c2", "type": "function", "function": {"name": "read-file_2", "arguments": "{}"}}]},
			{"role": "tool", "tool_call_id": "s0c1", "content": "first result"},
			{"role": "tool", "tool_call_id": "s0c2", "content": ""},
			{"role": "assistant", "content": "Both are found."},
			{"role": "user", "content": "Go on."}],
		"tools": [
			{"type": "function", "function": {"name": "search", "description": "Finds things.", "parameters": {
				"type": "object", "properties": {"query": {"type": "string"}}}}},
			{"type": "function", "function": {"name": "read-file_2", "parameters": {"type": "object"}}}]
	}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestComplete_leavesOutWhatThereIsNot(t *testing.T) {
	m, s := serving(t, chatserver.Always(chatserver.Text("ok")))
	req := run.ModelRequest{MaxOutputTokens: 5, Messages: []run.Message{{Role: run.RoleUser, Text: "a<b"}, {Role: run.RoleAssistant}}}
	if _, err := m.Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	want := `{"messages":[{"content":"a<b","role":"user"},{"content":"","role":"assistant"}],"model":"m1","max_completion_tokens":5}`
	if got := string(s.Requests()[0].Body); got != want {
		t.Errorf("body = %s\nwant   %s", got, want)
	}
}

func TestComplete_keepsTheTextOfNumbersInSchemas(t *testing.T) {
	m, s := serving(t, chatserver.Always(chatserver.Text("ok")))
	req := modeltest.Request()
	req.Tools[0].InputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"maximum":9007199254740993,"multipleOf":1.10}},"maxProperties":9007199254740993}`)
	if _, err := m.Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	body := string(s.Requests()[0].Body)
	for _, want := range []string{`"maximum":9007199254740993,"multipleOf":1.10`, `"maxProperties":9007199254740993`} {
		if !strings.Contains(body, want) {
			t.Errorf("body = %s, want %s in it", body, want)
		}
	}
}

func TestComplete_refusesItselfWhatTheAPIWouldRefuseWithoutAWord(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*run.ModelRequest)
		want  string
	}{
		"a role that is unknown":   {func(r *run.ModelRequest) { r.Messages[0].Role = "system" }, `message 1: the role "system" is unknown`},
		"a name with a dot":        {func(r *run.ModelRequest) { r.Tools[1].Name = "a.b" }, `tool "a.b": a name has 1 to 64`},
		"a name that is too long":  {func(r *run.ModelRequest) { r.Tools[0].Name = strings.Repeat("a", 65) }, "a name has 1 to 64"},
		"a schema that is no JSON": {func(r *run.ModelRequest) { r.Tools[0].InputSchema = json.RawMessage("{") }, `tool "search": the input schema is not`},
		"a schema that is null":    {func(r *run.ModelRequest) { r.Tools[0].InputSchema = json.RawMessage("null") }, "the input schema is not"},
		"a schema that is a list":  {func(r *run.ModelRequest) { r.Tools[0].InputSchema = json.RawMessage("[]") }, "the input schema is not"},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := serving(t, chatserver.Always(chatserver.Text("ok")))
			req := modeltest.Request()
			tc.spoil(&req)
			_, err := m.Complete(t.Context(), req)
			var failed *model.Error
			if !errors.As(err, &failed) || failed.Reason != model.ReasonInvalidRequest || !strings.Contains(failed.Message, tc.want) {
				t.Errorf("error = %v, want InvalidRequest with %s", err, tc.want)
			}
			if s.Seen() != 0 {
				t.Error("the provider was asked")
			}
		})
	}
}

func TestComplete_sendsTheRequestIDIfAHeaderCanHoldIt(t *testing.T) {
	m, s := serving(t, chatserver.Always(chatserver.Text("ok")))
	for _, id := range []string{"3b0c-s1", "", "two\nlines", strings.Repeat("a", 513)} {
		if _, err := m.Complete(t.Context(), run.ModelRequest{ID: id, MaxOutputTokens: 5, Messages: []run.Message{{Role: run.RoleUser}}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"3b0c-s1", "", "", ""} {
		if got := s.Requests()[i].Header.Get("X-Client-Request-Id"); got != want {
			t.Errorf("request %d: X-Client-Request-Id = %q, want %q", i+1, got, want)
		}
	}
}

// The SDK's client takes each OPENAI_ variable from the environment, and net/http the proxies; none may change a request.
func TestComplete_readsNothingFromTheEnvironment(t *testing.T) {
	decoy := chatserver.New(chatserver.Always(chatserver.Text("decoy")))
	decoyURL := chatserver.Start(t, decoy)
	for name, value := range map[string]string{
		"OPENAI_BASE_URL": decoyURL, "OPENAI_API_KEY": "from-env", "OPENAI_ADMIN_KEY": "from-env", "OPENAI_ORG_ID": "from-env",
		"OPENAI_PROJECT_ID": "from-env", "OPENAI_WEBHOOK_SECRET": "from-env", "OPENAI_CUSTOM_HEADERS": "X-Custom: from-env",
	} {
		t.Setenv(name, value)
	}
	s := chatserver.New(chatserver.Always(chatserver.Text("ok")))
	// TestMain names a proxy. None is ever used for a loopback address; the unspecified one leads to the same server.
	m, err := openai.New(model.Config{BaseURL: strings.Replace(chatserver.Start(t, s), "127.0.0.1", "0.0.0.0", 1), Model: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Complete(t.Context(), modeltest.Request()); err != nil {
		t.Fatal(err)
	}
	if decoy.Seen() != 0 {
		t.Error("a server named by the environment was asked")
	}
	for name, values := range s.Requests()[0].Header {
		if strings.Contains(strings.Join(values, " "), "from-env") {
			t.Errorf("header %s = %v", name, values)
		}
	}
	if got, found := s.Requests()[0].Header["Authorization"]; found {
		t.Errorf("Authorization = %v without a key", got)
	}
}

func TestNew_findsTheAPIBelowItsBaseURL(t *testing.T) {
	s := chatserver.New(chatserver.Always(chatserver.Text("ok")))
	s.Key = "k1"
	root := strings.TrimSuffix(chatserver.Start(t, s), "/v1")
	for base, want := range map[string]string{
		"": "/chat/completions", "/": "/chat/completions", "/v1": "/v1/chat/completions", "/v1/": "/v1/chat/completions",
		"/tenants/a%2Fb/v1": "/tenants/a/b/v1/chat/completions",
	} {
		m, err := openai.New(model.Config{BaseURL: root + base, Model: "m1", APIKey: model.NewSecret("k1")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Complete(t.Context(), modeltest.Request()); err != nil {
			t.Fatal(err)
		}
		all := s.Requests()
		if last := all[len(all)-1]; last.Path != want || last.Method != http.MethodPost {
			t.Errorf("base %q: %s %s, want POST %s", base, last.Method, last.Path, want)
		}
	}
}

func TestNew_refusesWhatCanNeverWork(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  model.Config
		want string
	}{
		"no URL":                {model.Config{Model: "m"}, "must begin with https:// or http://"},
		"a URL of another kind": {model.Config{BaseURL: "file:///canary", Model: "m"}, "must begin with https:// or http://"},
		"a URL that is none":    {model.Config{BaseURL: "https://canary:x:y", Model: "m"}, "cannot be parsed"},
		"a URL without a host":  {model.Config{BaseURL: "https:///canary", Model: "m"}, "names no host"},
		"a URL with a password": {model.Config{BaseURL: "https://u:canary@h", Model: "m"}, "a user or a password"},
		"a URL with a query":    {model.Config{BaseURL: "https://h/?key=canary", Model: "m"}, "a query or a fragment"},
		"a URL with a bare ?":   {model.Config{BaseURL: "https://h/?", Model: "m"}, "a query or a fragment"},
		"a URL with a fragment": {model.Config{BaseURL: "https://h/#canary", Model: "m"}, "a query or a fragment"},
		"no model":              {model.Config{BaseURL: "https://h"}, "the model's name is missing"},
		"a key with a newline":  {model.Config{BaseURL: "https://h", Model: "m", APIKey: model.NewSecret("canary\n")}, "holds white space"},
		"a key that is a page":  {model.Config{BaseURL: "https://h", Model: "m", APIKey: model.NewSecret("canary ü")}, "holds white space"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openai.New(tc.cfg)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("New() = %v, want %q and none of the config", err, tc.want)
			}
		})
	}
}
