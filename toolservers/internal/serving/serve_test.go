// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-dev/interlock/toolservers/internal/serving/servingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServe_letsACallEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	came, release := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(came)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	log, output := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Options{Listen: "127.0.0.1:0"}, handler, slog.New(slog.NewJSONHandler(output, nil)))
	}()
	lines := bufio.NewScanner(log)
	address := servingtest.Listening(t, lines)

	answered := make(chan string, 1)
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, nil)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		answered <- string(body)
	}()
	<-came
	cancel()
	lines.Scan() // it says that it is stopping
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if got := <-answered; got != "done" {
		t.Errorf("the call under way got %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// issue writes a certificate of its own for 127.0.0.1, and gives the pool that trusts it.
func issue(t *testing.T, certFile, keyFile string, serial int64) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	write(t, certFile, chain)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(chain)
	return pool
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestServe_servesTLSAndTakesARenewedCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	pool := issue(t, certFile, keyFile, 1)
	address := servingtest.Start(t, func(ctx context.Context, _ []string, output io.Writer) error {
		o := Options{Listen: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile}
		return Serve(ctx, o, http.NotFoundHandler(), slog.New(slog.NewJSONHandler(output, nil)))
	})

	// serial says which certificate a new connection is shown.
	serial := func(pool *x509.CertPool) int64 {
		t.Helper()
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool}}
		connection, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
		return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(pool); got != 1 {
		t.Errorf("certificate %d, want 1", got)
	}

	write(t, certFile, []byte("half a certifi"))
	later(t, certFile, time.Minute)
	if got := serial(pool); got != 1 {
		t.Errorf("while the renewal is half written: certificate %d, want 1", got)
	}

	renewed := issue(t, certFile, keyFile, 2)
	later(t, certFile, 2*time.Minute)
	if got := serial(renewed); got != 2 {
		t.Errorf("after the renewal: certificate %d, want 2", got)
	}
}

// later makes the file newer than any clock's grain would.
func later(t *testing.T, file string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(by)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}
