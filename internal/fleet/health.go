package fleet

import "time"

// Fault is a way for a worker to be broken. A 4xx is the client's fault, and 429 and 503 are back-pressure: neither is one.
type Fault uint8

// The faults.
const (
	RefusedConnection Fault = iota // nobody listens, or the connection could not be made in time
	Reset                          // the connection broke before the answer was whole
	Timeout                        // no header, or no byte, within the configured time
	BadShape                       // the answer is not HTTP, or not what the dialect allows
	ServerError                    // 5xx other than 503
	faults
)

// String is the fault's name in logs and metrics.
func (k Fault) String() string {
	if k >= faults {
		return "unknown"
	}
	return [faults]string{"refused", "reset", "timeout", "bad_shape", "server_error"}[k]
}

// health is the breaker of one worker instance.
type health struct {
	run      int           // faults since the last success
	last     Fault         // the latest of all
	lastAt   time.Time     // zero: none yet
	out      bool          // ejected; stays so until a probe, or an answer still under way, succeeds
	until    time.Time     // no probe before
	lasts    time.Duration // of the last ejection
	closed   time.Time     // when the breaker closed last
	probe    *Reservation  // the one request that tries it
	busy     time.Time     // preferred less until then
	answered bool          // ever, to anybody
	down     bool          // never answered, and somebody tried
	present  bool          // somebody was at its address when that was last seen
}

// heard notes an answer of any kind.
func (h *health) heard() { h.answered, h.down, h.present = true, false, true }

// Fault counts a fault against a worker. EjectAfter in a row put it out, unless it is the last one standing of a model that it serves.
// A probe that fails puts it out again for twice as long. It reports whether the worker was put out just now.
func (f *Fleet) Fault(w *Worker, now time.Time, kind Fault) (ejected bool) {
	h := &w.health
	h.run++
	h.last, h.lastAt = kind, now
	switch {
	case w.gone:
		return false
	case h.out && h.probe == nil:
		return false // a request dispatched before the ejection, or a probe whose Release told it already
	case !h.out && (h.run < f.opts.EjectAfter || f.lastStanding(w)):
		return false
	}
	f.eject(w, now)
	return true
}

func (f *Fleet) eject(w *Worker, now time.Time) {
	h := &w.health
	forgiven := !h.out && now.Sub(h.closed) > f.opts.EjectMax
	if h.lasts == 0 || forgiven {
		h.lasts = f.opts.EjectFor
	} else {
		h.lasts = min(2*h.lasts, f.opts.EjectMax)
	}
	h.out, h.probe = true, nil
	h.until = now.Add(h.lasts)
	f.ejections++
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

// Succeeded says that the worker gave a good answer: its run of faults is over and its breaker closes.
func (w *Worker) Succeeded(now time.Time) {
	h := &w.health
	h.run = 0
	h.heard()
	if h.out {
		h.out, h.probe, h.closed = false, nil, now
	}
}

// Busy says that the worker answered 429 or 503: back-pressure, never a fault. Others are preferred until retryAfter is over
// (0: Options.BusyFor; at most Options.BusyMax).
func (w *Worker) Busy(now time.Time, retryAfter time.Duration) {
	w.health.heard()
	if retryAfter <= 0 {
		retryAfter = w.fleet.opts.BusyFor
	}
	if until := now.Add(min(retryAfter, w.fleet.opts.BusyMax)); until.After(w.health.busy) {
		w.health.busy = until
	}
}

// IsBusy reports whether others should be preferred.
func (w *Worker) IsBusy(now time.Time) bool { return now.Before(w.health.busy) }

// Unreachable says that nobody is at the worker's address. For requests it matters only to one that never answered anything: of the
// others their traffic is the better judge.
func (w *Worker) Unreachable() {
	w.health.present = false
	if !w.health.answered {
		w.health.down = true
	}
}

// Reachable says that somebody is at the worker's address after all, though it told nothing: it may get requests again.
func (w *Worker) Reachable() { w.health.down, w.health.present = false, true }

// Present reports whether somebody was at the worker's address when that was last seen; false for one not heard of yet.
func (w *Worker) Present() bool { return w.health.present }

// Healthy reports whether the worker may get a request: it is not out, or its time is up and no probe is under way. A probe that has
// been silent for EjectMax is waited for no longer: it may be an answer of ten minutes that is not streamed.
func (w *Worker) Healthy(now time.Time) bool {
	h := &w.health
	untried := h.probe == nil || now.Sub(h.probe.dispatched) >= w.fleet.opts.EjectMax
	return !h.down && (!h.out || (untried && !now.Before(h.until)))
}

// ProbeDue reports whether the worker is out, its time is up and nobody tries it. Somebody must, or a recovered worker whose prompts
// are warm elsewhere never comes back.
func (w *Worker) ProbeDue(now time.Time) bool {
	return w.health.out && !w.draining && w.Healthy(now) && !w.IsBusy(now)
}

// Standing reports whether the worker is neither out, down, draining nor gone.
func (w *Worker) Standing() bool {
	return !w.health.out && !w.health.down && !w.draining && !w.gone
}

// EjectedUntil returns when the worker's ejection ends; ok is false when it is not out.
func (w *Worker) EjectedUntil() (until time.Time, ok bool) { return w.health.until, w.health.out }

// LastFault returns the latest fault, to be shown; ok is false when there was none.
func (w *Worker) LastFault() (kind Fault, at time.Time, ok bool) {
	return w.health.last, w.health.lastAt, !w.health.lastAt.IsZero()
}

// takeProbe makes r the probe when the worker is out and due: exactly one at a time.
func (w *Worker) takeProbe(r *Reservation, now time.Time) {
	if w.health.out && w.Healthy(now) {
		w.health.probe = r
		r.probe = true
	}
}

// probeEnded frees the place of a probe. One that failed puts the worker out again even if nobody calls Fault before Release; one
// that was cancelled or refused proves nothing, and the next request tries again.
func (w *Worker) probeEnded(r *Reservation, now time.Time, o Outcome) {
	if w.health.probe != r {
		return
	}
	switch {
	case o == Succeeded:
		w.Succeeded(now)
	case o == Failed && !w.gone:
		w.fleet.eject(w, now)
	default:
		w.health.probe = nil
	}
}

// State is the worker's state as shown to people: "draining", "probing", "ejected", "down" (never answered), "unknown" (not heard of
// yet) or "ready".
func (w *Worker) State() string {
	h := &w.health
	switch {
	case w.draining:
		return "draining"
	case h.probe != nil:
		return "probing"
	case h.out:
		return "ejected"
	case h.down:
		return "down"
	case !h.answered:
		return "unknown"
	}
	return "ready"
}
