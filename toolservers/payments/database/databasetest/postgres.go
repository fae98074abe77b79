// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package databasetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// startTimeout is long, since machines that test are busy.
	startTimeout = time.Minute
	pollInterval = 50 * time.Millisecond
)

// Main runs the tests of a package that uses PostgreSQL, and stops the server that they share. It gives the exit code.
func Main(m *testing.M) int {
	defer shared.stop()
	return m.Run()
}

// shared is started by the first test that wants it.
var shared server

// A server is PostgreSQL in a directory of its own, on a free port of the loopback interface.
type server struct {
	once    sync.Once
	err     error
	dir     string
	port    int
	command *exec.Cmd
}

// newPostgres makes a database, and gives its URL.
func newPostgres(t *testing.T) string {
	t.Helper()
	bin, ok := installed()
	if !ok {
		t.Skip("PostgreSQL isn't installed: there is neither initdb in PATH nor /usr/lib/postgresql/*/bin")
	}
	shared.once.Do(func() { shared.err = shared.start(t.Context(), bin) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	if err := shared.exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return shared.url(name)
}

// installed gives the directory of PostgreSQL's programs.
func installed() (string, bool) {
	if found, err := exec.LookPath("initdb"); err == nil {
		if found, err = filepath.EvalSymlinks(found); err == nil {
			return filepath.Dir(found), true
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", false
	}
	return filepath.Dir(found[len(found)-1]), true
}

func (s *server) url(database string) string {
	return fmt.Sprintf("postgres://payments@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

func (s *server) exec(ctx context.Context, statement string) error {
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

func (s *server) start(ctx context.Context, bin string) (err error) {
	attributes, owner, err := unprivileged()
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "payments-postgres-"); err != nil {
		return err
	}
	if err := os.Chown(s.dir, owner, -1); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), //nolint:gosec // the path is where PostgreSQL was found
		"--pgdata", data, "--username", "payments", "--auth", "trust", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attributes, s.dir
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	if s.port, err = freePort(ctx); err != nil {
		return err
	}
	var output bytes.Buffer
	// The server outlives the test that starts it, and is stopped by Main.
	s.command = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(bin, "postgres"), //nolint:gosec // as above
		"-D", data, "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200")
	s.command.SysProcAttr, s.command.Dir, s.command.Stderr = attributes, s.dir, &output
	if err := s.command.Start(); err != nil {
		return err
	}
	answers := func(ctx context.Context) (bool, error) { return s.exec(ctx, "SELECT 1") == nil, nil }
	if err := wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true, answers); err != nil {
		return fmt.Errorf("waiting for PostgreSQL: %w: %s", err, output.String())
	}
	return nil
}

// stop does not wait for clients, and leaves nothing behind.
func (s *server) stop() {
	if s.command != nil && s.command.Process != nil {
		_ = s.command.Process.Signal(syscall.SIGINT)
		_ = s.command.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// unprivileged says as whom the server runs: it refuses to as root.
func unprivileged() (*syscall.SysProcAttr, int, error) {
	if os.Getuid() != 0 {
		return nil, os.Getuid(), nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, 0, err
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, int(uid), nil
	}
	return nil, 0, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody")
}

func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
