// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/run"
)

// moneyOf reads an amount. The API takes none that can't be read; left out, it is 0.
func moneyOf[T v1alpha1.Amount | v1alpha1.UnitPrice](a T) run.Money {
	q, err := resource.ParseQuantity(string(a))
	if err != nil {
		return 0
	}
	return run.Money(q.ScaledValue(resource.Nano))
}

// amountOf writes an amount; nothing for 0.
func amountOf(m run.Money) v1alpha1.Amount {
	if m == 0 {
		return ""
	}
	return v1alpha1.Amount(m.String())
}

// priceOf reads what a million tokens cost. Nil: nobody has said.
func priceOf(p *v1alpha1.ModelPrice) *run.Price {
	if p == nil {
		return nil
	}
	price := &run.Price{Input: moneyOf(p.Input), CachedInput: moneyOf(p.Input), Output: moneyOf(p.Output), Reasoning: moneyOf(p.Output)}
	if p.CachedInput != "" {
		price.CachedInput = moneyOf(p.CachedInput)
	}
	if p.Reasoning != "" {
		price.Reasoning = moneyOf(p.Reasoning)
	}
	return price
}

func priceStatus(p run.Price) *v1alpha1.ModelPrice {
	if p == (run.Price{}) {
		return nil
	}
	amount := func(m run.Money) v1alpha1.UnitPrice { return v1alpha1.UnitPrice(m.String()) }
	return &v1alpha1.ModelPrice{
		Input: amount(p.Input), CachedInput: amount(p.CachedInput), Output: amount(p.Output), Reasoning: amount(p.Reasoning),
	}
}

func reservationFrom(r *v1alpha1.Reservation) run.Reservation {
	if r == nil {
		return run.Reservation{}
	}
	out := run.Reservation{Input: value(r.InputTokens), Output: value(r.OutputTokens), Cost: moneyOf(r.Cost)}
	if p := priceOf(r.Price); p != nil {
		out.Price = *p
	}
	return out
}

func reservationStatus(r run.Reservation) *v1alpha1.Reservation {
	if r == (run.Reservation{}) {
		return nil
	}
	return &v1alpha1.Reservation{InputTokens: &r.Input, OutputTokens: &r.Output, Cost: amountOf(r.Cost), Price: priceStatus(r.Price)}
}

// termsOf gives what a model's binding says of a request.
func termsOf(b *v1alpha1.ModelBinding) run.Terms {
	return run.Terms{MaxOutput: int64(b.Spec.MaxOutputTokens), Price: priceOf(b.Spec.Price)}
}
