package sim

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/line"
)

// whole says whether the answer to a request comes in one piece.
func (r *router) whole(f *flight) bool {
	q := r.lab.config.Queue
	return q != nil && q.Tenants[f.request.Tenant].Whole
}

// sight is what the line asks before work gives way.
func (r *router) sight() line.Sight {
	return line.Sight{
		Serves: func(e *line.Entry, on *fleet.Worker) bool {
			return r.usher.Serves(at(r.lab.now), &e.Owner.(*flight).guest, on)
		},
		Room: func(e *line.Entry) bool {
			f, now := e.Owner.(*flight), at(r.lab.now)
			r.lookAgain(now, f)
			o, _, err := r.usher.Foresee(now, &f.guest)
			return err == nil && o.Room
		},
	}
}

// preempt has running work give way to those who have waited for too long, as the gate does.
func (r *router) preempt(now time.Time) {
	for e, back := r.line.Preempt(now); e != nil; e, back = r.line.Preempt(now) {
		for _, b := range back {
			r.lab.abort(b.Owner.(*flight))
			r.line.Return(now, b)
		}
		r.lab.submit(e.Owner.(*flight))
	}
}

// keep notes that a byte of an answer went out to its client.
func (r *router) keep(f *flight) {
	if r.line != nil {
		r.line.Keep(&f.guest.Entry)
	}
}

// abort takes a request that gave way from its engine. The step that is being computed may go on without it, so that its sequence is not
// used again.
func (l *lab) abort(f *flight) {
	w := f.worker
	l.result.LostSeconds += w.spent(f, l.now)
	w.core.Abort(f.sequence)
	w.drop(f)
	w.waiting = slices.DeleteFunc(w.waiting, func(o *flight) bool { return o == f })
	f.sequence, f.waits, f.told, f.counted = nil, true, 0, 0
	if t := f.tenant; t != nil {
		t.Preempted++
	}
	if w.busy {
		w.end = w.core.Cut(l.now)
	}
}

// drop takes a request out of a worker's.
func (w *worker) drop(f *flight) {
	last := len(w.flights) - 1
	w.flights[f.atWorker] = w.flights[last]
	w.flights[f.atWorker].atWorker = f.atWorker
	w.flights[last] = nil
	w.flights = w.flights[:last]
}

// spent is the engine time that a request has had: its prefill, and its part of each step since.
func (w *worker) spent(f *flight, now time.Duration) float64 {
	s, k := f.sequence, &w.profile.Constants
	if s.Generated == 0 {
		return 0 // at most a part of its prefill
	}
	u, h, n := float64(s.PromptTokens-s.CachedTokens), float64(s.CachedTokens), float64(s.Generated+w.core.Decoded(now))
	step := k.D0/float64(min(len(w.flights), w.profile.BatchMax)) + k.D1 + k.D2*(u+h+n/2)
	return k.A + k.B*u + k.C*u*(u+2*h) + n*step
}

// gaveWay sums up what gave way at a run's end.
func (r *Result) gaveWay(l *lab) {
	for _, one := range l.routers {
		if one.line == nil {
			continue
		}
		for _, c := range one.line.Stats(at(l.now)).Classes {
			r.Preempted += int(c.Preempted)
			r.WastedSeconds += c.WastedSeconds
		}
	}
}
