// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/interlock-dev/interlock/internal/model"
	"github.com/interlock-dev/interlock/internal/model/modeltest"
	"github.com/interlock-dev/interlock/test/chatserver"
)

// fails asks a server that answers with a, and checks that it was asked once.
func fails(t *testing.T, a chatserver.Answer) *model.Error {
	t.Helper()
	m, s := serving(t, chatserver.Always(a))
	_, err := m.Complete(t.Context(), modeltest.Request())
	var failed *model.Error
	if !errors.As(err, &failed) {
		t.Fatalf("Complete() = %v (%T), want an *Error", err, err)
	}
	if got := s.Seen(); got != 1 {
		t.Errorf("the provider was asked %d times", got)
	}
	return failed
}

func TestComplete_sortsStatuses(t *testing.T) {
	for name, tc := range map[string]struct {
		status     int
		code       string
		wantReason model.Reason
		want       string
	}{
		"400":                    {400, "invalid_request_error", model.ReasonInvalidRequest, "the provider does not accept the request (status 400, code invalid_request_error)"},
		"400, context length":    {400, "context_length_exceeded", model.ReasonContextLength, "the request does not fit the model's context window (status 400, code context_length_exceeded)"},
		"400, policy":            {400, "content_policy_violation", model.ReasonRefused, "the provider's content policy stopped the request (status 400, code content_policy_violation)"},
		"400, policy of another": {400, "content_filter", model.ReasonRefused, ""},
		"400, an unknown model":  {400, "model_not_found", model.ReasonNotFound, ""},
		"401":                    {401, "invalid_api_key", model.ReasonUnauthorized, ""},
		"402":                    {402, "", model.ReasonUnauthorized, "the provider asks for payment (status 402, code test_error)"},
		"403":                    {403, "", model.ReasonUnauthorized, ""},
		"404":                    {404, "model_not_found", model.ReasonNotFound, ""},
		"408":                    {408, "", model.ReasonTimeout, ""},
		"409":                    {409, "", model.ReasonUnavailable, ""},
		"410, a retired model":   {410, "", model.ReasonNotFound, ""},
		"413, context length":    {413, "context_length_exceeded", model.ReasonContextLength, ""},
		"413":                    {413, "", model.ReasonInvalidRequest, ""},
		"422":                    {422, "", model.ReasonInvalidRequest, ""},
		"429":                    {429, "rate_limit_exceeded", model.ReasonRateLimited, ""},
		"429, quota":             {429, "insufficient_quota", model.ReasonUnauthorized, "the account's quota is used up (status 429, code insufficient_quota)"},
		"500":                    {500, "", model.ReasonUnavailable, ""},
		"500, context length":    {500, "context_length_exceeded", model.ReasonUnavailable, ""},
		"502":                    {502, "", model.ReasonUnavailable, ""},
		"503":                    {503, "", model.ReasonUnavailable, ""},
		"504":                    {504, "", model.ReasonUnavailable, ""},
		"529":                    {529, "overloaded_error", model.ReasonUnavailable, "the provider is overloaded or down (status 529, code overloaded_error)"},
		"599":                    {599, "", model.ReasonUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := fails(t, chatserver.Failure(tc.status, tc.code, "words of the provider"))
			if got.Reason != tc.wantReason || (tc.want != "" && got.Message != tc.want) {
				t.Errorf("error = %v, want %s: %s", got, tc.wantReason, tc.want)
			}
		})
	}
}

