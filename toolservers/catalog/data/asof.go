// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package data

import "time"

// A Date is a day as YYYY-MM-DD. Dates of that form are ordered as strings are.
type Date string

// ParseDate accepts a day that exists.
func ParseDate(text string) (Date, error) {
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return "", err
	}
	return Date(text), nil
}

// A Status is how widely a feature works, by the definition of Baseline.
type Status string

// The statuses.
const (
	// Limited: not in all the browsers that Baseline looks at.
	Limited Status = "limited"
	// Newly: in the newest version of all of them.
	Newly Status = "newly"
	// Widely: that has been so for thirty months.
	Widely Status = "widely"
)

// Baseline is a feature's Baseline status, with the days on which it was reached.
type Baseline struct {
	Status Status `json:"status"`
	// Low is the first day of Newly, High the first of Widely. Empty: not reached.
	Low  Date `json:"low"`
	High Date `json:"high"`
	// OrEarlier: the days are upper bounds, and the status may have been reached before them.
	OrEarlier bool `json:"orEarlier"`
}

// At is the status on day, which counts as a whole: on the very day that a status is reached, it holds. Days after day are
// left out, so that the answer could have been given then.
func (b Baseline) At(day Date) Baseline {
	then := Baseline{Status: Limited, OrEarlier: b.OrEarlier}
	if b.Low != "" && b.Low <= day {
		then.Status, then.Low = Newly, b.Low
	}
	if b.High != "" && b.High <= day {
		then.Status, then.High = Widely, b.High
	}
	return then
}

// Support is the browser version that brought a feature: the newest introduction, if the browser had dropped it between.
type Support struct {
	Browser  string `json:"browser"`
	Version  string `json:"version"`
	Released Date   `json:"released"`
	// OrEarlier: the version is an upper bound.
	OrEarlier bool `json:"orEarlier"`
}

// SupportAt lists the browsers that had released the feature by the end of day.
func (f *Feature) SupportAt(day Date) []Support {
	then := make([]Support, 0, len(f.Support))
	for _, s := range f.Support {
		if s.Released <= day {
			then = append(then, s)
		}
	}
	return then
}
