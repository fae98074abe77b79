// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/model/modeltest"
	"github.com/interlock-dev/interlock/internal/model/openai"
	"github.com/interlock-dev/interlock/test/chatserver"
)

// The canary has the form of an error code, so that only a check for the key itself can hold it back.
const canary = "sk-proj-canary0123456789"

func withCanary(t *testing.T, s *chatserver.Server) model.Model {
	t.Helper()
	s.Key = canary
	m, err := openai.New(model.Config{BaseURL: chatserver.Start(t, s), Model: "m1", APIKey: model.NewSecret(canary)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// forms are the ways in which a value gets into a log.
func forms(t *testing.T, v any) []string {
	t.Helper()
	all := []string{fmt.Sprintf("%v", v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%s", v), fmt.Sprintf("%q", v)}
	if b, err := json.Marshal(v); err == nil {
		all = append(all, string(b))
	}
	if err, ok := v.(error); ok {
		for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
			all = append(all, fmt.Sprintf("%v", cause), fmt.Sprintf("%+v", cause), fmt.Sprintf("%#v", cause))
		}
	}
	return all
}

func wantNoCanary(t *testing.T, v any) {
	t.Helper()
	for _, form := range forms(t, v) {
		// A part of the key is too much: providers echo keys with their middle taken out.
		if strings.Contains(form, "canary") || strings.Contains(form, "sk-proj") || strings.Contains(form, "0123456789") {
			t.Errorf("the key is in %s", form)
		}
	}
}

func TestKey_isInNoConfigAndNoModel(t *testing.T) {
	cfg := model.Config{BaseURL: "https://h/v1", Model: "m1", APIKey: model.NewSecret(canary)}
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantNoCanary(t, cfg)
	wantNoCanary(t, &cfg)
	// fmt does not ask for the String of what it finds in an unexported field.
	wantNoCanary(t, struct{ hidden model.Config }{cfg})
	wantNoCanary(t, m)
}

// A provider that repeats the key wherever it can does not get it into an error or a reply's names.
func TestKey_isInNoErrorAndNoName(t *testing.T) {
	echo := http.Header{"X-Request-Id": {canary}, "Retry-After": {canary}, "X-Echo": {"Bearer " + canary}}
	failure := func(status int, code string) chatserver.Answer {
		return chatserver.Answer{Status: status, Header: echo, Body: fmt.Sprintf(
			`{"error":{"message":"Incorrect API key provided: %s","type":%q,"code":%q,"param":%q}}`, canary, code, code, canary)}
	}
	for name, answer := range map[string]chatserver.Answer{
		"as a code":           failure(401, canary),
		"as part of a code":   failure(401, "invalid_key.sk-proj-can"),
		"in the middle":       failure(429, "x0123456789x"),
		"in other statuses":   failure(503, canary),
		"with a redirect":     {Status: 302, Header: http.Header{"Location": {"/" + canary}}, Body: canary},
		"as no JSON":          {Body: canary, Header: echo},
		"as another type":     {Body: `{}`, Header: http.Header{"Content-Type": {"text/" + canary}}},
		"as JSON of no shape": {Body: `{"choices":"` + canary + `","` + canary + `":1}`, Header: echo},
		"cut off":             {Body: `{"choices":[{"message":{"content":"` + canary, Header: echo},
	} {
		t.Run(name, func(t *testing.T) {
			s := chatserver.New(chatserver.Always(answer))
			_, err := withCanary(t, s).Complete(t.Context(), modeltest.Request())
			if err == nil {
				t.Fatal("Complete() = nil, want an error")
			}
			wantNoCanary(t, err)
			if got := s.Requests()[0].Header.Get("Authorization"); got != "Bearer "+canary {
				t.Errorf("Authorization = %q: the test shows nothing", got)
			}
		})
	}
	t.Run("as names of a reply", func(t *testing.T) {
		s := chatserver.New(chatserver.Always(chatserver.Answer{Completion: &chatserver.Completion{Text: "hi", Model: canary}, Header: echo}))
		reply, err := withCanary(t, s).Complete(t.Context(), modeltest.Request())
		if err != nil || reply.Text != "hi" {
			t.Fatalf("Complete() = %v, %v", reply, err)
		}
		wantNoCanary(t, reply)
	})
}

func TestKey_isNotSentToAnotherHost(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for name, target := range map[string]string{"another port": "127.0.0.1", "another name": "localhost"} {
			t.Run(fmt.Sprintf("%d to %s", status, name), func(t *testing.T) {
				other := chatserver.New(chatserver.Always(chatserver.Text("stolen")))
				location := strings.Replace(chatserver.Start(t, other), "127.0.0.1", target, 1) + "/chat/completions"
				s := chatserver.New(chatserver.Always(chatserver.Answer{Status: status, Header: http.Header{"Location": {location}}, Body: "{}"}))
				_, err := withCanary(t, s).Complete(t.Context(), modeltest.Request())
				want := model.ReasonUnavailable
				if status == 301 || status == 308 {
					want = model.ReasonInvalidRequest
				}
				var failed *model.Error
				if !errors.As(err, &failed) || failed.Reason != want || !strings.Contains(failed.Message, "redirects are not followed") {
					t.Errorf("error = %v, want %s that speaks of redirects", err, want)
				}
				if s.Seen() != 1 || other.Seen() != 0 {
					t.Errorf("asked %d times, the other host %d times; want once and never", s.Seen(), other.Seen())
				}
			})
		}
	}
}
