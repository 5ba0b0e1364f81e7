package fleet

import "time"

// Load is what a worker owes now. All of it but the foreign part is our own count and needs no telemetry.
type Load struct {
	InFlight         int     // requests reserved and not released
	Prefilling       int     // those whose first token has not come
	HeavyPrefills    int     // of these, those that are heavy
	ContextTokens    int     // the sum of their contexts, generated tokens included
	PendingTokens    int     // uncached prompt tokens dispatched whose first token has not come
	QueuedSeconds    float64 // wait before a new request's own prefill; see queued
	ForeignKnown     bool    // fresh counts were there; without them Foreign* is 0 and means unknown
	ForeignRunning   int     // requests of other routers running there
	ForeignWaiting   int     // and waiting there
	KVHeldTokens     int     // unique tokens that requests in flight hold or will need, foreign ones included
	KVFreeTokens     int     // KVTokensMax - KVHeldTokens, at least 0; -1 when the capacity is unknown
	ResidenceSeconds float64 // mean time a request stays, from the start of its prefill to its end; 0 before the first
}

// owed is the ledger of one worker. Everything that is added and taken away again is an integer, so that it ends at exactly zero.
type owed struct {
	inFlight      int
	prefilling    int
	heavy         heavy
	contextTokens int // prompts only; generated tokens are counted apart, without the lock
	pendingTokens int
	uniqueTokens  int // prompt tokens in flight, cached prefixes shared by several counted once
	booked        time.Duration
	shared        map[uint64]share

	queue      list // prefilling, in the order of dispatch
	headSince  time.Time
	queueSince time.Time     // when the queue was last found empty
	queueTime  time.Duration // for how long it was not, before that
	silent     list          // not streamed, past their predicted first token, in that order
	alive      time.Time
	aside      aside

	residence      float64
	residenceCount int
}

// share is a cached prefix in use by several requests in flight.
type share struct{ users, tokens int }

// heavy counts heavy reservations.
type heavy int

func (h *heavy) add(r *Reservation, n heavy) {
	if r.heavy {
		*h += n
	}
}

// list is a doubly linked list of reservations; each is in one list at most.
type list struct{ head, tail *Reservation }

func (l *list) push(r *Reservation) {
	r.prev, r.next = l.tail, nil
	if l.tail != nil {
		l.tail.next = r
	} else {
		l.head = r
	}
	l.tail = r
}

func (l *list) remove(r *Reservation) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.tail = r.prev
	}
	r.prev, r.next = nil, nil
}

// Load returns what the worker owes at now. It costs no allocation.
func (w *Worker) Load(now time.Time) Load {
	w.settle(now)
	o := &w.owed
	l := Load{
		InFlight:         o.inFlight - o.aside.requests,
		Prefilling:       o.prefilling - o.aside.prefilling,
		HeavyPrefills:    int(o.heavy - o.aside.heavy),
		ContextTokens:    o.contextTokens + w.generatedTokens() - o.aside.contextTokens,
		PendingTokens:    o.pendingTokens - o.aside.pendingTokens,
		QueuedSeconds:    w.queued(now).Seconds(),
		KVHeldTokens:     w.held() - o.aside.uniqueTokens,
		KVFreeTokens:     -1,
		ResidenceSeconds: o.residence,
	}
	if w.fresh(now) {
		l.ForeignKnown = w.counts.Has&(HasRunning|HasWaiting) != 0 || w.foreign.running > 0
		l.ForeignRunning, l.ForeignWaiting = w.foreign.running, w.foreign.waiting
		l.KVHeldTokens = max(0, l.KVHeldTokens+w.foreign.kvTokens)
	}
	if w.info.KVTokensMax > 0 {
		l.KVFreeTokens = max(0, w.info.KVTokensMax-l.KVHeldTokens)
	}
	return l
}

// PrefillTime is for how long, in all until now, at least one of our requests there had not had its first token.
func (w *Worker) PrefillTime(now time.Time) time.Duration {
	w.settle(now)
	o := &w.owed
	if o.queue.head == nil {
		return o.queueTime
	}
	return o.queueTime + max(0, now.Sub(o.queueSince))
}

// InFlight is the number of requests reserved and not released: Load's, without the rest.
func (w *Worker) InFlight() int { return w.owed.inFlight }

// HoldsShared reports whether a request in flight already holds the cached prefix that ends with this key, so that another costs it no room.
func (w *Worker) HoldsShared(key uint64) bool {
	return key != 0 && w.owed.shared[key].users > 0
}

// held estimates the unique tokens in flight. It cannot be read from telemetry alone, which is a second old and blind to what was
// dispatched since.
func (w *Worker) held() int { return w.owed.uniqueTokens + w.generatedTokens() }

// generatedTokens clamps at 0: a Generated that races with Release is added a moment after it was taken away.
func (w *Worker) generatedTokens() int { return int(max(0, w.generated.Load())) }

// silentSlack is added to the predicted time of an answer that is not streamed before it counts as overdue. Without it, short answers
// that take some milliseconds longer than predicted feed back: the worker with more requests gives signs of life more often, is overdue
// less, and gets still more.
const silentSlack = 250 * time.Millisecond

// queued is the wait before a new request's own prefill: the booked prefill seconds of all whose first token has not come, the first
// of them running down. It runs down to a quarter of its booking and holds there, because without a first token there is no proof that
// anything was done; once the booking is over it grows with the overrun, so that a hung worker never looks idle. The overrun of
// answers that are not streamed, which show no first token, is counted from twice their predicted time.
func (w *Worker) queued(now time.Time) time.Duration {
	o := &w.owed
	wait := o.booked - o.aside.booked
	if r := o.queue.head; r != nil && !r.aside {
		spent := max(0, now.Sub(o.headSince))
		wait -= min(spent, r.booked-r.booked/4)
		wait += max(0, spent-r.booked)
	}
	r := o.silent.head
	for r != nil && r.aside {
		r = r.next
	}
	if r != nil {
		from := r.firstToken.Add(r.booked + 2*r.decode + silentSlack)
		if o.alive.After(from) {
			from = o.alive
		}
		wait += max(0, now.Sub(from))
	}
	return wait
}

// settle moves the phases of answers that are not streamed by prediction: each leaves the head of the queue when its booking is over.
func (w *Worker) settle(now time.Time) {
	o := &w.owed
	for r := o.queue.head; r != nil && !r.streamed; r = o.queue.head {
		end := o.headSince.Add(r.booked)
		if end.After(now) {
			return
		}
		w.prefilled(r, end)
	}
}

// prefilled moves a reservation from the queue to decoding. at is when that happened, and when the next in the queue began.
func (w *Worker) prefilled(r *Reservation, at time.Time) {
	o := &w.owed
	r.phase = decoding
	r.firstToken = at
	w.leaveQueue(r, at)
	if !r.streamed {
		o.silent.push(r)
	}
}

func (w *Worker) leaveQueue(r *Reservation, at time.Time) {
	o := &w.owed
	o.queue.remove(r)
	o.prefilling--
	o.pendingTokens -= r.uncached
	o.booked -= r.booked
	o.heavy.add(r, -1)
	o.headSince = at
	if o.queue.head == nil {
		o.queueTime += max(0, at.Sub(o.queueSince))
	}
}
