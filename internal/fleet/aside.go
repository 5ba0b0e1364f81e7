package fleet

import "time"

// aside is what a worker owes to reservations that are looked away from, see Aside.
type aside struct {
	requests, prefilling                       int
	contextTokens, pendingTokens, uniqueTokens int
	booked                                     time.Duration
	heavy                                      heavy
}

// Aside has the worker's Load be told without the reservation, until Regard: what there would be if it ended now. Nothing else may happen
// to the worker in between. A cached prefix that others hold too stays counted.
func (r *Reservation) Aside(now time.Time) {
	w := r.worker
	w.settle(now)
	if r.phase == released {
		return
	}
	a, generated := &w.owed.aside, r.GeneratedTokens()
	r.aside = true
	a.requests++
	a.contextTokens += r.prompt + generated
	a.uniqueTokens += r.uncached + generated
	if s := w.owed.shared[r.sharedKey]; r.sharedKey == 0 || s.users == 1 {
		a.uniqueTokens += r.cached
	}
	if r.phase == prefilling {
		a.prefilling++
		a.pendingTokens += r.uncached
		a.booked += r.booked
		a.heavy.add(r, 1)
	}
}

// Regard ends Aside. It is called for each that was looked away from, before anything else is asked of the worker.
func (r *Reservation) Regard() { r.aside, r.worker.owed.aside = false, aside{} }

// Released says that the request has ended.
func (r *Reservation) Released() bool { return r.phase == released }

// overdueShare is how much longer an answer that is overdue is taken to go on, as a share of the time that it took so far: of lengths that
// nobody knows, those that are long already have long to go.
const overdueShare = 0.25

// Progress is how far a request is: the shares of its prefill and of its answer that are done, the latter above 1 for an answer that takes
// longer than predicted, and the seconds until its end. Where nothing is seen of it, as of an answer that is not streamed, it goes by
// prediction. A released one is at its end.
func (r *Reservation) Progress(now time.Time) (prefill, answer, left float64) {
	w := r.worker
	w.settle(now)
	switch r.phase {
	case released:
		return 1, 1, 0
	case prefilling:
		for ahead := w.owed.queue.head; ahead != r; ahead = ahead.next {
			left += ahead.booked.Seconds()
		}
		spent := 0.0
		if w.owed.queue.head == r {
			spent = max(0, now.Sub(w.owed.headSince).Seconds())
		}
		share, rest := doneOf(spent, r.booked.Seconds())
		return min(share, 1), 0, left + rest + r.decode.Seconds()
	}
	answer, left = doneOf(max(0, now.Sub(r.firstToken).Seconds()), r.decode.Seconds())
	return 1, answer, left
}

// doneOf is which share of predicted seconds is done, and how many seconds are left.
func doneOf(spent, predicted float64) (share, left float64) {
	switch {
	case spent < predicted:
		return spent / predicted, predicted - spent
	case predicted == 0:
		return 1, overdueShare * spent
	}
	return spent / predicted, overdueShare * spent
}
