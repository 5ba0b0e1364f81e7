package fleet

import (
	"fmt"
	"time"
)

// A hung engine accepts connections and says nothing. Prefill is silent too, so silence alone proves little: a worker is put out for it
// only when its telemetry, which used to come, has stopped, requests of ours are overdue there by far, and not one byte came meanwhile.

const (
	// overdueTimes is how often the predicted time of an answer's next byte may pass again before the answer counts as overdue. The
	// overrun is never less than Options.StaleAfter.
	overdueTimes = 4
	// gpuSignals come from the GPUs' exporter: an engine that tells nothing else has never told how it is.
	gpuSignals = HasGPU | HasGPUMemory
)

// Heard says that a byte came from the worker that is of no answer, as of its telemetry. It ends an ejection for silence.
func (w *Worker) Heard() { w.told++ }

// Heard says that a byte of the answer came. It may be called beside any other call, without the owner's lock.
func (r *Reservation) Heard() { r.worker.bytes.Add(1) }

// heardSoFar grows with whatever comes from the worker.
func (w *Worker) heardSoFar() uint64 { return w.told + w.bytes.Load() }

// Silent puts a worker out that shows every sign of a hung engine, and reports whether it did just now. It is asked whenever telemetry
// fails. The worker gets one request in EjectMax until a byte comes from it, which brings it back at once; what it has already is left
// alone. The last one standing of a model is never put out.
func (f *Fleet) Silent(w *Worker, now time.Time) bool {
	w.settle(now)
	w.thaw()
	h := &w.health
	if n := w.heardSoFar(); n != h.heardBytes || h.silentSince.IsZero() {
		h.heardBytes, h.silentSince = n, now
	}
	told := w.observed && w.counts.Has&^gpuSignals != 0
	if !told || w.fresh(now) || w.breaker.cause != NotOut || w.gone || !w.overdue(now) || f.protected(w) {
		return false
	}
	why := fmt.Sprintf("its answers are overdue, its telemetry stopped and nothing came from it for %s", now.Sub(h.silentSince).Round(time.Millisecond))
	f.putOut(w, now, Mute, why, f.opts.EjectMax)
	return true
}

// overdue reports whether a request here should have had its next byte long ago, counted from the last byte that came from the worker.
// Prefills run in order, so only the first of the queue can be overdue; beside it, streams under way may stand still.
func (w *Worker) overdue(now time.Time) bool {
	o, since := &w.owed, w.health.silentSince
	late := func(from time.Time, predicted time.Duration) bool {
		if from.Before(since) {
			from = since
		}
		return now.Sub(from)-predicted > max(w.fleet.opts.StaleAfter, overdueTimes*predicted)
	}
	if r := o.queue.head; r != nil {
		return late(o.headSince, r.booked)
	}
	streams, longest := o.inFlight, time.Duration(0)
	for r := o.silent.head; r != nil; r = r.next {
		if late(r.dispatched, r.booked+r.decode) {
			return true
		}
		streams, longest = streams-1, max(longest, r.booked)
	}
	return streams > 0 && late(since, longest)
}

// thaw takes a worker back that was put out for its silence, when a byte came from it since; and one whose engine called itself unwell, when
// a byte of an answer did.
func (w *Worker) thaw() {
	switch h := &w.health; {
	case w.breaker.cause == Mute && w.heardSoFar() != h.heardBytes, w.breaker.cause == Unwell && w.bytes.Load() != h.sickBytes:
		w.takeBack()
	}
}

// Sick says that the worker's engine calls itself unwell, in words, at its own health endpoint. Twice in a row puts the worker out, unless it
// is the last one standing of a model, or bytes of answers came meanwhile: an engine whose streams move is well, whatever it says. It stays
// out until Well, or bytes of answers; when nothing is said of it for EjectMax, a request tries it. It reports whether the worker was put
// out just now.
func (f *Fleet) Sick(w *Worker, now time.Time, why string) bool {
	w.thaw()
	h := &w.health
	n := w.bytes.Load()
	again := h.sick && n == h.sickBytes
	h.sick, h.sickBytes = true, n
	switch {
	case w.breaker.cause == Unwell:
		w.breaker.until = now.Add(f.opts.EjectMax)
	case again && w.breaker.cause == NotOut && !w.gone && !f.protected(w):
		f.putOut(w, now, Unwell, why, f.opts.EjectMax)
		return true
	}
	return false
}

// Well says that the worker's engine calls itself well.
func (w *Worker) Well(now time.Time) {
	w.health.sick = false
	if w.breaker.cause == Unwell {
		w.back(now)
	}
}
