// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outbox tells the world about refunds: it posts the messages that were stored with them, in their order, until each
// was taken.
//
// A message is delivered at least once. It may come again, after a crash or from another replica, and then has the same ID.
// One that nobody takes holds up those behind it. The main type is Sender.
package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/interlock-dev/interlock/toolservers/payments/database"
)

const (
	// pause is how long nobody looks for messages.
	pause = 500 * time.Millisecond
	// batch bounds how many are read at a time.
	batch = 50
	// postTimeout bounds one delivery.
	postTimeout = 10 * time.Second
	// maxReply is how much of a reply is read, so that the connection can be used again.
	maxReply = 64 << 10
)

// HeaderID names the message, for those who want to know without reading it whether it came before.
const HeaderID = "Idempotency-Key"

// A Sender delivers the messages of a database.
type Sender struct {
	db  *database.DB
	url string
	// twice says whether the next message is to be sent once more, which receivers have to be ready for.
	twice  func() bool
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
}

// New makes a Sender that posts to the URL.
func New(db *database.DB, url string, twice func() bool, now func() time.Time, log *slog.Logger) *Sender {
	client := &http.Client{
		Timeout: postTimeout,
		// A redirect is not followed, and so is no delivery: messages go where they are meant to and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Sender{db, url, twice, client, now, log}
}

// Run delivers until ctx is done.
func (s *Sender) Run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := s.deliver(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "delivering failed, and is tried again", "error", err)
		}
	}, pause)
}

// deliver sends what is pending, and ends at the first message that is not taken.
func (s *Sender) deliver(ctx context.Context) error {
	for {
		messages, err := s.pending(ctx)
		if err != nil {
			return fmt.Errorf("reading the outbox: %w", err)
		}
		for _, m := range messages {
			if err := s.send(ctx, m); err != nil {
				return fmt.Errorf("message %s: %w", m.id, err)
			}
		}
		if len(messages) < batch {
			return nil
		}
	}
}

type message struct{ id, body string }

func (s *Sender) pending(ctx context.Context) ([]message, error) {
	rows, err := s.db.Query(ctx, `SELECT id, body FROM outbox WHERE delivered_at IS NULL ORDER BY seq LIMIT $1`, batch)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []message
	for rows.Next() {
		var m message
		if err := rows.Scan(&m.id, &m.body); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

// send marks the message after it was taken: whoever dies in between sends it again.
func (s *Sender) send(ctx context.Context, m message) error {
	times := 1
	if s.twice() {
		times = 2
	}
	for range times {
		if err := s.post(ctx, m); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx *database.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE outbox SET delivered_at = $1 WHERE id = $2`, s.now().UTC().Format(time.RFC3339), m.id)
		return err
	})
}

func (s *Sender) post(ctx context.Context, m message) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader([]byte(m.body)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(HeaderID, m.id)
	reply, err := s.client.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(reply.Body, maxReply))
	if reply.StatusCode < 200 || reply.StatusCode > 299 {
		err = fmt.Errorf("the receiver says %s", reply.Status)
	}
	return errors.Join(err, reply.Body.Close())
}
