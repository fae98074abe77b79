// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota keeps account of what is used up within a calendar window, so that no more than a limit is, whatever crashes.
//
// It is pure: the owner of an Account reads and writes the Mark, which is all that outlives a process, and serialises what it
// does with one Account. What is used is granted first, in chunks of a twentieth of the limit:
//
//	receipt, ok := account.Take(limit, now, amount)     // from what this process was granted: no write
//	if !ok {
//		next, fits := account.Ask(limit, now, amount, recorded)
//		// fits: write next in place of recorded, under the optimistic lock; if that succeeded,
//		account.Granted(next)                            // and Take again, which now succeeds
//	}
//	account.Settle(receipt, used)                        // what was taken and not used can be taken again
//
// A process that dies loses what it had been granted and not used: a chunk at most, until the window ends. Two processes that
// share a Mark never take more than the limit between them. A window has 20 writes at most, and one for each chunk that was lost.
package quota

import "time"

// MaxUnits is the highest that a limit or an amount may be.
const MaxUnits int64 = 1<<62 - 1

// A Period is how long a window is.
type Period string

// The periods. A window begins on the hour, or at midnight, in UTC.
const (
	Hour Period = "Hour"
	Day  Period = "Day"
)

// Window gives the window that at is in: from start, until just before end. What is no Period counts as Day.
func (p Period) Window(at time.Time) (start, end time.Time) {
	at = at.UTC()
	if p == Hour {
		start = at.Truncate(time.Hour)
		return start, start.Add(time.Hour)
	}
	start = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	return start, start.AddDate(0, 0, 1)
}

// A Limit is how much may be used up in each window, in whole units of whatever the owner counts.
type Limit struct {
	Units  int64
	Period Period
}

// chunk is the least that is granted at once, if so much is left.
func (l Limit) chunk() int64 { return max(l.Units/20, 1) }

// A Mark is what has to outlive the process: how much has been granted, to all processes, in the window that began at Start.
// The zero Mark says that nothing was granted yet.
type Mark struct {
	Start   time.Time
	Granted int64
}

// A Receipt is for what was taken: how much, and in which window.
type Receipt struct {
	Start  time.Time
	Amount int64
}

// An Account is one process's part in a quota. The zero Account was granted nothing. It is not safe for concurrent use.
type Account struct {
	// mark is the newest known. Of what it says was granted, free is ours and not used; below zero, more was used than taken.
	mark Mark
	free int64
}

// Take uses amount, from 0 to MaxUnits, out of what this process was granted. If that is too little, nothing is taken, and
// more has to be asked for.
func (a *Account) Take(l Limit, now time.Time, amount int64) (Receipt, bool) {
	a.see(l, now, Mark{})
	if amount > a.free || amount > a.Left(l) {
		return Receipt{}, false
	}
	a.free -= amount
	return Receipt{Start: a.mark.Start, Amount: amount}, true
}

// Ask gives the Mark to record in place of recorded, so that amount can be taken; false if the window does not hold so much
// any more. What was recorded for a later window than now's holds: a clock that goes back opens no window twice.
func (a *Account) Ask(l Limit, now time.Time, amount int64, recorded Mark) (Mark, bool) {
	a.see(l, now, recorded)
	if amount > a.Left(l) {
		return Mark{}, false
	}
	more := max(amount-a.free, min(l.chunk(), l.Units-a.mark.Granted), 0)
	return Mark{Start: a.mark.Start, Granted: a.mark.Granted + more}, true
}

// Granted takes note that next, which Ask gave, has been recorded.
func (a *Account) Granted(next Mark) {
	if next.Start.Equal(a.mark.Start) {
		a.free += max(next.Granted-a.mark.Granted, 0)
		a.mark.Granted = max(next.Granted, a.mark.Granted)
	}
}

// Settle replaces what was taken by what was used: zero if nothing was. It counts only within the window in which it was taken.
func (a *Account) Settle(r Receipt, used int64) {
	if !r.Start.Equal(a.mark.Start) {
		return
	}
	// More used than taken can't be undone: it leaves less for others.
	a.free = max(a.free+r.Amount-min(max(used, 0), MaxUnits), -MaxUnits)
}

// Left is how much can be taken and asked for in the window that the account saw last. What other processes were granted counts
// as used.
func (a *Account) Left(l Limit) int64 {
	return max(l.Units-(a.mark.Granted-a.free), 0)
}

// Opens is when the window that the account saw last ends, and the next one opens.
func (a *Account) Opens(l Limit) time.Time {
	_, end := l.Period.Window(a.mark.Start)
	return end
}

// see brings the account up to the newest window, and to what was granted in it.
func (a *Account) see(l Limit, now time.Time, recorded Mark) {
	start, _ := l.Period.Window(now)
	newest := Mark{Start: start}
	if !recorded.Start.Before(start) {
		newest = recorded
	}
	switch {
	case newest.Start.After(a.mark.Start):
		a.mark, a.free = newest, 0
	case newest.Start.Equal(a.mark.Start):
		a.mark.Granted = max(a.mark.Granted, newest.Granted)
	}
}
