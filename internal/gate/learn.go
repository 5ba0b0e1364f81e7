package gate

import (
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
)

// Lesson is what a finished request teaches.
type Lesson = sched.Lesson

// End is how an attempt ended.
type End struct {
	At       time.Time
	Outcome  fleet.Outcome
	Good     bool // the worker gave a good answer
	Released bool // its reservation was given back before
	Computed bool // its prompt was computed, for all that is known
	Chain    prefix.Chain
	Lesson   *Lesson // what it teaches; nil: nothing
}

// Settle is Succeeded, Release and Learn in one, for the many attempts that come to a good end: the lock is taken once.
func (g *Gate) Settle(a *Attempt, e End) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.Good {
		a.course.Reservation().Succeeded(e.At)
	}
	if !e.Released {
		g.sched.Release(&a.course, e.Chain, e.At, e.Outcome, e.Computed)
	}
	if e.Lesson != nil {
		g.learn(a, e.Lesson)
	}
	g.paid(a, e.Computed, e.Lesson)
	g.pump()
}

// Learn takes what a finished request teaches. It is called after Release.
func (g *Gate) Learn(a *Attempt, l Lesson) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.learn(a, &l)
}

func (g *Gate) learn(a *Attempt, l *Lesson) {
	g.sched.Learn(&a.course, *l)
	g.casts.Learn(&a.Forecast, l, &a.course)
}

// UsePrices has forecasts say what requests cost, in money too, from now on.
func (g *Gate) UsePrices(of func(model string) cost.Price) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.casts.UsePrices(of)
}

// Forecasts are how those of each model turned out.
func (g *Gate) Forecasts() []forecast.Model {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.casts.Models()
}
