package main

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/warmpath/warmpath/internal/canary"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// What is told of workers that are out: in the log, in the metrics and in /state.

// outState is why a worker is out, and when it is tried again.
type outState struct {
	Cause string    `json:"cause"` // failing, outlier, silent or unwell
	Why   string    `json:"why"`   // in words
	Since time.Time `json:"since"`
	Until time.Time `json:"until"` // it is tried then; where it is past, it is being tried, or waits for a request that does
}

// faultState is the latest fault of a worker, whether or not it is out.
type faultState struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
}

func healthOf(w *fleet.Worker, now time.Time) (out *outState, rising *float64, last *faultState) {
	if e, is := w.Ejection(); is {
		out = &outState{e.Cause.String(), e.Why, e.Since, e.Until}
	}
	if part := w.Rising(now); part < 1 {
		rising = &part
	}
	if kind, at, was := w.LastFault(); was {
		last = &faultState{kind.String(), at}
	}
	return out, rising, last
}

// ejected counts and logs that a worker was put out. Ejections grow to their longest, so that one that stays broken fills no log.
func (r *router) ejected(id string, e fleet.Ejection) {
	r.metrics.Worker(id).Ejected(e.Cause.String())
	r.archive.series.Ejected(time.Now())
	r.log.Warn("worker put out", slog.String("worker", id), slog.String("cause", e.Cause.String()), slog.String("why", e.Why),
		slog.String("tried_in", time.Until(e.Until).Round(time.Millisecond).String()))
}

// canaries sends requests of our own, when the configuration wants any.
func (r *router) canaries() *canary.Sender {
	return canary.New(r.gate, canary.Options{
		Idle:    func() time.Duration { return r.settings().Ejection.Canary },
		Done:    func(w *fleet.Worker, outcome string) { r.metrics.Worker(w.ID).Canary(outcome) },
		Ejected: func(w *fleet.Worker, why fleet.Ejection) { r.ejected(w.ID, why) },
	})
}

// onHealth takes what an engine says of itself at its health endpoint.
func (r *router) onHealth(t telemetry.Target, unwell error) {
	why := ""
	if unwell != nil {
		why = "its engine says that it is not well: " + unwell.Error()
	}
	if e, ejected := r.gate.Checked(t.ID, t.Incarnation, why); ejected {
		r.ejected(t.ID, e)
	}
}

// returnsEvery is how often the log is told of workers that are back.
const returnsEvery = time.Second

// watchReturns logs workers that are back, until ctx ends. It looks now and then, because they come back in the middle of a request, where
// nothing waits for a log.
func (r *router) watchReturns(ctx context.Context) {
	seen := map[uint64]uint64{} // how often each came back, by incarnation
	tick := time.NewTicker(returnsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, back := range r.returned(seen) {
			r.log.Info("worker is back", back...)
		}
	}
}

// returned brings seen up to date, and is what there is to say of those that came back since.
func (r *router) returned(seen map[uint64]uint64) (all [][]any) {
	r.gate.View(func(v gate.View) {
		there := map[uint64]bool{}
		for _, w := range v.Workers {
			from, times := w.Returned()
			if times > seen[w.Incarnation] {
				all = append(all, []any{"worker", w.ID, "from", from.Cause.String(), "why", from.Why, "out_since", from.Since})
			}
			seen[w.Incarnation], there[w.Incarnation] = times, true
		}
		maps.DeleteFunc(seen, func(incarnation, _ uint64) bool { return !there[incarnation] })
	})
	return all
}
