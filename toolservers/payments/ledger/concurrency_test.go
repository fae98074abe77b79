// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/payments/database"
)

func TestCommit_ofOneKeyAtOnceIsDoneOnce(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			op := refundOf("op-1", "pay_1001", 1250)
			p := d.preview(t, op)
			var answered atomic.Int64
			var first atomic.Pointer[tool.Result]
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					result, err := d.commit(t, op, p)
					if code(err) == tool.OperationInProgress {
						return
					}
					if err != nil {
						t.Errorf("a commit: %v", err)
						return
					}
					answered.Add(1)
					if !first.CompareAndSwap(nil, result) && !cmp.Equal(first.Load(), result) {
						t.Errorf("two answers: %+v, %+v", first.Load(), result)
					}
				})
			}
			all.Wait()
			if answered.Load() == 0 {
				t.Error("nobody was answered")
			}
			d.wantBooks(t, 1, 1250)
		})
	}
}

// Two who use one key at the same moment for different payments: one of them has it.
func TestCommit_ofOneKeyByTwoIsOnes(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			for i := range int64(20) {
				ann := refundOf(fmt.Sprintf("op-%d", i), "pay_1001", 1)
				bob := refundOf(ann.ID, "pay_1002", 1)
				bob.Principal = "bob"
				previews := []*tool.Preview{d.preview(t, ann), d.preview(t, bob)}
				var codes [2]tool.Code
				var both sync.WaitGroup
				for j, op := range []tool.Operation{ann, bob} {
					both.Go(func() {
						_, err := d.commit(t, op, previews[j])
						codes[j] = code(err)
					})
				}
				both.Wait()
				slices.Sort(codes[:])
				if codes != [2]tool.Code{"", tool.IdempotencyKeyReused} {
					t.Errorf("they got %q", codes)
				}
				d.wantBooks(t, i+1, i+1)
			}
		})
	}
}

func TestCommit_sideBySideNeverPassesThePayment(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			var sum, count atomic.Int64
			var all sync.WaitGroup
			running := make(chan struct{}, tool.MaxRunning/2)
			for i := range 100 {
				all.Go(func() {
					running <- struct{}{}
					defer func() { <-running }()
					minor := 1 + rand.Int64N(400)
					op := refundOf(fmt.Sprintf("op-%d", i), "pay_1001", minor)
					for {
						p, err := d.Preview(t.Context(), RefundTool, op)
						if err == nil {
							_, err = d.commit(t, op, p)
						}
						if code(err) == tool.ResourceChanged {
							continue // somebody was faster
						}
						if err == nil {
							sum.Add(minor)
							count.Add(1)
						} else if err.Code != RefundExceedsPayment {
							t.Errorf("%s: %v", op.ID, err)
						}
						return
					}
				})
			}
			all.Wait()
			if sum.Load() > 4000 || sum.Load() < 3600 {
				t.Errorf("%d of 4000 were refunded", sum.Load())
			}
			d.wantBooks(t, count.Load(), sum.Load())
		})
	}
}

// However refunds come, and come again, the ledger ends as a sum on paper does.
func TestCommit_countsLikeASumOnPaper(t *testing.T) {
	for kind, open := range desks() {
		t.Run(kind, func(t *testing.T) {
			d := open(t)
			round := 0
			rapid.Check(t, func(rt *rapid.T) {
				round++
				id := fmt.Sprintf("pay_r%d", round)
				paid := rapid.Int64Range(1, 1000).Draw(rt, "paid")
				err := d.db.Write(t.Context(), func(tx *database.Tx) error {
					_, err := tx.Exec(t.Context(), `INSERT INTO payments (id, customer, description, amount_minor, currency, paid_at)
					VALUES ($1, 'c', 'd', $2, 'EUR', '2026-01-01T00:00:00Z')`, id, paid)
					return err
				})
				if err != nil {
					rt.Fatal(err)
				}
				done := map[string]int64{}
				var refunded int64
				for range rapid.IntRange(1, 8).Draw(rt, "calls") {
					key := fmt.Sprintf("%s-%d", id, rapid.IntRange(1, 4).Draw(rt, "key"))
					minor := rapid.Int64Range(1, 600).Draw(rt, "amount")
					first, isDone := done[key]
					want := tool.Code("")
					switch {
					case isDone && first != minor:
						want = tool.IdempotencyKeyReused
					case minor > paid-refunded:
						want = RefundExceedsPayment
					}
					op := refundOf(key, id, minor)
					p, failure := d.Preview(t.Context(), RefundTool, op)
					if failure == nil {
						_, failure = d.commit(t, op, p)
					}
					if code(failure) != want {
						rt.Fatalf("%d of %d (%d refunded): %v, want %q", minor, paid, refunded, failure, want)
					}
					if want == "" && !isDone {
						done[key] = minor
						refunded += minor
					}
				}
				p, err := findPayment(t.Context(), d.db, id)
				if err != nil || p.RefundedMinor != refunded || p.version != int64(len(done))+1 {
					rt.Fatalf("%+v (%v), want %d in %d refunds", p, err, refunded, len(done))
				}
			})
		})
	}
}
