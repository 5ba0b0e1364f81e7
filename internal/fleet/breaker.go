package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/outlier"
)

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

// Cause is why a worker is out.
type Cause uint8

// The causes.
const (
	NotOut   Cause = iota
	Failing        // faults in a row
	Outlying       // a share of faults far above its peers'
	Mute           // not a byte comes from it, see Silent
	Unwell         // its engine says that it is not well, see Sick
)

// String is the cause's name in metrics.
func (c Cause) String() string {
	return [...]string{"", "failing", "outlier", "silent", "unwell"}[min(c, Unwell)]
}

// breaker keeps requests from one worker instance that is broken, and lets it come back.
type breaker struct {
	cause Cause
	why   string    // the cause in words
	since time.Time // of cause
	until time.Time // no probe before
	lasts time.Duration
	ended time.Time // when the last ejection for faults did

	run    int       // faults since the last success
	last   Fault     // the latest of all
	lastAt time.Time // zero: none yet
	seen   outlier.Window

	was     Ejection // the one before
	returns uint64   // how often it came back

	good   int            // good answers of probes since it is out
	probes []*Reservation // that try it and have not ended
}

// Ejection is why a worker is out.
type Ejection struct {
	Cause        Cause
	Why          string // in words: "3 faults in a row: reset"
	Since, Until time.Time
}

// Ejection returns why a worker is out and when it is tried again; ok is false when it is not out.
func (w *Worker) Ejection() (e Ejection, ok bool) {
	w.thaw()
	b := &w.breaker
	return Ejection{b.cause, b.why, b.since, b.until}, b.cause != NotOut
}

// FirstBack says, to be put behind other words, which of several workers that are out is tried first, why it is out, and how long that takes;
// nothing of none. out tells by index which of all are meant.
func FirstBack(now time.Time, all []*Worker, out func(i int) bool) (words string, after time.Duration) {
	var first *Worker
	for i, w := range all {
		if w.breaker.cause != NotOut && out(i) && (first == nil || w.breaker.until.Before(first.breaker.until)) {
			first = w
		}
	}
	if first == nil {
		return "", 0
	}
	after = max(0, first.breaker.until.Sub(now))
	return fmt.Sprintf("; %s is tried in %.1f s, and is out because: %s", first.ID, after.Seconds(), first.breaker.why), after
}

// Returned says how often the worker came back, and from what the last time.
func (w *Worker) Returned() (from Ejection, times uint64) {
	w.thaw()
	return w.breaker.was, w.breaker.returns
}

// LastFault returns the latest fault, to be shown; ok is false when there was none.
func (w *Worker) LastFault() (kind Fault, at time.Time, ok bool) {
	return w.breaker.last, w.breaker.lastAt, !w.breaker.lastAt.IsZero()
}

// Fault counts a fault against a worker that no probe met. EjectAfter in a row put it out, and so does a share of faults far above its
// peers', unless it is the last one standing of a model that it serves. It reports whether the worker was put out just now.
func (f *Fleet) Fault(w *Worker, now time.Time, kind Fault) (ejected bool) {
	w.thaw()
	b := &w.breaker
	b.run++
	b.last, b.lastAt = kind, now
	if w.gone || b.cause != NotOut { // a request dispatched before the ejection, or a probe whose Release told it already
		return false
	}
	if f.opts.Window > 0 {
		b.seen.Add(now, f.opts.Window, true)
	}
	cause, why := Failing, ""
	if b.run >= f.opts.EjectAfter {
		why = fmt.Sprintf("%d faults in a row: %s", b.run, kind)
	} else if cause, why = Outlying, f.outlying(w, now); why == "" {
		return false
	}
	if f.protected(w) {
		return false
	}
	f.eject(w, now, cause, why)
	return true
}

// Fault counts a fault that the request met. A probe that fails puts its worker out again for twice as long.
func (r *Reservation) Fault(now time.Time, kind Fault) (ejected bool) {
	w := r.worker
	w.thaw()
	if !slices.Contains(w.breaker.probes, r) || w.gone {
		return w.fleet.Fault(w, now, kind)
	}
	b := &w.breaker
	b.run++
	b.last, b.lastAt = kind, now
	w.fleet.eject(w, now, b.cause, "a request that tried it failed: "+kind.String())
	return true
}

// Absolve takes the worker's latest fault back: the same request failed elsewhere in the same way, and is the likelier cause. What the fault
// has put out stays out until it is tried.
func (w *Worker) Absolve(now time.Time) {
	b := &w.breaker
	if b.run = max(0, b.run-1); w.fleet.opts.Window > 0 {
		b.seen.Absolve(now, w.fleet.opts.Window)
	}
}

// eject puts a worker out for its faults.
func (f *Fleet) eject(w *Worker, now time.Time, cause Cause, why string) {
	b := &w.breaker
	forgiven := b.cause == NotOut && now.Sub(b.ended) > f.opts.EjectMax
	if b.lasts == 0 || forgiven {
		b.lasts = f.opts.EjectFor
	} else {
		b.lasts = min(2*b.lasts, f.opts.EjectMax)
	}
	f.putOut(w, now, cause, why, b.lasts)
}

// putOut opens a worker's breaker, or keeps it open.
func (f *Fleet) putOut(w *Worker, now time.Time, cause Cause, why string, lasts time.Duration) {
	b := &w.breaker
	if b.cause == NotOut {
		b.since = now
	}
	b.cause, b.why, b.until = cause, why, now.Add(lasts)
	b.good, b.probes, b.seen = 0, nil, outlier.Window{}
	f.ejections++
}

