// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLog_tellsOfACallButNotWhatIsInIt(t *testing.T) {
	c := openCounter(t, echo, nil)
	h := headers("Authorization", "Bearer secret", "Cookie", "secret", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	c.Send(t, http.MethodPost, echoPath+"?secret=secret", `{"word":"secret"}`, h)

	var line map[string]any
	if err := json.Unmarshal([]byte(c.log.String()), &line); err != nil {
		t.Fatalf("%v: %s", err, c.log)
	}
	if ms, ok := line["durationMs"].(float64); !ok || ms < 0 {
		t.Errorf("durationMs: %v", line["durationMs"])
	}
	delete(line, "time")
	delete(line, "durationMs")
	delete(line, "bytes")
	want := map[string]any{
		"level": "INFO", "msg": "request", "method": "POST", "route": "/v1/tools/{call}", "status": 200.0,
		"tool": "echo", "operationId": "op-1", "traceId": "0af7651916cd43dd8448eb211c80319c",
	}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(c.log.String(), "secret") {
		t.Errorf("the log tells a secret: %s", c.log)
	}
}

func TestLog_tellsHowACallFailed(t *testing.T) {
	c := openCounter(t, echo, nil)
	c.Send(t, http.MethodPost, echoPath, `{"secret":"secret"}`, headers("traceparent", "secret"))
	c.Send(t, http.MethodPost, "/v1/tools/secret:invoke", `{}`, headers())
	c.Send(t, http.MethodGet, "/secret", ``, headers("Idempotency-Key", "a secret"))
	log := c.log.String()
	if strings.Count(log, "\n") != 3 || !strings.Contains(log, `"code":"InvalidArguments"`) || strings.Contains(log, "secret") {
		t.Errorf("log: %s", log)
	}
}

func TestHealth_isAskedQuietly(t *testing.T) {
	well := openCounter(t, echo, nil)
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := well.Send(t, http.MethodGet, path, "", nil); got.Status != http.StatusOK || string(got.Body) != "ok\n" {
			t.Errorf("%s: %d %q", path, got.Status, got.Body)
		}
	}
	if log := well.log.String(); log != "" {
		t.Errorf("probes are logged: %s", log)
	}

	ill := openCounter(t, echo, errors.New("secret"))
	if got := ill.Send(t, http.MethodGet, "/readyz", "", nil); got.Status != http.StatusServiceUnavailable || string(got.Body) != "not ready\n" {
		t.Errorf("/readyz: %d %q", got.Status, got.Body)
	}
	if got := ill.Send(t, http.MethodGet, "/healthz", "", nil); got.Status != http.StatusOK {
		t.Errorf("/healthz: %d", got.Status)
	}
	if log := ill.log.String(); !strings.Contains(log, `"route":"/readyz"`) {
		t.Errorf("log: %s", log)
	}
}
