// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"github.com/interlock-dev/interlock/internal/run"
)

// noRoom is what a run waits for in the queue. There is neither a number nor a name in it, so that nothing is written to the runs
// that wait when the queue goes on, or when a policy is changed and they wait all the same.
const noRoom = "as many runs as RunPolicies allow at once in this namespace are under way (spec.maxConcurrentRuns of the RunPolicy)"

// itsTurn asks the queue whether a run that could begin may, and says what it waits for; empty if it may.
func (r *AgentRunReconciler) itsTurn(ctx context.Context, p *pass) (string, error) {
	if isChild(p.run) || p.refusal != nil || p.before.Holds.Run != "" {
		return "", nil
	}
	p.queued = true
	p.limit = concurrencyOf(p.policies)
	place, room, err := r.Queue.enter(ctx, r.Live, p.run, p.limit)
	r.wakeAll(room)
	if err != nil || place == 0 {
		return "", err
	}
	p.place = place
	return noRoom, nil
}

// leave takes a run out of the queue that has not asked for its turn in this pass: it can't begin at the moment, and others may.
func (r *AgentRunReconciler) leave(p *pass) {
	if !p.queued && p.before.Step == 0 && !isChild(p.run) {
		r.wakeAll(r.Queue.leave(p.run))
	}
}

func (r *AgentRunReconciler) wakeAll(keys []RunKey) {
	for _, k := range keys {
		r.Wake.Wake(k)
	}
}

// placeText says where in the queue a run is, for the event that tells that it waits; empty if it does not.
func (p *pass) placeText() string {
	if p.after.Waiting != noRoom {
		return ""
	}
	return fmt.Sprintf(" RunPolicy %s allows %d; the run is number %d of those that wait.", p.limit.policy, p.limit.most, p.place)
}

// inQueue reports whether a run waits for nothing but its turn.
func inQueue(s run.State) bool { return s.Phase == run.Pending && s.Waiting == noRoom }
