// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/model/modeltest"
	"github.com/interlock-dev/interlock/internal/model/openai"
	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/test/chatserver"
)

// TestMain names a proxy that nobody listens at, before anything can ask for it: net/http looks at the environment once.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy"} {
		if err := os.Setenv(name, "http://127.0.0.1:1"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	modeltest.Run(t, func(t *testing.T, b modeltest.Behaviour) model.Model {
		t.Helper()
		m, _ := serving(t, func(chatserver.Request) chatserver.Answer { return answerOf(b) })
		return m
	})
}

// serving gives a model at a server that answers as told.
func serving(t *testing.T, answer func(chatserver.Request) chatserver.Answer) (model.Model, *chatserver.Server) {
	t.Helper()
	s := chatserver.New(answer)
	m, err := openai.New(model.Config{BaseURL: chatserver.Start(t, s), Model: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	return m, s
}

func answerOf(b modeltest.Behaviour) chatserver.Answer {
	switch {
	case b.Hang != nil:
		b.Hang()
		return chatserver.Answer{Hold: make(chan struct{})}
	case b.Fail != "":
		a := failureOf(b.Fail)
		if b.RetryAfter > 0 {
			a.Header = http.Header{"Retry-After": {strconv.Itoa(int(b.RetryAfter / time.Second))}}
		}
		return a
	}
	return chatserver.Answer{Completion: completionOf(b.Reply)}
}

func failureOf(reason model.Reason) chatserver.Answer {
	switch reason {
	case model.ReasonUnavailable:
		return chatserver.Failure(http.StatusServiceUnavailable, "overloaded", "later")
	case model.ReasonRateLimited:
		return chatserver.Failure(http.StatusTooManyRequests, "rate_limit_exceeded", "slower")
	case model.ReasonTimeout:
		return chatserver.Failure(http.StatusRequestTimeout, "timeout", "too slow")
	case model.ReasonMalformed:
		return chatserver.Answer{Body: "<html>", Header: http.Header{"Content-Type": {"text/html"}}}
	case model.ReasonUnauthorized:
		return chatserver.Failure(http.StatusUnauthorized, "invalid_api_key", "who are you")
	case model.ReasonNotFound:
		return chatserver.Failure(http.StatusNotFound, "model_not_found", "no such model")
	case model.ReasonContextLength:
		return chatserver.Failure(http.StatusBadRequest, "context_length_exceeded", "too long")
	case model.ReasonInvalidRequest:
		return chatserver.Failure(http.StatusUnprocessableEntity, "invalid", "no")
	case model.ReasonRefused:
		return chatserver.Failure(http.StatusBadRequest, "content_policy_violation", "no")
	}
	return chatserver.Answer{}
}

func completionOf(r run.Reply) *chatserver.Completion {
	c := &chatserver.Completion{Text: r.Text}
	switch r.Finish {
	case run.FinishLength:
		c.Finish = "length"
	case run.FinishRefused:
		c.Text, c.Refusal = "", r.Text
	case run.FinishStop:
	}
	for _, call := range r.Calls {
		c.Calls = append(c.Calls, chatserver.Call{ID: call.ModelCallID, Name: call.Tool, Arguments: call.Arguments})
	}
	if u := r.Usage; u.Reported {
		c.Usage = &chatserver.Usage{Prompt: u.Input, Cached: u.CachedInput, Completion: u.Output, Reasoning: u.Reasoning}
	}
	return c
}
