// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Details below PolicyDenied of a run that its router ends.
const (
	// DetailRouteRefused: the chooser says that no model shall be put to the task.
	DetailRouteRefused = "RouteRefused"
	// DetailHandedOver: the chooser says that the task is one for a person.
	DetailHandedOver = "HandedOver"
)

// A Router says how the model of a run is found: rules cut the candidates, and a model chooses among those that are left. The
// shell looks it up for each pass, so that what the rules say now is what counts; it is not recorded.
type Router struct {
	// Chooser is asked at the first step; nil: the first candidate that can be asked is taken.
	Chooser *Offer
	// Candidates stand in order of preference. The first that can be asked is taken when the chooser is no help.
	Candidates []Offer
}

// An Offer is a model that a run may ask. Unfit says why it can't be asked now, in words; empty if it can.
type Offer struct {
	Model string
	Terms Terms
	Unfit string
}

// A RouteReason is why a run is at the model that it is at.
type RouteReason string

// The reasons.
const (
	// RoutePreferred: it is the first candidate that can be asked.
	RoutePreferred RouteReason = "Preferred"
	// RouteChosen: the chooser has chosen it.
	RouteChosen RouteReason = "Chosen"
	// RouteDefault: it is the first that can be asked, since the chooser was no help.
	RouteDefault RouteReason = "Default"
	// RouteFallback: the one before could not be asked any more.
	RouteFallback RouteReason = "Fallback"
)

// A Route is which model a run asks, and why.
type Route struct {
	// Model is empty while the chooser is asked, and if it chose none.
	Model  string
	Reason RouteReason
	// Message says why, in our words. Words are the chooser's own, for people.
	Message, Words string
	// Step is since when.
	Step int
	// Question is the most tokens that the request to the chooser can have; zero once it was answered, or will not be.
	Question int64
	// Excluded are the candidates that could not be asked when the run began.
	Excluded []Exclusion
}

// An Exclusion is a candidate that was left out, and why.
type Exclusion struct{ Model, Why string }

// A Choice is what a chooser says.
type Choice struct {
	Kind ChoiceKind
	// Model is the candidate, of a Choice that picks one. Words are the chooser's reason, bounded.
	Model, Words string
}

// A ChoiceKind is what a Choice comes to.
type ChoiceKind string

// The kinds.
const (
	ChoicePick     ChoiceKind = "Pick"
	ChoiceRefuse   ChoiceKind = "Refuse"
	ChoiceHandOver ChoiceKind = "HandOver"
	// ChoiceUnusable: what the chooser said is none of these.
	ChoiceUnusable ChoiceKind = "Unusable"
)

// Choosing reports whether the chooser is asked, and not a model that works on the task.
func (s State) Choosing() bool { return s.Route != nil && s.Route.Question > 0 }

// Asks gives the model that the run asks; empty if that is the only one it has.
func (s State) Asks() string {
	if s.Router == nil || s.Route == nil {
		return ""
	}
	return s.offer().Model
}

// offer is the model that is asked now, on its terms of now.
func (s State) offer() Offer {
	switch {
	case s.Router == nil || s.Route == nil:
		return Offer{Terms: s.Terms, Unfit: s.Holds.Model}
	case s.Choosing() && s.Router.Chooser != nil:
		return *s.Router.Chooser
	}
	if i := s.Router.find(s.Route.Model); i >= 0 {
		return s.Router.Candidates[i]
	}
	return Offer{Model: s.Route.Model, Unfit: fmt.Sprintf("%s is no candidate of the run's router", s.Route.Model)}
}

// asksFor is the most tokens that the next request can have.
func (s State) asksFor() int64 {
	if s.Choosing() {
		return s.Route.Question
	}
	return s.Context
}

func (r *Router) find(model string) int {
	return slices.IndexFunc(r.Candidates, func(o Offer) bool { return o.Model == model })
}

// firstFit gives the first candidate that can be asked and is none of but; -1 if there is none.
func (r *Router) firstFit(but ...string) int {
	return slices.IndexFunc(r.Candidates, func(o Offer) bool { return o.Unfit == "" && !slices.Contains(but, o.Model) })
}

// Unfit says why none of the candidates can be asked; empty if one can.
func (r *Router) Unfit() string {
	if r.firstFit() >= 0 {
		return ""
	}
	why := make([]string, len(r.Candidates))
	for i, o := range r.Candidates {
		why[i] = o.Unfit
	}
	return "no candidate of the router can be asked: " + strings.Join(why, "; ")
}

