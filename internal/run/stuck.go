// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"hash/fnv"
	"slices"
)

// DetailStuck below ModelFailed says that the model made the same call with the same result too often.
const DetailStuck = "Stuck"

// maxRepeats is how many different calls are remembered with their results. A model that goes round in a wider circle is stopped by
// its limits only.
const maxRepeats = 32

// A Repeat counts how often one call had one result.
type Repeat struct {
	// Key stands for the tool, the arguments and the result.
	Key   string
	Count int
}

// repeats counts a call with its result, and gives the end of the run if that was once too often. No count ever goes down; when
// there is no room, the call that was made least, and of those the oldest, is forgotten.
func (s *State) repeats(c Call, result string) *Termination {
	hash := fnv.New64a()
	for _, part := range []string{c.Tool, c.ArgumentsDigest, result} {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	key := fmt.Sprintf("%016x", hash.Sum64())
	i := slices.IndexFunc(s.Repeats, func(r Repeat) bool { return r.Key == key })
	if i < 0 {
		if len(s.Repeats) >= maxRepeats {
			s.Repeats = slices.Delete(s.Repeats, s.leastRepeated(), s.leastRepeated()+1)
		}
		s.Repeats = append(s.Repeats, Repeat{Key: key})
		i = len(s.Repeats) - 1
	}
	s.Repeats[i].Count++
	if s.Ending != nil || s.Repeats[i].Count < s.Limits.MaxRepeats {
		return nil
	}
	return &Termination{
		Reason: ReasonModelFailed, Detail: DetailStuck, CallID: c.ID,
		Message: fmt.Sprintf("The model called %s with the same arguments and the same result %d times; the run allows fewer.", c.Tool, s.Repeats[i].Count),
	}
}

func (s *State) leastRepeated() int {
	least := 0
	for i, r := range s.Repeats {
		if r.Count < s.Repeats[least].Count {
			least = i
		}
	}
	return least
}