// takeBack closes a worker's breaker.
func (w *Worker) takeBack() {
	b := &w.breaker
	b.was, b.returns = Ejection{b.cause, b.why, b.since, b.until}, b.returns+1
	b.cause, b.why, b.good, b.probes = NotOut, "", 0, nil
}

// outlying is in words how a worker fails far more often than its peers do; "" when it does not. A share of the fleet at most is out for
// that at one time: where many differ from the others, the rule understands the fleet no more.
func (f *Fleet) outlying(w *Worker, now time.Time) string {
	o := &f.opts
	if o.Window <= 0 {
		return ""
	}
	own := w.breaker.seen.Counts(now, o.Window)
	if own.Answers < o.WindowMin {
		return ""
	}
	var others outlier.Counts
	out := 1
	for _, p := range f.workers {
		if p.breaker.cause == Outlying {
			out++
		}
		if p != w && w.peer(p) {
			others = others.Plus(p.breaker.seen.Counts(now, o.Window))
		}
	}
	if out > max(1, int(o.OutShareMax*float64(len(f.workers)))) || !outlier.Is(own, others, o.WindowMin) {
		return ""
	}
	return fmt.Sprintf("%d of %d answers failed in %s, of its peers' %d of %d: %s", own.Faults, own.Answers, o.Window, others.Faults, others.Answers, w.breaker.last)
}

// peer reports whether two workers may get the same requests.
func (w *Worker) peer(o *Worker) bool {
	return !w.ModelsKnown() || !o.ModelsKnown() || slices.ContainsFunc(w.info.Models, func(m Model) bool { return o.Serves(m.ID) })
}

// protected reports whether a worker is not put out, whatever it does.
func (f *Fleet) protected(w *Worker) bool { return !f.opts.Strict && f.lastStanding(w) }

// Succeeded says that the worker gave a good answer that no probe asked for: its run of faults is over. Such an answer, still under way
// when the worker was put out, brings it back as a probe's would, unless it is out for its share of faults: good answers are among those
// of any outlier.
func (w *Worker) Succeeded(now time.Time) {
	b := &w.breaker
	b.run = 0
	w.heard(now)
	switch b.cause {
	case NotOut:
		if over := w.fleet.opts.Window; over > 0 {
			b.seen.Add(now, over, false)
		}
	case Failing:
		w.wellAgain(now)
	case Unwell:
		w.back(now)
	}
}

// Succeeded says that the request has a good answer, from beginning to end.
func (r *Reservation) Succeeded(now time.Time) {
	if r.Proved(now); !r.probe {
		r.worker.Succeeded(now)
	}
}

// Proved says that the request has a good answer under way, which closes the breaker of the worker that it tries: a probe may be a stream of
// ten minutes. Of other requests that says nothing yet, or a worker that breaks every stream halfway would look well.
func (r *Reservation) Proved(now time.Time) {
	w := r.worker
	w.thaw()
	if r.proved || !slices.Contains(w.breaker.probes, r) {
		return
	}
	r.proved = true
	w.breaker.run = 0
	w.heard(now)
	w.wellAgain(now)
}

// wellAgain counts a good answer of a worker that is out, and closes its breaker after Probes of them.
func (w *Worker) wellAgain(now time.Time) {
	b := &w.breaker
	if b.good++; b.cause != NotOut && b.good >= w.fleet.opts.Probes {
		w.back(now)
	}
}

// back takes a worker back, slowly.
func (w *Worker) back(now time.Time) {
	w.takeBack()
	w.breaker.ended, w.rise = now, now
}

// trialDue reports whether the worker is out, its time is up and it may be tried: by Probes requests until as many had good answers. A probe
// that has been silent for EjectMax is waited for no longer: it may be an answer of ten minutes that is not streamed.
func (w *Worker) trialDue(now time.Time) bool {
	b := &w.breaker
	if b.cause == NotOut || now.Before(b.until) {
		return false
	}
	places := w.fleet.opts.Probes - b.good
	for _, r := range b.probes {
		if !r.proved && now.Sub(r.dispatched) < w.fleet.opts.EjectMax {
			places--
		}
	}
	return places > 0
}

// ProbeDue reports whether a client's request is to try the worker now. Somebody must, or a recovered worker whose prompts are warm
// elsewhere never comes back.
func (w *Worker) ProbeDue(now time.Time) bool {
	return !w.draining && w.breaker.cause != NotOut && w.Healthy(now) && !w.IsBusy(now)
}

// takeProbe makes r a probe when the worker is out and may be tried.
func (w *Worker) takeProbe(r *Reservation, now time.Time) {
	if w.thaw(); w.trialDue(now) {
		w.breaker.probes = append(w.breaker.probes, r)
		r.probe = true
	}
}

// probeEnded frees the place of a probe. One that failed puts the worker out again even if nobody calls Fault before Release; one
// that was cancelled or refused proves nothing, and the next request tries again; where the worker is out for its silence, and not a byte came
// since, that waits for EjectMax, or its clients would give up one after the other.
func (w *Worker) probeEnded(r *Reservation, now time.Time, o Outcome) {
	w.thaw()
	b := &w.breaker
	i := slices.Index(b.probes, r)
	if i < 0 {
		return
	}
	switch {
	case o == Succeeded:
		r.Proved(now)
	case o == Failed && !w.gone:
		w.fleet.eject(w, now, b.cause, "a request that tried it failed")
	case b.cause == Mute:
		b.until = now.Add(w.fleet.opts.EjectMax)
	}
	b.probes = slices.DeleteFunc(b.probes, func(p *Reservation) bool { return p == r })
}
