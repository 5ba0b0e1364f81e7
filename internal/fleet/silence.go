package fleet

import "time"

// A hung engine accepts connections and says nothing. Prefill is silent too, so silence alone proves little: a worker is put out for it
// only when its telemetry, which used to come, has stopped, requests of ours are overdue there by far, and not one byte came meanwhile.

const (
	// overdueTimes is how often the predicted time of an answer's next byte may pass again before the answer counts as overdue. The
	// overrun is never less than Options.StaleAfter.
	overdueTimes = 4
	// gpuSignals come from the GPUs' exporter: an engine that tells nothing else has never told how it is.
	gpuSignals = HasGPU | HasGPUMemory
)

// Heard says that a byte came from the worker: of an answer, or of its telemetry. It needs no lock, and ends an ejection for silence.
func (w *Worker) Heard() { w.bytes.Add(1) }

// Heard says that a byte of the answer came. It may be called beside any other call, without the owner's lock.
func (r *Reservation) Heard() { r.worker.Heard() }

// Silent puts a worker out that shows every sign of a hung engine, and reports whether it did just now. It is asked whenever telemetry
// fails. The worker gets one request in EjectMax until a byte comes from it, which brings it back at once; what it has already is left
// alone. The last one standing of a model is never put out.
func (f *Fleet) Silent(w *Worker, now time.Time) bool {
	w.settle(now)
	w.thaw()
	h := &w.health
	if n := w.bytes.Load(); n != h.heardBytes || h.silentSince.IsZero() {
		h.heardBytes, h.silentSince = n, now
	}
	told := w.observed && w.counts.Has&^gpuSignals != 0
	if !told || w.fresh(now) || h.out || w.gone || !w.overdue(now) || f.lastStanding(w) {
		return false
	}
	h.out, h.mute, h.probe = true, true, nil
	h.until = now.Add(f.opts.EjectMax)
	f.ejections++
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

// thaw takes a worker back that was put out for its silence, when a byte came from it since.
func (w *Worker) thaw() {
	h := &w.health
	if h.mute && w.bytes.Load() != h.heardBytes {
		h.out, h.mute, h.probe = false, false, nil
	}
}
