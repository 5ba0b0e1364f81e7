package flow

import (
	"math"
	"time"
)

// meterMemory is over how much backlogged time a line's speed is measured: long enough for some tens of turns, short enough to follow a
// worker that comes or goes.
const meterMemory = 30 * time.Second

// meterMin is how many turns, decayed, it takes to know a line's speed.
const meterMin = 3

// meter measures how many seconds of predicted work a line gets done in a second: from one turn to the next, while somebody waits all the
// time. Without anybody waiting there is no telling what could be done; and counting from the moment somebody begins to wait was rejected:
// short queues would look fast, because their first turn comes sooner than one whole gap.
type meter struct {
	span, seconds, turns float64 // decayed
	last                 time.Time
	open                 bool // somebody has waited ever since last
}

// went takes a turn.
func (m *meter) went(now time.Time, cost int64) {
	if m.open {
		gap := max(0, now.Sub(m.last).Seconds())
		keep := math.Exp(-gap / meterMemory.Seconds())
		m.span, m.seconds, m.turns = m.span*keep+gap, m.seconds*keep+float64(cost)/1e9, m.turns*keep+1
	}
	m.last, m.open = now, true
}

// dry says that nobody waits any more.
func (m *meter) dry() { m.open = false }

// rate is how many seconds of work go in a second, and gap the mean seconds from turn to turn; false: not known. A turn that is overdue
// counts against it, so that a line whose workers are gone does not look fast for ever.
func (m *meter) rate(now time.Time) (rate, gap float64, known bool) {
	if m.turns < meterMin || m.span <= 0 || m.seconds <= 0 {
		return 0, 0, false
	}
	gap, span := m.span/m.turns, m.span
	if m.open {
		span += max(0, now.Sub(m.last).Seconds()-gap)
	}
	return m.seconds / span, gap, true
}

// biasMemory is over how many items a band's short waits are held against what was expected, and biasMost the factor that is believed at most.
// It is told by those of biasWaits seconds at most, and of longer ones holds for so much: a long wait says how it was when it began, and is made of
// what stands in the queue, not of who comes later.
const (
	biasMemory = 64
	biasMost   = 16
	biasWaits  = 5
)

// bias is what waits turn out to be over the plain ones: those that come later go first when they are more urgent or shorter, and how
// many will come is best told by how many came.
type bias struct{ expected, actual float64 }

// saw takes an item that went, or gave up; expected is below 0 where it was not known.
func (b *bias) saw(expected, actual float64) {
	if expected < 0 || expected > biasWaits {
		return
	}
	const keep = 1 - 1.0/biasMemory
	b.expected, b.actual = b.expected*keep+expected, b.actual*keep+max(0, actual)
}

// factor is by what an expected wait is multiplied: 1 as long as nothing is known.
func (b *bias) factor() float64 {
	const prior = 1 // seconds that came out as expected
	return min(max((b.actual+prior)/(b.expected+prior), 1.0/biasMost), biasMost)
}

// accountsLooked is how many other tenants' accounts are looked at to tell a wait; of more of them, every n-th stands for the others.
const accountsLooked = 16

// ahead is what goes before an item, which may be in the queue or not, of what waits now: all of its kind in the classes above, what its
// tenant has before it, and of the other tenants as much as evens out what each has had for its weight by then.
func (l *line) ahead(class int, it *Item) (s sum) {
	k := it.kind()
	for i := range class {
		s.requests += l.bands[i].waiting[k].requests
		s.nanos += l.bands[i].waiting[k].nanos
	}
	b := &l.bands[class]
	a, from := it.account, b.start()
	if a == nil {
		a = b.accounts[it.Tenant]
	}
	var own, mine sum
	if a != nil {
		if own, mine = a.items[k].ahead(it), a.items[k].all; a.readyAt[0] >= 0 || a.readyAt[1] >= 0 {
			from = a.served
		} else {
			from = max(from, a.served)
		}
	}
	turn := from + float64(own.nanos)/1e9/it.weight()
	var looked, goes sum
	others := b.ready[k].nodes
	for i := 0; i < len(others); i += 1 + (len(others)-1)/accountsLooked {
		other := others[i].member
		if other == a {
			continue
		}
		has := other.items[k].all
		looked.requests, looked.nanos = looked.requests+has.requests, looked.nanos+has.nanos
		part := share(has, (turn-other.served)*other.weight)
		goes.requests, goes.nanos = goes.requests+part.requests, goes.nanos+part.nanos
	}
	if all := b.waiting[k].nanos - mine.nanos; looked.nanos > 0 && all > looked.nanos {
		more := float64(all) / float64(looked.nanos)
		goes = sum{int(float64(goes.requests) * more), int64(float64(goes.nanos) * more)}
	}
	return sum{s.requests + own.requests + goes.requests, s.nanos + own.nanos + goes.nanos}
}

