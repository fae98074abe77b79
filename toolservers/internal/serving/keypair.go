// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// A keyPair is a certificate that is read again when its file changes, so that a renewed one is used without a restart.
type keyPair struct {
	certFile string
	keyFile  string
	log      *slog.Logger

	mu      sync.Mutex
	changed time.Time
	current *tls.Certificate
}

func loadKeyPair(certFile, keyFile string, log *slog.Logger) (*keyPair, error) {
	p := &keyPair{certFile: certFile, keyFile: keyFile, log: log}
	if err := p.refresh(); err != nil {
		return nil, fmt.Errorf("loading the certificate: %w", err)
	}
	return p, nil
}

// certificate gives the newest pair that could be read. While a renewal is half written, or broken, the one before serves
// on: it is still the better answer.
func (p *keyPair) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refresh(); err != nil {
		p.log.Warn("the renewed certificate can't be used", "error", err)
	}
	return p.current, nil
}

func (p *keyPair) refresh() error {
	info, err := os.Stat(p.certFile)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(p.changed) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		return err
	}
	p.current, p.changed = &pair, info.ModTime()
	return nil
}
