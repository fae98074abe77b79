// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Details below Budget, beside DetailToolCalls.
const (
	DetailInputTokens  = "InputTokens"
	DetailOutputTokens = "OutputTokens"
	DetailCost         = "Cost"
)

// A Money is an amount in billionths of the unit that prices are in.
type Money int64

// String gives the amount in the unit itself, such as 0.25.
func (m Money) String() string {
	const unit = 1_000_000_000
	text := fmt.Sprintf("%d.%09d", m/unit, m%unit)
	for text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	if text[len(text)-1] == '.' {
		text = text[:len(text)-1]
	}
	return text
}

// A Price is what a million tokens cost, by their kind. The zero Price is that of a model without one.
type Price struct {
	Input, CachedInput, Output, Reasoning Money
}

// Terms are what the model's binding says of a request. The shell looks them up for each pass; they are not recorded.
type Terms struct {
	// MaxOutput is how many tokens one reply may have.
	MaxOutput int64
	// Price is what they cost; nil if nobody has said.
	Price *Price
}

// A Reservation is the most that a request in flight can use. It is in the state before the request is sent, and is charged
// whole unless the provider says what was really used.
type Reservation struct {
	Input, Output int64
	Cost          Money
	// Price is that of the moment, so that a later one does not count for this request.
	Price Price
}

// leastOutput is the shortest reply worth asking for.
const leastOutput = 16

// reserve gives what the next request may use, or the end if too little is left. The reply may be as long as what is left
// allows.
func (s State) reserve() (Reservation, *Termination) {
	terms := s.offer().Terms
	r := Reservation{Input: s.asksFor(), Output: min(terms.MaxOutput, s.Limits.OutputTokens-s.Usage.Tokens.Output)}
	least := min(leastOutput, max(terms.MaxOutput, 1))
	if terms.Price != nil {
		r.Price = *terms.Price
	}
	switch {
	case r.Input > s.Limits.InputTokens-s.Usage.Tokens.Input:
		return r, new(s.spent(DetailInputTokens, fmt.Sprintf("%d of %d input tokens are used, and the next request may need %d",
			s.Usage.Tokens.Input, s.Limits.InputTokens, r.Input)))
	case r.Output < least && terms.MaxOutput > 0:
		return r, new(s.spent(DetailOutputTokens, fmt.Sprintf("%d of %d output tokens are used", s.Usage.Tokens.Output, s.Limits.OutputTokens)))
	case s.Limits.Cost == 0:
	case terms.Price == nil && terms.MaxOutput > 0:
		return r, new(s.spent(DetailCost, "the run has a limit of cost, and its model has no price any more"))
	default:
		left := s.Limits.Cost - s.Usage.Cost - r.Price.of(TokenUsage{Input: r.Input})
		r.Output = min(r.Output, affordable(left, max(r.Price.Output, r.Price.Reasoning)))
		if left < 0 || (r.Output < least && terms.MaxOutput > 0) {
			return r, new(s.spent(DetailCost, fmt.Sprintf("%s of %s is spent, and the next request may cost more than the rest", s.Usage.Cost, s.Limits.Cost)))
		}
	}
	r.Cost = r.Price.of(TokenUsage{Input: r.Input, Output: r.Output})
	return r, nil
}

func (s State) spent(detail, what string) Termination {
	return Termination{Reason: ReasonBudget, Detail: detail, Message: "The budget does not hold another request to the model: " + what + "."}
}

// of gives what tokens cost, rounded up once. What is not known to be cheap counts as dear: without a report, output may have
// been reasoning.
func (p Price) of(t TokenUsage) Money {
	var sum product
	if t.Reported {
		sum.add(t.Input-t.CachedInput, p.Input)
		sum.add(t.CachedInput, p.CachedInput)
		sum.add(t.Output-t.Reasoning, p.Output)
		sum.add(t.Reasoning, p.Reasoning)
	} else {
		sum.add(t.Input, p.Input)
		sum.add(t.Output, max(p.Output, p.Reasoning))
	}
	return sum.perMillion()
}

