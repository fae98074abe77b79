// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/interlock-dev/interlock/internal/quota"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func TestPeriod_windowsAreThoseOfTheCalendarInUTC(t *testing.T) {
	for name, tc := range map[string]struct {
		period              quota.Period
		at, start, wantsEnd string
	}{
		"within an hour":                {quota.Hour, "2026-03-29T01:59:59Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		"an hour begins on the hour":    {quota.Hour, "2026-03-29T02:00:00Z", "2026-03-29T02:00:00Z", "2026-03-29T03:00:00Z"},
		"an hour of half-hour zones":    {quota.Hour, "2026-03-29T07:15:00+05:30", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		"a day, seen from another zone": {quota.Day, "2026-03-01T01:00:00+02:00", "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"},
		"a day begins at midnight":      {quota.Day, "2026-12-31T00:00:00Z", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			start, end := tc.period.Window(at(t, tc.at))
			if !start.Equal(at(t, tc.start)) || !end.Equal(at(t, tc.wantsEnd)) {
				t.Errorf("the window is from %s to %s, want %s to %s", start, end, tc.start, tc.wantsEnd)
			}
		})
	}
}

// A world has the recorded Mark, and processes that share it.
type world struct {
	limit     quota.Limit
	recorded  quota.Mark
	processes []*quota.Account
	writes    map[time.Time]int
	// used is what was taken and not given back, by window.
	used map[time.Time]int64
}

// take goes on until amount is taken, or does not fit.
func (w *world) take(p *quota.Account, now time.Time, amount int64) (quota.Receipt, bool) {
	for {
		if r, ok := p.Take(w.limit, now, amount); ok {
			w.used[r.Start] += r.Amount
			return r, true
		}
		next, ok := p.Ask(w.limit, now, amount, w.recorded)
		if !ok {
			return quota.Receipt{}, false
		}
		w.recorded = next
		w.writes[next.Start]++
		p.Granted(next)
	}
}

// TestAccount_neverTakesMoreThanTheLimit: whatever processes share a Mark, die, and see the time go forth and back.
func TestAccount_neverTakesMoreThanTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			limit: quota.Limit{
				Units:  rapid.OneOf(rapid.Int64Range(0, 100), rapid.Just(quota.MaxUnits)).Draw(t, "limit"),
				Period: rapid.SampledFrom([]quota.Period{quota.Hour, quota.Day}).Draw(t, "period"),
			},
			processes: []*quota.Account{{}, {}}, writes: map[time.Time]int{}, used: map[time.Time]int64{},
		}
		now := time.Date(2026, 12, 31, 22, 0, 0, 0, time.UTC)
		lost := map[time.Time]int{}
		type taken struct {
			by      *quota.Account
			receipt quota.Receipt
		}
		var receipts []taken
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if w.recorded.Granted > w.limit.Units {
					t.Fatalf("%d of %d are granted", w.recorded.Granted, w.limit.Units)
				}
				for start, used := range w.used {
					if used > w.limit.Units || used < 0 {
						t.Fatalf("%d of %d are used in the window of %s", used, w.limit.Units, start)
					}
					// Each process that is not at fault leaves one chunk behind.
					if n := w.writes[start]; n > 22+lost[start] {
						t.Fatalf("%d writes in the window of %s, with %d chunks lost", n, start, lost[start])
					}
				}
			},
			"take": func(t *rapid.T) {
				p := rapid.SampledFrom(w.processes).Draw(t, "process")
				amount := rapid.OneOf(rapid.Int64Range(0, 12), rapid.Int64Range(0, w.limit.Units)).Draw(t, "amount")
				if r, ok := w.take(p, now, amount); ok {
					receipts = append(receipts, taken{p, r})
				}
			},
			"settle": func(t *rapid.T) {
				if len(receipts) == 0 {
					t.Skip()
				}
				r := receipts[len(receipts)-1]
				receipts = receipts[:len(receipts)-1]
				used := rapid.Int64Range(0, r.receipt.Amount).Draw(t, "used")
				r.by.Settle(r.receipt, used)
				w.used[r.receipt.Start] -= r.receipt.Amount - used
			},
			"a write is lost": func(t *rapid.T) {
				p := rapid.SampledFrom(w.processes).Draw(t, "process")
				if next, ok := p.Ask(w.limit, now, rapid.Int64Range(0, 12).Draw(t, "amount"), w.recorded); ok {
					w.recorded = next
					lost[next.Start]++
					w.writes[next.Start]++
				}
			},
			"die": func(t *rapid.T) {
				i := rapid.IntRange(0, len(w.processes)-1).Draw(t, "process")
				w.processes[i] = &quota.Account{}
				lost[w.recorded.Start]++
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(-90, 180).Draw(t, "minutes")) * time.Minute)
			},
		})
	})
}

// TestAccount_isExactForOneProcess: what is refused really does not fit, and what fits is not refused.
func TestAccount_isExactForOneProcess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			limit:  quota.Limit{Units: rapid.Int64Range(1, 1000).Draw(t, "limit"), Period: quota.Day},
			writes: map[time.Time]int{}, used: map[time.Time]int64{},
		}
		p, now := &quota.Account{}, time.Date(2026, 12, 31, 22, 0, 0, 0, time.UTC)
		start, _ := quota.Day.Window(now)
		for range 200 {
			amount := rapid.Int64Range(0, 40).Draw(t, "amount")
			fits := amount <= w.limit.Units-w.used[start]
			r, ok := w.take(p, now, amount)
			if ok != fits {
				t.Fatalf("%d is taken: %t, with %d of %d used", amount, ok, w.used[start], w.limit.Units)
			}
			if ok && rapid.IntRange(0, 9).Draw(t, "refused") == 0 {
				p.Settle(r, 0)
				w.used[start] -= r.Amount
			}
			if left := p.Left(w.limit); left != w.limit.Units-w.used[start] {
				t.Fatalf("%d are left, with %d of %d used", left, w.used[start], w.limit.Units)
			}
		}
		if w.writes[start] > 21 {
			t.Fatalf("%d writes in one window", w.writes[start])
		}
	})
}

func TestAccount_moreUsedThanTakenLeavesLessForOthers(t *testing.T) {
	limit, now := quota.Limit{Units: 100, Period: quota.Hour}, at(t, "2026-12-31T22:30:00Z")
	w := &world{limit: limit, writes: map[time.Time]int{}, used: map[time.Time]int64{}}
	p := &quota.Account{}
	r, _ := w.take(p, now, 10)
	p.Settle(r, 95)
	if _, ok := w.take(p, now, 6); ok {
		t.Error("101 of 100 are used")
	}
	if _, ok := w.take(p, now, 5); !ok || p.Left(limit) != 0 {
		t.Errorf("5 of the last 5 are taken: %t, and %d are left", ok, p.Left(limit))
	}
	if want := at(t, "2026-12-31T23:00:00Z"); !p.Opens(limit).Equal(want) {
		t.Errorf("the next window opens at %s, want %s", p.Opens(limit), want)
	}
	if _, ok := w.take(p, at(t, "2026-12-31T23:00:00Z"), 100); !ok {
		t.Error("the next window is not open")
	}
	p.Settle(r, 0)
	if p.Left(limit) != 0 {
		t.Error("what was taken in an older window comes back in this one")
	}
}
