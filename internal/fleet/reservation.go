package fleet

import (
	"math"
	"sync/atomic"
	"time"
)

// Need is what a request will take from the worker that serves it.
type Need struct {
	PromptTokens   int
	CachedTokens   int     // of PromptTokens, assumed to be cached there
	PrefillSeconds float64 // booked until the first token comes
	OthersSeconds  float64 // predicted part of the time to the first token that waiting for others and decoding them takes
	DecodeSeconds  float64 // predicted after it; lets an answer that is not streamed change phase by prediction
	Streamed       bool
	Heavy          bool   // its prefill is out of all proportion, see Load.HeavyPrefills
	SharedKey      uint64 // key of the last cached block: requests in flight with the same key hold the same cached tokens; 0 none
}

// Outcome says how a request ended. It decides only whether its stay teaches anything.
type Outcome uint8

// The outcomes of a request.
const (
	Succeeded Outcome = iota
	Cancelled         // its client left
	Failed            // the worker broke
	Refused           // the worker said no: 4xx, 429, 503
)

type phase uint8

const (
	prefilling phase = iota
	decoding
	released
)

const (
	closedTokens     = -1 // Reservation.tokens after Release
	residenceWeight  = 50 // requests over which the mean stay is taken
	bookedSecondsMax = 3600
)

// Reservation is one request's claim on one worker instance, from the decision to the last byte.
type Reservation struct {
	worker     *Worker
	prev, next *Reservation

	phase      phase
	streamed   bool
	heavy      bool
	probe      bool
	proved     bool // the probe had a good answer
	aside      bool // it is looked away from at the moment
	crowded    bool // found a queue, or was joined before its first token
	first      bool // found the worker idle
	serial     uint64
	prompt     int
	cached     int
	uncached   int
	sharedKey  uint64
	booked     time.Duration
	others     time.Duration
	decode     time.Duration
	dispatched time.Time
	firstToken time.Time

	tokens atomic.Int64 // generated; closedTokens once released
}

// Reserve books a request on a worker. On a worker that is out and due for a probe, the request is the probe.
func (f *Fleet) Reserve(w *Worker, n Need, now time.Time) *Reservation {
	w.settle(now)
	o := &w.owed
	r := &Reservation{
		worker:     w,
		streamed:   n.Streamed,
		heavy:      n.Heavy,
		prompt:     max(0, n.PromptTokens),
		cached:     min(max(0, n.CachedTokens), max(0, n.PromptTokens)),
		sharedKey:  n.SharedKey,
		booked:     seconds(n.PrefillSeconds),
		others:     seconds(n.OthersSeconds),
		decode:     seconds(n.DecodeSeconds),
		dispatched: now,
	}
	r.uncached = r.prompt - r.cached
	r.crowded = o.queue.head != nil || (w.foreign.waiting > 0 && w.fresh(now))
	if o.queue.tail != nil {
		o.queue.tail.crowded = true
	} else {
		o.headSince, o.queueSince = now, now
	}
	r.first = o.inFlight == 0
	w.reserved++
	r.serial = w.reserved
	o.queue.push(r)
	o.inFlight++
	o.prefilling++
	o.contextTokens += r.prompt
	o.pendingTokens += r.uncached
	o.uniqueTokens += r.uncached
	o.booked += r.booked
	o.heavy.add(r, 1)
	w.share(r)
	w.takeProbe(r, now)
	return r
}

// seconds converts a prediction; one that is not a number, negative or beyond an hour is bounded rather than believed.
func seconds(s float64) time.Duration {
	if math.IsNaN(s) || s <= 0 {
		return 0
	}
	return time.Duration(min(s, bookedSecondsMax) * float64(time.Second))
}

// share counts a cached prefix once however many requests in flight use it.
func (w *Worker) share(r *Reservation) {
	o := &w.owed
	if r.cached == 0 || r.sharedKey == 0 {
		o.uniqueTokens += r.cached
		r.sharedKey = 0
		return
	}
	if o.shared == nil {
		o.shared = make(map[uint64]share)
	}
	s := o.shared[r.sharedKey]
	if s.users == 0 {
		s.tokens = r.cached
		o.uniqueTokens += s.tokens
	}
	s.users++
	o.shared[r.sharedKey] = s
}