// The ways in which servers say that a request does not fit. Where a server has a code or a type for it, that is in the body.
func TestComplete_recognisesContextLengthInManyWords(t *testing.T) {
	for name, body := range map[string]string{
		"OpenAI":    `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		"vLLM":      `{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","param":null,"code":400}}`,
		"old vLLM":  `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`,
		"new vLLM":  `{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}}`,
		"llama.cpp": `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"invalid_request_error"}}`,
		"a type":    `{"error":{"code":400,"message":"request (5000 tokens) is too large","type":"exceed_context_size_error"}}`,
		"SGLang":    `{"object":"error","message":"The input (5000 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError"}`,
		"a gateway": `{"error":"input length exceeds context window"}`,
		"FastAPI":   `{"detail":"prompt is too long: 210000 tokens > 200000 maximum"}`,
		"TGI":       "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096\",\"error_type\":\"validation\"}",
	} {
		t.Run(name, func(t *testing.T) {
			if got := fails(t, chatserver.Answer{Status: 400, Body: body}); got.Reason != model.ReasonContextLength {
				t.Errorf("error = %v, want ContextLength", got)
			}
		})
	}
}

func TestComplete_recognisesAContentPolicyInWords(t *testing.T) {
	for name, body := range map[string]string{
		"Azure":  `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":null}}`,
		"OpenAI": `{"error":{"message":"Your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := fails(t, chatserver.Answer{Status: 400, Body: body}); got.Reason != model.ReasonRefused {
				t.Errorf("error = %v, want Refused", got)
			}
		})
	}
}

func TestComplete_goesByTheStatusWhateverTheBody(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": "", "HTML": "<html>", "a string": `"x"`, "an error that is a string": `{"error":"x"}`, "an error that is null": `{"error":null}`,
		"an error that is broken": `{"error":{`, "fields of other kinds": `{"error":{"message":[1],"code":{"a":1},"type":7}}`,
		"too much": `{"error":{"message":"` + strings.Repeat("a", 10<<20) + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := fails(t, chatserver.Answer{Status: 429, Body: body})
			if want := "RateLimited: the provider limits the rate of requests (status 429)"; got.Error() != want {
				t.Errorf("error = %v, want %s", got, want)
			}
		})
	}
}

func TestComplete_showsACodeOnlyIfItIsAPlainWord(t *testing.T) {
	for name, tc := range map[string]struct{ code, want string }{
		"a plain word":  {"rate_limit-2.x", ", code rate_limit-2.x"},
		"an empty one":  {"", ", code test_error"},
		"capitals":      {"RateLimit", ", code test_error"},
		"white space":   {"two words", ", code test_error"},
		"too long":      {strings.Repeat("a", 65), ", code test_error"},
		"a line break":  {"a\n", ", code test_error"},
		"a longest one": {strings.Repeat("a", 64), ", code " + strings.Repeat("a", 64)},
	} {
		t.Run(name, func(t *testing.T) {
			got := fails(t, chatserver.Failure(500, tc.code, "words of the provider"))
			if want := "the provider failed (status 500" + tc.want + ")"; got.Message != want {
				t.Errorf("message = %q, want %q", got.Message, want)
			}
		})
	}
}

func TestComplete_passesOnHowLongToWait(t *testing.T) {
	const date = "Mon, 02 Nov 2026 10:00:00 GMT"
	for name, tc := range map[string]struct {
		status int
		header http.Header
		want   time.Duration
	}{
		"seconds":                    {429, http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"parts of a second":          {429, http.Header{"Retry-After": {"1.5"}}, 1500 * time.Millisecond},
		"an hour":                    {429, http.Header{"Retry-After": {"3600"}}, time.Hour},
		"milliseconds":               {429, http.Header{"retry-after-ms": {"250"}}, 250 * time.Millisecond},
		"milliseconds before others": {429, http.Header{"retry-after-ms": {"250"}, "Retry-After": {"7"}}, 250 * time.Millisecond},
		"broken milliseconds":        {429, http.Header{"retry-after-ms": {"soon"}, "Retry-After": {"7"}}, 7 * time.Second},
		"a date":                     {429, http.Header{"Retry-After": {"Mon, 02 Nov 2026 10:00:30 GMT"}, "Date": {date}}, 30 * time.Second},
		"a date that has passed":     {429, http.Header{"Retry-After": {"Mon, 02 Nov 2026 09:00:00 GMT"}, "Date": {date}}, 0},
		"a date without a Date":      {429, http.Header{"Retry-After": {"Mon, 02 Nov 2026 10:00:30 GMT"}, "Date": nil}, 0},
		"a date far away":            {429, http.Header{"Retry-After": {"Mon, 02 Nov 2099 10:00:30 GMT"}, "Date": {date}}, 24 * time.Hour},
		"no advice":                  {429, nil, 0},
		"less than nothing":          {429, http.Header{"Retry-After": {"-5"}}, 0},
		"not a number":               {429, http.Header{"Retry-After": {"NaN"}}, 0},
		"a word":                     {429, http.Header{"Retry-After": {"soon"}}, 0},
		"more than fits":             {429, http.Header{"Retry-After": {"99999999999999999999"}}, 24 * time.Hour},
		"overloaded":                 {503, http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"a permanent failure":        {401, http.Header{"Retry-After": {"7"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := chatserver.Failure(tc.status, "", "")
			a.Header = tc.header
			if got := fails(t, a); got.RetryAfter != tc.want {
				t.Errorf("RetryAfter = %v, want %v", got.RetryAfter, tc.want)
			}
		})
	}
}