const million = 1_000_000

// mostMoney is where costs stop to grow: the highest that a limit can be.
const mostMoney Money = 999_999_999_999_999_999

// A product is a sum of tokens times prices per million of them, in 128 bits.
type product struct{ high, low uint64 }

func (p *product) add(tokens int64, price Money) {
	high, low := bits.Mul64(uint64(max(tokens, 0)), uint64(max(price, 0)))
	var carry uint64
	p.low, carry = bits.Add64(p.low, low, 0)
	p.high, _ = bits.Add64(p.high, high, carry)
}

// perMillion rounds up: never do parts of a billionth add up to what was not counted.
func (p product) perMillion() Money {
	low, carry := bits.Add64(p.low, million-1, 0)
	high := p.high + carry
	if high >= million {
		return mostMoney
	}
	cost, _ := bits.Div64(high, low, million)
	return Money(min(cost, uint64(mostMoney)))
}

// affordable gives how many tokens an amount pays for.
func affordable(amount, perMillion Money) int64 {
	switch {
	case amount <= 0 && perMillion > 0:
		return 0
	case perMillion <= 0:
		return math.MaxInt64
	}
	high, low := bits.Mul64(uint64(max(amount, 0)), million)
	if high >= uint64(perMillion) {
		return math.MaxInt64
	}
	tokens, _ := bits.Div64(high, low, uint64(perMillion))
	return int64(min(tokens, math.MaxInt64))
}

// settle charges what a request used: what the provider says or, if it does not say, all that was reserved.
func (s *State) settle(t TokenUsage) {
	r := s.Model.Reserved
	if t.Reported {
		t = t.plausible()
	} else {
		t = TokenUsage{Input: r.Input, Output: r.Output}
		s.Usage.Unreported++
	}
	s.Usage.Tokens.Input += t.Input
	s.Usage.Tokens.CachedInput += t.CachedInput
	s.Usage.Tokens.Output += t.Output
	s.Usage.Tokens.Reasoning += t.Reasoning
	s.Usage.Cost = min(s.Usage.Cost+r.Price.of(t), mostMoney)
	s.Model.Reserved = Reservation{}
}

// plausible holds numbers of a provider's within what they can mean.
func (t TokenUsage) plausible() TokenUsage {
	const most = 1 << 40
	t.Input, t.Output = min(max(t.Input, 0), most), min(max(t.Output, 0), most)
	t.CachedInput, t.Reasoning = min(max(t.CachedInput, 0), t.Input), min(max(t.Reasoning, 0), t.Output)
	return t
}

// undercounted takes note that a request, which was not sent, would have passed its reservation, and reserves anew.
func (s State) undercounted(e Undercounted) (State, []Effect) {
	if !s.asking(e.Step, e.Attempt) {
		return s, nil
	}
	s.Model.Reserved = Reservation{}
	if s.Choosing() {
		s.Route.Question = max(s.Route.Question, e.Input)
	} else {
		s.Context = max(s.Context, e.Input)
	}
	return s.askAgain(e.At)
}

// ask puts the intent to call the model into the state, with what the request may use; or ends the run if that is too much.
func (s State) ask(at time.Time, m ModelCall) (State, []Effect) {
	if s.reroute() {
		m.Failures = 0
	}
	m.NotBefore, m.Held, s.Phase = time.Time{}, s.modelHold() != "", Thinking
	if s.Holds.Run != "" {
		s.Phase = Suspended
	}
	if m.Held {
		s.Model = &m
		return s, nil
	}
	reserved, spent := s.reserve()
	if spent != nil {
		return s.end(at, *spent)
	}
	m.Reserved = reserved
	s.Model = &m
	s.Usage.ModelCalls++
	return s, []Effect{CallModel{Step: s.Step, Attempt: m.Attempt, Model: s.Asks(), Choose: s.Choosing(), Input: reserved.Input, MaxOutput: reserved.Output}}
}
