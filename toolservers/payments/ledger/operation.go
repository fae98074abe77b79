// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/payments/database"
)

// claim is what only one transaction at a time may hold. IDs have no spaces, so no two pairs share one; that the principal
// is in it keeps from others that somebody is using an ID.
func claim(id, principal string) string { return id + " " + principal }

// Operation tells what became of one. It takes the same claim as a commit, so "unknown" is never said of an operation that
// is about to be written.
func (l *Ledger) Operation(ctx context.Context, id, principal string) (state tool.OperationState, err error) {
	err = l.db.WriteAlone(ctx, claim(id, principal), func(tx *database.Tx) error {
		first, answer, err := readOperation(ctx, tx, id)
		if err != nil {
			return err
		}
		if answer == nil || first.Principal != principal {
			return tool.Errorf(tool.UnknownOperation, "nothing was done under this ID")
		}
		state = tool.OperationState{State: tool.Succeeded, Result: answer}
		return nil
	})
	if errors.Is(err, database.ErrTaken) {
		return tool.OperationState{State: tool.InProgress}, nil
	}
	return state, asRefusal(err)
}

// findOperation gives the stored answer, or nil if the ID is new. It fails if the ID was used for another call.
func findOperation(ctx context.Context, tx *database.Tx, i tool.Identity) (*tool.Result, error) {
	first, answer, err := readOperation(ctx, tx, i.ID)
	if err != nil || answer == nil {
		return nil, err
	}
	if err := i.Repeats(first); err != nil {
		return nil, err
	}
	return answer, nil
}

// readOperation gives no answer if there is no such operation.
func readOperation(ctx context.Context, tx *database.Tx, id string) (first tool.Identity, answer *tool.Result, err error) {
	first.ID = id
	var body []byte
	err = tx.QueryRow(ctx, `SELECT principal, tool, arguments_digest, answer FROM operations WHERE id = $1`, id).
		Scan(&first.Principal, &first.Tool, &first.ArgumentsDigest, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return first, nil, nil
	}
	if err != nil {
		return first, nil, fmt.Errorf("reading an operation: %w", err)
	}
	answer = &tool.Result{}
	if err := json.Unmarshal(body, answer); err != nil {
		return first, nil, fmt.Errorf("decoding an answer: %w", err)
	}
	return first, answer, nil
}

// keepOperation fails if somebody else has used the ID since it was looked for.
func keepOperation(ctx context.Context, tx *database.Tx, i tool.Identity, answer string, at time.Time) error {
	added, err := tx.Exec(ctx, `INSERT INTO operations (id, principal, tool, arguments_digest, state, answer, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING`,
		i.ID, i.Principal, i.Tool, i.ArgumentsDigest, string(tool.Succeeded), answer, text(at))
	if err != nil {
		return fmt.Errorf("storing an operation: %w", err)
	}
	if added == 0 {
		return i.Repeats(tool.Identity{})
	}
	return nil
}
