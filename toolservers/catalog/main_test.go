// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/toolservers/internal/serving/servingtest"
)

// asCatalog makes the test binary be the server.
const asCatalog = "TEST_AS_CATALOG"

func TestMain(m *testing.M) {
	if os.Getenv(asCatalog) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// start runs the server until the test ends, and gives its address.
func start(t *testing.T, args ...string) string {
	t.Helper()
	return servingtest.Start(t, run, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
}

func invoke(t *testing.T, client *http.Client, url, tool, arguments string) map[string]any {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/tools/"+tool+":invoke", strings.NewReader(arguments))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "op-1")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s: %v", response.Status, answer)
	}
	return answer
}

// Both doors lead to the same tools.
func TestRun_answersAlikeByHTTPAndMCP(t *testing.T) {
	url := "http://" + start(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()

	for tool, arguments := range map[string]string{
		"search_technologies": `{"query":"container queries","asOf":"2024-01-01","limit":3}`,
		"get_technology":      `{"id":"grid","asOf":"2018-01-01"}`,
	} {
		byHTTP := invoke(t, http.DefaultClient, url, tool, arguments)
		byMCP, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		want := []any{byHTTP["data"], byHTTP["sources"], byHTTP["sourceVersion"]}
		got := []any{byMCP.StructuredContent, byMCP.Meta["interlock.dev/sources"], byMCP.Meta["interlock.dev/sourceVersion"]}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-http +mcp):\n%s", tool, diff)
		}
		if again := invoke(t, http.DefaultClient, url, tool, arguments); !cmp.Equal(byHTTP["data"], again["data"]) {
			t.Errorf("%s: the same call has another answer", tool)
		}
	}
}

func TestRun_isReady(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+start(t)+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}

func TestRun_saysWhyItDoesNotStart(t *testing.T) {
	taken := start(t)
	for name, args := range map[string][]string{
		"a port that is taken": {"--listen", taken},
		"no such certificate":  {"--tls-cert-file", "missing.pem", "--tls-key-file", "missing.pem"},
		"in the clear":         {"--listen", ":0"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
}

func TestMain_endsWellOnASignal(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			command := exec.CommandContext(t.Context(), os.Args[0], "--listen", "127.0.0.1:0")
			command.Env = append(os.Environ(), asCatalog+"=1")
			log, err := command.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			servingtest.Listening(t, bufio.NewScanner(log))
			if err := command.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := command.Wait(); err != nil {
				t.Errorf("the server ended with %v", err)
			}
		})
	}
}

func TestMain_failsWithAReason(t *testing.T) {
	command := exec.CommandContext(t.Context(), os.Args[0], "--listen", ":0")
	command.Env = append(os.Environ(), asCatalog+"=1")
	var output bytes.Buffer
	command.Stderr = &output
	if err := command.Run(); err == nil || !strings.Contains(output.String(), "--plaintext") {
		t.Errorf("%v: %s", err, output.String())
	}
}
