// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package chatserver_test

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/test/chatserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const question = `{"model":"m1","messages":[{"role":"user","content":"hello"}]}`

func post(t *testing.T, url, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp, string(got), err
}

func TestServer_answersAsTheAPIDoes(t *testing.T) {
	s := chatserver.New(chatserver.Always(chatserver.Answer{Completion: &chatserver.Completion{
		Text:  "hi",
		Calls: []chatserver.Call{{ID: "a", Name: "search", Arguments: `{"q":1}`}},
		Usage: &chatserver.Usage{Prompt: 7, Cached: 3, Completion: 2, Reasoning: 1},
	}}))
	resp, got, err := post(t, chatserver.Start(t, s)+"/chat/completions", question)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"choices":[{"finish_reason":"tool_calls","index":0,"message":{"content":"hi","refusal":null,"role":"assistant",` +
		`"tool_calls":[{"function":{"arguments":"{\"q\":1}","name":"search"},"id":"a","type":"function"}]}}],` +
		`"id":"chatcmpl-1","model":"m1","object":"chat.completion","usage":{"completion_tokens":2,` +
		`"completion_tokens_details":{"reasoning_tokens":1},"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":3},"total_tokens":9}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if id := resp.Header.Get("X-Request-Id"); id != "req-1" {
		t.Errorf("X-Request-Id = %q, want req-1", id)
	}
}

func TestServer_recordsAndCharges(t *testing.T) {
	s := chatserver.New(chatserver.Sequence(chatserver.Text("one"), chatserver.Text("two")))
	url := chatserver.Start(t, s) + "/chat/completions"
	s.Nth(2, chatserver.Failure(http.StatusServiceUnavailable, "overloaded", "later"))
	for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable, http.StatusInternalServerError} {
		resp, _, err := post(t, url, question)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("status = %d, want %d", resp.StatusCode, want)
		}
	}
	if diff := cmp.Diff(chatserver.Bill{Completions: 1, PromptTokens: 10, CompletionTokens: 5}, s.Bill()); diff != "" {
		t.Errorf("bill (-want +got):\n%s", diff)
	}
	reqs := s.Requests()
	if len(reqs) != 3 || s.Seen() != 3 {
		t.Fatalf("recorded %d and saw %d requests, want 3", len(reqs), s.Seen())
	}
	if got := reqs[2]; got.N != 3 || got.Chat.Messages[0].Content != "hello" || got.Chat.Turn() != 1 || string(got.Body) != question {
		t.Errorf("third request = %+v", got)
	}
}

func TestChat_countsTheTurnThatIsAskedFor(t *testing.T) {
	s := chatserver.New(chatserver.Always(chatserver.Text("ok")))
	url := chatserver.Start(t, s) + "/chat/completions"
	body := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"x"}]},` +
		`{"role":"tool","tool_call_id":"x","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]}`
	if _, _, err := post(t, url, body); err != nil {
		t.Fatal(err)
	}
	if got := s.Requests()[0].Chat.Turn(); got != 3 {
		t.Errorf("Turn() = %d, want 3", got)
	}
}

func TestServer_forgetsTheOldestRequest(t *testing.T) {
	s := chatserver.New(chatserver.Always(chatserver.Text("ok")))
	url := chatserver.Start(t, s) + "/chat/completions"
	for range 258 {
		if _, _, err := post(t, url, question); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Requests(); len(got) != 256 || got[0].N != 3 || s.Seen() != 258 {
		t.Errorf("kept %d requests from the %dth on, saw %d", len(got), got[0].N, s.Seen())
	}
}

func TestServer_refusesWhatNoEndpointTakes(t *testing.T) {
	s := chatserver.New(chatserver.Always(chatserver.Text("ok")))
	s.Key = "k1"
	base := chatserver.Start(t, s)
	for name, tc := range map[string]struct {
		path, body, key string
		want            int
	}{
		"the right key":    {path: "/chat/completions", body: question, key: "Bearer k1", want: http.StatusOK},
		"another path":     {path: "/models", body: question, key: "Bearer k1", want: http.StatusNotFound},
		"no key":           {path: "/chat/completions", body: question, want: http.StatusUnauthorized},
		"not JSON":         {path: "/chat/completions", body: "{", key: "Bearer k1", want: http.StatusBadRequest},
		"a body too large": {path: "/chat/completions", body: strings.Repeat(" ", 9<<20), key: "Bearer k1", want: http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			resp, _, err := post(t, base+tc.path, tc.body, "Authorization", tc.key)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tc.want {
				t.Errorf("status = %d, want %d", resp.StatusCode, tc.want)
			}
		})
	}
	if got := s.Bill().Completions; got != 1 {
		t.Errorf("completions = %d, want 1", got)
	}
}

func TestServer_breaksConnectionsAsTold(t *testing.T) {
	s := chatserver.New(chatserver.Always(chatserver.Text("ok")))
	url := chatserver.Start(t, s) + "/chat/completions"
	broken := func(f chatserver.Fault) chatserver.Answer {
		a := chatserver.Text("ok")
		a.Fault = f
		return a
	}
	s.Nth(1, broken(chatserver.Reset))
	s.Nth(2, broken(chatserver.Truncate))
	s.Nth(3, broken(chatserver.Endless))

	if _, _, err := post(t, url, question); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("reset: %v, want a connection reset", err)
	}
	if _, got, err := post(t, url, question); !errors.Is(err, io.ErrUnexpectedEOF) || got == "" {
		t.Errorf("truncated: %q, %v, want half of the body and an unexpected EOF", got, err)
	}
	if _, got, err := post(t, url, question); err != nil || len(got) != 1<<20 {
		t.Errorf("endless: %d bytes, %v, want as much as was read", len(got), err)
	}
	if got := s.Bill().Completions; got != 3 {
		t.Errorf("completions = %d, want 3: what is lost on the way is charged", got)
	}
}

func TestServer_holdsOneAnswerAndGivesOthers(t *testing.T) {
	hold := make(chan struct{})
	s := chatserver.New(chatserver.Always(chatserver.Text("ok")))
	url := chatserver.Start(t, s) + "/chat/completions"
	s.Nth(1, chatserver.Answer{Body: "{}", Hold: hold})
	answered := make(chan error, 1)
	go func() {
		_, _, err := post(t, url, question)
		answered <- err
	}()
	for s.Seen() == 0 {
		runtime.Gosched()
	}
	if _, _, err := post(t, url, question); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-answered:
		t.Fatalf("answered before the release: %v", err)
	default:
	}
	close(hold)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestServer_letsGoOfHeldRequestsWhenItCloses(t *testing.T) {
	asked := make(chan struct{})
	s := chatserver.New(func(chatserver.Request) chatserver.Answer {
		close(asked)
		return chatserver.Answer{Body: "{}", Hold: make(chan struct{})}
	})
	url := chatserver.Start(t, s) + "/chat/completions"
	answered := make(chan error, 1)
	go func() {
		_, _, err := post(t, url, question)
		answered <- err
	}()
	<-asked
	s.Close()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