// setOut gives a run that begins its first route. Question is the most tokens that asking the chooser takes. It is not asked if
// there is nothing to choose.
func (s *State) setOut(question int64) {
	r := s.Router
	if r == nil {
		return
	}
	s.Route = &Route{Question: max(question, 1)}
	fit := 0
	for _, o := range r.Candidates {
		if o.Unfit == "" {
			fit++
			continue
		}
		s.Route.Excluded = append(s.Route.Excluded, Exclusion{o.Model, o.Unfit})
	}
	switch {
	case r.Chooser == nil:
		s.take(r.firstFit(), RoutePreferred, "It is the first candidate that can be asked.")
	case fit < 2:
		s.take(r.firstFit(), RoutePreferred, "It is the only candidate that can be asked, so that there is nothing to choose.")
	}
}

// take puts the run to candidate i; below zero, to the first, which can't be asked now either.
func (s *State) take(i int, reason RouteReason, message string) {
	s.Route.Model, s.Route.Reason, s.Route.Message = s.Router.Candidates[max(i, 0)].Model, reason, message
	s.Route.Step, s.Route.Question = max(s.Step, 1), 0
}

// reroute puts the run to another model if the one that it is at can't be asked any more, and another can. It reports whether it did.
func (s *State) reroute() bool {
	if s.Router == nil || s.Route == nil {
		return false
	}
	unfit, i := s.offer().Unfit, s.Router.firstFit()
	switch {
	case unfit == "" || i < 0:
		return false
	case s.Choosing():
		s.take(i, RouteDefault, "The chooser could not be asked: "+unfit+".")
	default:
		s.take(i, RouteFallback, "The model before could not be asked any more: "+unfit+".")
	}
	return true
}

// fallBack puts the run to another model after failure f of the one that it is at, if there is one that has not failed so at this
// step. A chooser that fails for good is done without, whatever the failure.
func (s *State) fallBack(f Failure) bool {
	if s.Router == nil || s.Route == nil {
		return false
	}
	failed := s.offer().Model
	if s.Choosing() {
		s.take(s.Router.firstFit(), RouteDefault, fmt.Sprintf("The chooser %s could not be asked (%s).", failed, f.Code))
		return true
	}
	i := s.Router.firstFit(append(slices.Clone(s.Model.Tried), failed)...)
	if !f.Overload || i < 0 {
		return false
	}
	s.Model.Tried = append(s.Model.Tried, failed)
	s.take(i, RouteFallback, fmt.Sprintf("ModelBinding %s could not be asked (%s).", failed, f.Code))
	return true
}

// chosen takes the route that the chooser has found, or the default if what it said is of no use. It can refuse the task.
func (s State) chosen(e Chosen) (State, []Effect) {
	if !s.asking(e.Step, e.Attempt) || !s.Choosing() {
		return s, nil
	}
	s.settle(e.Usage)
	s.Model = nil
	s.Route.Words = e.Choice.Words
	keep := then([]Effect{KeepTurn{Step: s.Step}})
	switch e.Choice.Kind {
	case ChoiceRefuse:
		return keep(s.turnedAway(e.At, DetailRouteRefused, "The chooser says that no model shall be put to this."))
	case ChoiceHandOver:
		return keep(s.turnedAway(e.At, DetailHandedOver, "The chooser says that this is for a person to do."))
	case ChoicePick:
		if i := s.Router.find(e.Choice.Model); i >= 0 && s.Router.Candidates[i].Unfit == "" {
			s.take(i, RouteChosen, "The chooser has chosen it.")
			return keep(s.nextStep(e.At))
		}
	case ChoiceUnusable:
	}
	s.Usage.Invalid++
	s.take(s.Router.firstFit(), RouteDefault, "What the chooser said names no candidate that can be asked.")
	return keep(s.nextStep(e.At))
}

// turnedAway ends a run whose chooser wants no model to be asked.
func (s State) turnedAway(at time.Time, detail, message string) (State, []Effect) {
	s.Route.Question, s.Route.Message, s.Route.Step = 0, message, s.Step
	return s.end(at, Termination{Reason: ReasonPolicyDenied, Detail: detail, Message: message + " Its reason is in status.route.fromModel."})
}

func (r *Route) clone() *Route {
	if r == nil {
		return nil
	}
	c := *r
	c.Excluded = slices.Clone(r.Excluded)
	return &c
}

// String gives the route in a few words, such as "large(Chosen)".
func (r *Route) String() string {
	if r.Question > 0 {
		return fmt.Sprintf("choosing[%d]", r.Question)
	}
	if r.Model == "" {
		return "no model"
	}
	return fmt.Sprintf("%s(%s)", r.Model, r.Reason)
}
