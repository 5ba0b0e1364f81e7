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
	absent   bool          // nobody was

	mute        bool      // out for its silence: any byte ends it
	heardBytes  uint64    // Worker.bytes when that was last looked at,
	silentSince time.Time // and when it was first seen like that
}

// heard notes an answer of any kind.
func (w *Worker) heard() {
	h := &w.health
	h.answered, h.down, h.present, h.absent = true, false, true, false
	w.Heard()
	w.thaw()
}

// Fault counts a fault against a worker. EjectAfter in a row put it out, unless it is the last one standing of a model that it serves.
// A probe that fails puts it out again for twice as long. It reports whether the worker was put out just now.
func (f *Fleet) Fault(w *Worker, now time.Time, kind Fault) (ejected bool) {
	w.thaw()
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
	h.out, h.mute, h.probe = true, false, nil
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
	w.heard()
	if h.out {
		h.out, h.probe, h.closed = false, nil, now
	}
}

// Busy says that the worker answered 429 or 503: back-pressure, never a fault. Others are preferred until retryAfter is over
// (0: Options.BusyFor; at most Options.BusyMax).
func (w *Worker) Busy(now time.Time, retryAfter time.Duration) {
	w.heard()
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
func (w *Worker) Reachable() { w.health.down, w.health.present, w.health.absent = false, true, false }

// left reports whether nobody is at the worker's address, and no traffic says otherwise.
func (w *Worker) left() bool { return w.health.absent && w.owed.inFlight == 0 }

// Ready reports whether the worker may be promised to clients: it was heard of, somebody is there, and it may get a request.
func (w *Worker) Ready(now time.Time) bool {
	there := w.health.present || w.health.answered && !w.left()
	return there && w.Healthy(now) && !w.draining
}

// Healthy reports whether the worker may get a request: it is not out, or its time is up and no probe is under way. A probe that has
// been silent for EjectMax is waited for no longer: it may be an answer of ten minutes that is not streamed.
func (w *Worker) Healthy(now time.Time) bool {
	w.thaw()
	h := &w.health
	untried := h.probe == nil || now.Sub(h.probe.dispatched) >= w.fleet.opts.EjectMax
	return !h.down && (!h.out || (untried && !now.Before(h.until)))
}

// ProbeDue reports whether the worker is out, its time is up and nobody tries it. Somebody must, or a recovered worker whose prompts
// are warm elsewhere never comes back.
func (w *Worker) ProbeDue(now time.Time) bool {
	return !w.draining && w.Healthy(now) && w.health.out && !w.IsBusy(now)
}

// Standing reports whether the worker is neither out, down, draining nor gone.
func (w *Worker) Standing() bool {
	w.thaw()
	return !w.health.out && !w.health.down && !w.left() && !w.draining && !w.gone
}

// EjectedUntil returns when the worker's ejection ends; ok is false when it is not out.
func (w *Worker) EjectedUntil() (until time.Time, ok bool) {
	w.thaw()
	return w.health.until, w.health.out
}

// LastFault returns the latest fault, to be shown; ok is false when there was none.
func (w *Worker) LastFault() (kind Fault, at time.Time, ok bool) {
	return w.health.last, w.health.lastAt, !w.health.lastAt.IsZero()
}

// takeProbe makes r the probe when the worker is out and due: exactly one at a time.
func (w *Worker) takeProbe(r *Reservation, now time.Time) {
	if w.Healthy(now) && w.health.out {
		w.health.probe = r
		r.probe = true
	}
}

// probeEnded frees the place of a probe. One that failed puts the worker out again even if nobody calls Fault before Release; one
// that was cancelled or refused proves nothing, and the next request tries again; where the worker is out for its silence, and not a byte came
// since, that waits for EjectMax, or its clients would give up one after the other.
func (w *Worker) probeEnded(r *Reservation, now time.Time, o Outcome) {
	if w.thaw(); w.health.probe != r {
		return
	}
	switch {
	case o == Succeeded:
		w.Succeeded(now)
	case o == Failed && !w.gone:
		w.fleet.eject(w, now)
	default:
		w.health.probe = nil
		if w.health.mute {
			w.health.until = now.Add(w.fleet.opts.EjectMax)
		}
	}
}

// State is the worker's state as shown to people: "draining", "probing", "down" (nobody is at its address, and nothing in flight says
// otherwise), "ejected", "unknown" (not heard of yet) or "ready".
func (w *Worker) State() string {
	w.thaw()
	h := &w.health
	switch {
	case w.draining:
		return "draining"
	case h.probe != nil:
		return "probing"
	case h.down, w.left():
		return "down"
	case h.out:
		return "ejected"
	case !h.answered:
		return "unknown"
	}
	return "ready"
}
