// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// launcher starts a program in its own place, so that it has the same process ID. Linux then kills it as soon as the
// process that started it is gone: a test that panics or is killed has no chance to call Stop.
const launcher = `#!/bin/sh
if setpriv --pdeathsig KILL true 2>/dev/null; then
	exec setpriv --pdeathsig KILL '%[1]s' "$@"
fi
exec '%[1]s' "$@"
`

// A program is one of the three that make a cluster.
type program struct {
	path string   // of its launcher
	dir  string   // for its data
	log  *os.File // what it prints
}

// prepare makes ready what the program needs. The folder is ours, because envtest removes one of its own each time that it
// stops a program.
func (c *Cluster) prepare(name string) (program, error) {
	binary := filepath.Join(c.assets, name)
	if _, err := os.Stat(binary); err != nil {
		return program{}, fmt.Errorf("KUBEBUILDER_ASSETS is not complete: %w", err)
	}
	p := program{path: filepath.Join(c.dir, name+".sh"), dir: filepath.Join(c.dir, name)}
	if err := os.WriteFile(p.path, fmt.Appendf(nil, launcher, binary), 0o700); err != nil {
		return program{}, err
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return program{}, err
	}
	var err error
	p.log, err = os.Create(c.logOf(name))
	return p, err
}

func (c *Cluster) logOf(name string) string {
	return filepath.Join(c.logs, name+".log")
}

// lastWords is the end of what the program has printed, for an error that would be a riddle without it.
func (c *Cluster) lastWords(name string) string {
	log, err := os.ReadFile(c.logOf(name))
	if err != nil {
		return err.Error()
	}
	return name + " said last:\n" + string(log[max(0, len(log)-2000):])
}
