// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-dev/interlock/internal/run"
	"github.com/interlock-dev/interlock/internal/text"
)

// A RunRef names a run.
type RunRef struct {
	Namespace, Name, UID string
}

// A Store keeps Turns.
type Store interface {
	// Read gives the Turn of a step; false if there is none.
	Read(ctx context.Context, ref RunRef, step int) (Turn, bool, error)
	// Create stores t, and gives it back with its Version. ErrExists: there is a Turn of that step.
	Create(ctx context.Context, ref RunRef, t Turn) (Turn, error)
	// Append adds results to the Turn t, which must be the one stored, and gives it back as it is then. ErrConflict: it has
	// changed since it was read.
	Append(ctx context.Context, ref RunRef, t Turn, results []Result) (Turn, error)
}

// Errors of a Store, and of Journal.
var (
	// ErrExists: there is a Turn of that step.
	ErrExists = errors.New("the Turn exists")
	// ErrConflict: the Turn has changed since it was read.
	ErrConflict = errors.New("the Turn has changed")
	// ErrOtherReply: the journal holds another reply for the step. That one stands; ours must be dropped.
	ErrOtherReply = errors.New("the journal holds another reply for this step")
	// ErrMissing: a Turn that must be there is not.
	ErrMissing = errors.New("the Turn is missing")
)

// A Journal keeps the Turns of many runs in a Store, and the newest histories in memory. It is safe for concurrent use.
type Journal struct {
	store  Store
	memory *memory
}

// New makes a Journal over store that keeps histories of up to memoryBytes in memory.
func New(store Store, memoryBytes int) *Journal {
	return &Journal{store: store, memory: newMemory(memoryBytes)}
}

// Keep stores a new Turn. If the step has one with the same reply already, it is done (and results it lacks are added); if it
// has one with another reply, that is ErrOtherReply.
func (j *Journal) Keep(ctx context.Context, ref RunRef, t Turn) error {
	stored, err := j.store.Create(ctx, ref, t)
	if errors.Is(err, ErrExists) {
		return j.keepOver(ctx, ref, t)
	}
	if err != nil {
		return fmt.Errorf("storing turn %d: %w", t.Step, err)
	}
	j.memory.put(ref.UID, stored)
	return nil
}

func (j *Journal) keepOver(ctx context.Context, ref RunRef, t Turn) error {
	old, err := j.Read(ctx, ref, t.Step)
	if err != nil {
		return err
	}
	if old.Reply.Fingerprint() != t.Reply.Fingerprint() {
		return ErrOtherReply
	}
	return j.Append(ctx, ref, t.Step, t.Results)
}

// Append adds results to the Turn of a step. A call that has a result keeps it.
func (j *Journal) Append(ctx context.Context, ref RunRef, step int, results []Result) error {
	t, ok := j.memory.turn(ref.UID, step)
	for {
		if !ok {
			var err error
			if t, err = j.Read(ctx, ref, step); err != nil {
				return err
			}
		}
		results = without(results, t)
		if len(results) == 0 {
			return nil
		}
		stored, err := j.store.Append(ctx, ref, t, results)
		if errors.Is(err, ErrConflict) && ok {
			// What is in memory is older than what is stored: read it, and try once more.
			ok = false
			continue
		}
		if err != nil {
			return fmt.Errorf("storing results of turn %d: %w", step, err)
		}
		j.memory.put(ref.UID, stored)
		return nil
	}
}

// without gives the results of calls that have none in t yet.
func without(results []Result, t Turn) []Result {
	var missing []Result
	for _, r := range results {
		if _, ok := t.Result(r.CallID); !ok {
			missing = append(missing, r)
		}
	}
	return missing
}

// Find gives the Turn of a step as it is stored; false if there is none.
func (j *Journal) Find(ctx context.Context, ref RunRef, step int) (Turn, bool, error) {
	if t, ok := j.memory.turn(ref.UID, step); ok {
		return t, true, nil
	}
	t, ok, err := j.store.Read(ctx, ref, step)
	if err != nil {
		return Turn{}, false, fmt.Errorf("reading turn %d: %w", step, err)
	}
	if ok {
		j.memory.put(ref.UID, t)
	}
	return t, ok, nil
}

// History gives the Turns of steps 1 to last, from memory where it has them. After a restart that is a read a step, once.
func (j *Journal) History(ctx context.Context, ref RunRef, last int) ([]Turn, error) {
	turns := make([]Turn, 0, last)
	for step := 1; step <= last; step++ {
		t, ok, err := j.Find(ctx, ref, step)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("turn %d: %w", step, ErrMissing)
		}
		turns = append(turns, t)
	}
	return turns, nil
}

// Forget drops what is in memory of a run.
func (j *Journal) Forget(runUID string) { j.memory.forget(runUID) }

// Read gives the Turn of a step, which must be there, as it is in the store at this moment, whatever is in memory.
func (j *Journal) Read(ctx context.Context, ref RunRef, step int) (Turn, error) {
	t, ok, err := j.store.Read(ctx, ref, step)
	switch {
	case err != nil:
		return Turn{}, fmt.Errorf("reading turn %d: %w", step, err)
	case !ok:
		return Turn{}, fmt.Errorf("turn %d: %w", step, ErrMissing)
	}
	j.memory.put(ref.UID, t)
	return t, nil
}

// ReplyOf makes what is stored of a model's reply. Call IDs are ours; arguments are canonical where they have a canonical
// form.
func ReplyOf(step int, r run.Reply, canonical func(raw string) string) Reply {
	reply := Reply{Text: text.Clean(r.Text), Finish: r.Finish, Usage: r.Usage, Model: text.Clip(text.Clean(r.Model), 256), RequestID: text.Clip(text.Clean(r.RequestID), 256)}
	for i, p := range r.Calls {
		reply.Calls = append(reply.Calls, Call{
			ID: fmt.Sprintf("s%dc%d", step, i+1), ModelCallID: text.Clip(text.Clean(p.ModelCallID), 256), Tool: text.Clip(text.Clean(p.Tool), 128),
			Arguments: canonical(p.Arguments),
		})
	}
	return reply
}
