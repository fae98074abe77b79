// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// A program is a process of the suite: it ends with the suite, whatever happens.
type program struct {
	name string
	args []string
	env  []string
	dir  string
	// ready is an address that answers once the program does.
	ready string

	cmd *exec.Cmd
	out output
}

// output keeps what a program has printed; it is written to from another goroutine.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// log is all that the program has printed, over all its lives.
func (p *program) log() string {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.text.String()
}

func (p *program) start() {
	GinkgoHelper()
	p.cmd = exec.Command(p.args[0], p.args[1:]...) //nolint:noctx // it ends by kill, which is what is tested
	p.cmd.Env, p.cmd.Dir = append(p.cmd.Environ(), p.env...), p.dir
	out := io.MultiWriter(GinkgoWriter, &p.out)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	Expect(p.cmd.Start()).To(Succeed(), p.name)
	Eventually(func() error {
		response, err := http.Get(p.ready) //nolint:noctx // a loopback address, asked until it answers
		if err != nil {
			return err
		}
		return response.Body.Close()
	}, time.Minute, 20*time.Millisecond).Should(Succeed(), "%s does not answer", p.name)
}

// kill ends the program as a power cut would.
func (p *program) kill() {
	GinkgoHelper()
	Expect(p.cmd.Process.Kill()).To(Succeed())
	// It was killed, so its exit is an error.
	_ = p.cmd.Wait()
}

// An operator is the built operator, as its own ServiceAccount with just config/rbac.
type operator struct {
	program
	metricsPort int
}

func newOperator(ctx context.Context) *operator {
	GinkgoHelper()
	kubeconfig, err := plane.KubeconfigFor(ctx, "interlock-system", "interlock-operator")
	Expect(err).NotTo(HaveOccurred())
	probe, metrics := freePort(ctx), freePort(ctx)
	return &operator{metricsPort: metrics, program: program{
		name: "operator",
		args: []string{
			binary("interlock"), "--kubeconfig=" + kubeconfig, fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics),
			fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", probe), "--zap-log-level=debug",
		},
		ready: loopback(probe, "/readyz"),
	}}
}

// restart kills the operator and starts it again.
func (o *operator) restart() {
	GinkgoHelper()
	o.kill()
	o.start()
}