func (w *Worker) unshare(r *Reservation) {
	o := &w.owed
	if r.sharedKey == 0 {
		o.uniqueTokens -= r.cached
		return
	}
	s := o.shared[r.sharedKey]
	if s.users--; s.users > 0 {
		o.shared[r.sharedKey] = s
		return
	}
	o.uniqueTokens -= s.tokens
	delete(o.shared, r.sharedKey)
}

// Worker returns the instance that the reservation is on.
func (r *Reservation) Worker() *Worker { return r.worker }

// Probe reports whether this request is the one that tries a worker that is out.
func (r *Reservation) Probe() bool { return r.probe }

// Alone reports whether the request has had the worker to itself since its dispatch, as far as this router knows.
func (r *Reservation) Alone() bool { return r.first && r.serial == r.worker.reserved }

// Need returns the prompt's tokens and how many of them were assumed to be cached.
func (r *Reservation) Need() (promptTokens, cachedTokens int) { return r.prompt, r.cached }

// FirstToken moves the request from prefill to decoding. elapsed is the time of its own prefill: since its dispatch, less what others'
// decoding is predicted to have taken. clean says that this is fit to learn from: it found no queue, nothing joined before its first
// token, and others took no more than a third of the prediction. Without that, a busy worker would look slow, get fewer requests,
// and never be seen idle again. A second call, or one after Release, does nothing and is not clean.
//
// Engines prefill in order: answers that are not streamed and were dispatched before it have had their first token too.
func (r *Reservation) FirstToken(now time.Time) (clean bool, elapsed time.Duration) {
	w := r.worker
	w.settle(now)
	if r.phase == released {
		return false, 0
	}
	w.owed.alive = now
	r.Heard()
	elapsed = max(0, now.Sub(r.dispatched))
	if r.phase == decoding {
		return false, elapsed
	}
	for ahead := w.owed.queue.head; ahead != r; {
		next := ahead.next
		if !ahead.streamed {
			w.prefilled(ahead, now)
		}
		ahead = next
	}
	w.prefilled(r, now)
	if r.probe {
		r.Proved(now)
	}
	return r.streamed && !r.crowded && 2*r.others <= r.booked, max(elapsed-r.others, elapsed/2)
}

// Generated adds tokens produced since the last call. It may be called by one stream without the owner's lock, beside any other call;
// after Release it does nothing.
func (r *Reservation) Generated(n int) {
	if n <= 0 {
		return
	}
	for {
		t := r.tokens.Load()
		if t == closedTokens {
			return
		}
		if r.tokens.CompareAndSwap(t, t+int64(n)) {
			r.worker.generated.Add(int64(n))
			r.Heard()
			return
		}
	}
}

// GeneratedTokens returns the sum of Generated, 0 after Release.
func (r *Reservation) GeneratedTokens() int { return int(max(0, r.tokens.Load())) }

// Release ends the request and gives back exactly what it took, on the instance it took it from. Every exit path calls it, as often as
// it likes: it returns false, and does nothing, when the reservation was released before.
func (r *Reservation) Release(now time.Time, o Outcome) bool {
	if r.phase == released {
		return false
	}
	w := r.worker
	w.settle(now)
	switch {
	case r.phase == prefilling:
		since := w.owed.headSince
		if w.owed.queue.head == r {
			since = now
		}
		w.leaveQueue(r, since)
	case !r.streamed:
		w.owed.silent.remove(r)
	}
	w.stayed(r, now, o)
	r.phase = released
	w.owed.inFlight--
	w.idle = now
	w.owed.contextTokens -= r.prompt
	w.owed.uniqueTokens -= r.uncached
	w.unshare(r)
	if t := r.tokens.Swap(closedTokens); t > 0 {
		w.generated.Add(-t)
	}
	if r.probe {
		w.probeEnded(r, now, o)
	}
	return true
}

// stayed learns the mean time a request stays, counted from the start of its prefill: with the wait before it, a queue would lengthen
// its own forecast. One that failed at once, or never began, teaches nothing.
func (w *Worker) stayed(r *Reservation, now time.Time, o Outcome) {
	if o == Succeeded {
		w.owed.alive = now
		r.Heard()
	}
	if o == Failed || o == Refused || (o == Cancelled && r.phase == prefilling) {
		return
	}
	began := r.dispatched
	if r.phase == decoding {
		if at := r.firstToken.Add(-r.booked); at.After(began) {
			began = at
		}
	}
	d := &w.owed
	d.residenceCount = min(d.residenceCount+1, residenceWeight)
	d.residence += (max(0, now.Sub(began)).Seconds() - d.residence) / float64(d.residenceCount)
}
