package fleet

import "time"

// health is whether anybody is there, and what they say of themselves.
type health struct {
	busy     time.Time // preferred less until then
	answered bool      // ever, to anybody
	down     bool      // never answered, and somebody tried
	loading  bool      // somebody is there and says that the model is not loaded yet
	present  bool      // somebody was at its address when that was last seen
	absent   bool      // nobody was

	heardBytes  uint64    // Worker.heardSoFar when that was last looked at,
	silentSince time.Time // and when it was first seen like that

	sick      bool   // it said so when it was last asked,
	sickBytes uint64 // and Worker.bytes then
}

// heard notes an answer of any kind. The first one ever begins the worker's slow start: an engine may load its model for minutes.
func (w *Worker) heard(now time.Time) {
	h := &w.health
	if !h.answered {
		w.rise = w.fleet.rise(now)
	}
	h.answered, h.down, h.loading, h.present, h.absent = true, false, false, true, false
	w.Heard()
	w.thaw()
}

// lastStanding reports whether nobody else could serve one of the models that w serves. A worker with unknown models counts only
// beside another such, because it gets no request for a model that is known to be served.
func (f *Fleet) lastStanding(w *Worker) bool {
	alone := func(serves func(*Worker) bool) bool {
		for _, o := range f.workers {
			if o != w && o.Standing() && serves(o) {
				return false
			}
		}
		return true
	}
	if !w.ModelsKnown() {
		return alone(func(*Worker) bool { return true })
	}
	for i := range w.info.Models {
		name := w.info.Models[i].ID
		if alone(func(o *Worker) bool { _, ok := o.Model(name); return ok }) {
			return true
		}
	}
	return false
}

// Busy says that the worker answered 429 or 503: back-pressure, never a fault. Others are preferred until retryAfter is over
// (0: Options.BusyFor; at most Options.BusyMax).
func (w *Worker) Busy(now time.Time, retryAfter time.Duration) {
	w.heard(now)
	if retryAfter <= 0 {
		retryAfter = w.fleet.opts.BusyFor
	}
	if until := now.Add(min(retryAfter, w.fleet.opts.BusyMax)); until.After(w.health.busy) {
		w.health.busy = until
	}
}

// IsBusy reports whether others should be preferred.
func (w *Worker) IsBusy(now time.Time) bool { return now.Before(w.health.busy) }

// Unreachable says that nobody is at the worker's address. One that never answered anything gets no requests then; of the others
// traffic is the better judge, as long as there is any: while nothing is in flight there, such a worker is shown as down and does not
// stand, and is asked all the same when it is chosen.
func (w *Worker) Unreachable() {
	w.health.present, w.health.absent = false, true
	if !w.health.answered {
		w.health.down = true
	}
}

// Reachable says that somebody is at the worker's address after all, though it told nothing: it may get requests again.
func (w *Worker) Reachable() {
	h := &w.health
	h.down, h.loading, h.present, h.absent = false, false, true, false
}

// left reports whether nobody is at the worker's address, and no traffic says otherwise.
func (w *Worker) left() bool { return w.health.absent && w.owed.inFlight == 0 }

// Ready reports whether the worker may be promised to clients: it was heard of, somebody is there, and it may get a request.
func (w *Worker) Ready(now time.Time) bool {
	there := w.health.present || w.health.answered && !w.left()
	return there && w.Healthy(now) && !w.draining
}

// Healthy reports whether the worker may get a client's request: it is there and not out, or it is to be tried.
func (w *Worker) Healthy(now time.Time) bool {
	w.thaw()
	h := &w.health
	return !h.down && !h.loading && (w.breaker.cause == NotOut || w.trialDue(now) && !w.tried())
}

// Standing reports whether the worker is neither out, down, loading, draining nor gone.
func (w *Worker) Standing() bool {
	w.thaw()
	h := &w.health
	return w.breaker.cause == NotOut && !h.down && !h.loading && !w.left() && !w.draining && !w.gone
}

// Rising is the share of its part that the worker may have as yet, 0 to 1: for SlowStart from when it was first heard of, or came back.
func (w *Worker) Rising(now time.Time) float64 {
	over := w.fleet.opts.SlowStart
	if over <= 0 {
		return 1
	}
	return min(1, max(0, now.Sub(w.rise).Seconds()/over.Seconds()))
}

// Loading says that somebody is at the worker's address, and that it does not serve yet: an engine that reads its model's files. That is no
// fault, and no reason to send it anything. What is in flight there says otherwise.
func (w *Worker) Loading() {
	w.Reachable()
	w.health.loading = w.owed.inFlight == 0
}

// State is the worker's state as shown to people: "draining", "probing", "down" (nobody is at its address, and nothing in flight says
// otherwise), "loading" (its model), "ejected", "unknown" (not heard of yet) or "ready".
func (w *Worker) State() string {
	w.thaw()
	h := &w.health
	switch {
	case w.draining:
		return "draining"
	case len(w.breaker.probes) > 0:
		return "probing"
	case h.down, w.left():
		return "down"
	case h.loading:
		return "loading"
	case w.breaker.cause != NotOut:
		return "ejected"
	case !h.answered:
		return "unknown"
	}
	return "ready"
}