// share is how much of what an account has waiting goes in so many seconds of engine time.
func share(has sum, seconds float64) sum {
	switch part := seconds * 1e9; {
	case seconds <= 0:
		return sum{}
	case part >= float64(has.nanos):
		return has
	default:
		return sum{int(math.Ceil(part / float64(has.nanos) * float64(has.requests))), int64(part)}
	}
}

// plainWait is how many seconds an item, in the queue or about to be, has to wait from now on, if nobody else comes; below 0: not known yet.
// What goes before it in its class goes at the speed of the class, which is what those above it leave; until that is known, all that goes
// before it at the line's.
func (q *Queue) plainWait(now time.Time, l *line, it *Item) float64 {
	rate, gap, known := l.speed[it.kind()].rate(now)
	if !known {
		return -1
	}
	class, k := q.classOf(it), it.kind()
	ahead := l.ahead(class, it).nanos
	if own, ownGap, known := l.bands[class].speed[k].rate(now); known {
		for i := range class {
			ahead -= l.bands[i].waiting[k].nanos
		}
		rate, gap = own, ownGap
	}
	return float64(ahead)/1e9/rate + gap/2
}

// LineWait is about how long an item would wait that joined the end of a line now; 0 where nobody waits, or that is not known yet.
func (q *Queue) LineWait(now time.Time, name string, it *Item) time.Duration {
	l := q.lines[name]
	if l == nil || l.waits() == 0 {
		return 0
	}
	rate, gap, known := l.speed[it.kind()].rate(now)
	if !known {
		return 0
	}
	nanos := int64(0)
	for i := range q.classOf(it) + 1 {
		nanos += l.bands[i].waiting[it.kind()].nanos
	}
	return time.Duration(min(float64(nanos)/1e9/rate+gap/2, costMax.Seconds()) * float64(time.Second))
}

// wait is how long an item, in the queue or about to be, is expected to wait from now on; false: not known yet.
func (q *Queue) wait(now time.Time, l *line, it *Item) (time.Duration, bool) {
	return q.likely(l, it, q.plainWait(now, l, it))
}

// likely makes of a plain wait what it is likely to become.
func (q *Queue) likely(l *line, it *Item, plain float64) (time.Duration, bool) {
	more := l.bands[q.classOf(it)].bias[it.kind()].factor() - 1
	seconds := plain + more*min(plain, biasWaits)
	return time.Duration(min(max(0, seconds), costMax.Seconds()) * float64(time.Second)), plain >= 0
}

// drain is when a refused item should come again: when what would go before it is done, and a part of the queue besides, since it may be
// other lines that fill it. 0: not known.
func (q *Queue) drain(now time.Time, l *line, it *Item) time.Duration {
	const part = 0.1
	wait, _ := q.wait(now, l, it)
	rate := 0.0
	for _, l := range q.order {
		for k := range l.speed {
			if r, _, known := l.speed[k].rate(now); known && l.waits() > 0 {
				rate += r
			}
		}
	}
	if rate <= 0 {
		return wait
	}
	some := min(part*float64(q.total.nanos)/1e9/rate, costMax.Seconds())
	return max(wait, time.Duration(some*float64(time.Second)))
}

// ExpectedWait is how much longer an item is expected to wait; false: not known, as before anybody had a turn, or it does not wait.
func (q *Queue) ExpectedWait(now time.Time, it *Item) (time.Duration, bool) {
	if it.state != waiting {
		return 0, false
	}
	return q.wait(now, it.band.line, it)
}

// Position is about how many go before an item, of those that wait now: 0 is next. It is below 0 for an item that does not wait.
func (q *Queue) Position(now time.Time, it *Item) int {
	if it.state != waiting {
		return -1
	}
	return q.before(now, it.band.line, it)
}

// before is of what stands ahead of an item as much as the line does while it waits: a class that starved goes before some above it.
func (q *Queue) before(now time.Time, l *line, it *Item) int {
	s, plain := l.ahead(q.classOf(it), it), q.plainWait(now, l, it)
	if rate, _, known := l.speed[it.kind()].rate(now); known && rate*plain*1e9 < float64(s.nanos) {
		return int(math.Ceil(rate * plain * 1e9 / float64(s.nanos) * float64(s.requests)))
	}
	return s.requests
}

// TimeoutRefusal is what to tell the client of an item that came from Expire.
func (q *Queue) TimeoutRefusal(now time.Time, it *Item) *Refusal {
	r := &Refusal{Reason: TimedOut}
	if l := q.lines[it.Line]; l != nil {
		r.After = q.drain(now, l, it)
	}
	r.text = "no worker had room for the request within the " + it.leaves.Sub(it.pushed).Round(time.Millisecond).String() +
		" that it may wait (setting classes.wait_max, or the request's own limit)"
	return r
}
