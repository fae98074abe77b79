// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// probe is a run that is never stored.
const probe = `{"apiVersion":"interlock.dev/v1alpha1","kind":"AgentRun","metadata":{"name":"probe"},"spec":{"goal":"x","model":{"name":"x"}}}`

// InstallAdmission applies a folder of admission policies, whoever has changed them since, and waits until the API server keeps them, which it does a while
// after it has taken them: a run that is only tried must come back with the name of who tried it.
func (c *Cluster) InstallAdmission(ctx context.Context, path string) error {
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--kustomize="+path); err != nil {
		return err
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var out string
		out, last = c.kubectl(ctx, strings.NewReader(probe), "create", "--dry-run=server", "--filename=-", "--output=jsonpath={.spec.requestedBy}")
		return last == nil && out != "", nil
	})
	if err != nil {
		return fmt.Errorf("the admission policies of %s do not take effect: %w (%w)", path, err, last)
	}
	return nil
}
