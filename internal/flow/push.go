package flow

import (
	"fmt"
	"time"
)

// Reason is why an item was refused, or left without having been placed.
type Reason string

// The reasons.
const (
	Full     Reason = "queue_full"       // a bound of the queue, or the ceiling of the class
	Crowded  Reason = "tenant_share"     // the tenant holds its part of the queue already
	Shed     Reason = "shed"             // by chance, because the queue fills up
	Late     Reason = "deadline"         // it could not start in time
	TimedOut Reason = "queue_timeout"    // it waited for as long as it may
	Twice    Reason = "already_in_queue" // a mistake of the owner: pushed while it is in
)

// Refusal is why an item may not wait, in words for the client.
type Refusal struct {
	Reason Reason
	// After is when to come again: when what waits now of its class and above, or what is too much of it, should be done. 0: not known.
	After time.Duration
	text  string
}

func (r *Refusal) Error() string { return r.text }

// Push lets an item wait. chance in [0, 1) decides whether it is shed. The error is a *Refusal; then nothing of the item is kept.
func (q *Queue) Push(now time.Time, it *Item, chance float64) error {
	if it.state == waiting || it.state == taken || it.state == aside {
		return &Refusal{Reason: Twice, text: "the request is in the queue or was taken from it already"}
	}
	q.prepare(now, it)
	l, refusal := q.line(now, it)
	if refusal == nil {
		refusal = q.mayWait(now, l, it, chance)
	}
	counts := &q.counts[q.classOf(it)]
	if refusal != nil {
		it.hold, it.account = nil, nil
		counts.refused(refusal.Reason)
		return refusal
	}
	counts.Pushed++
	q.enter(l, it)
	return nil
}

// line finds an item's line, or makes room for it. It is entered when the item is.
func (q *Queue) line(now time.Time, it *Item) (*line, *Refusal) {
	if l := q.lines[it.Line]; l != nil {
		return l, nil
	}
	if len(q.lines) >= q.o.LinesMax && !q.forgetOne() {
		return nil, refuse(Full, 0, "requests wait in %d lines of models and workers, as many as there may be (setting lines_max)", len(q.lines))
	}
	return newLine(it.Line, &q.o), nil
}

func refuse(reason Reason, after time.Duration, text string, values ...any) *Refusal {
	return &Refusal{Reason: reason, After: after, text: fmt.Sprintf(text, values...)}
}

// mayWait says why an item may not wait; nil: it may.
func (q *Queue) mayWait(now time.Time, l *line, it *Item, chance float64) *Refusal {
	class := &q.o.Classes[q.classOf(it)]
	if r := q.tooMuch(now, l, it, class); r != nil {
		return r
	}
	if r := q.crowded(now, l, it); r != nil {
		return r
	}
	if before, p := q.shedding(it); p > 0 && chance < p {
		after := q.drain(now, l, it)
		return refuse(Shed, after, "the queue is %.0f %% full of requests of class %s and above, of which a part is refused from %.0f %% on (setting classes.shed_from)",
			100*before, class.Name, 100*class.ShedFrom)
	}
	it.account = l.bands[q.classOf(it)].accounts[it.Tenant]
	it.expected = q.plainWait(now, l, it)
	wait, known := q.likely(l, it, it.expected)
	if left := it.leaves.Sub(now); left <= 0 || known && wait > left {
		if it.StartBy.Equal(it.leaves) {
			return refuse(Late, wait, "the request would have to wait about %.1f s, and would have to start within %.1f s to be done in time", wait.Seconds(), max(0, left.Seconds()))
		}
		return refuse(Late, wait, "the request would have to wait about %.1f s; those of class %s wait %.1f s at most (setting classes.wait_max, or the request's own limit)",
			wait.Seconds(), class.Name, left.Seconds())
	}
	return nil
}

// shedding is how full the queue is of requests of the item's class and above, as a share of the class' ceiling, and the part of its
// requests that is refused for it.
func (q *Queue) shedding(it *Item) (before, part float64) {
	class, above := &q.o.Classes[q.classOf(it)], hold{}
	for i := range q.classOf(it) + 1 {
		above.join(q.class[i])
	}
	before = q.fill(above) / class.Ceiling
	return before, (before - class.ShedFrom) / (1 - class.ShedFrom)
}

// tooMuch holds the bounds of the queue and of the class. Work that alone is more than the queue may hold waits when nothing
// else does, since it could never otherwise.
func (q *Queue) tooMuch(now time.Time, l *line, it *Item, class *Class) *Refusal {
	after := q.total
	after.add(it, 1)
	if q.total.nanos == 0 {
		after.nanos = min(after.nanos, nanos(q.o.SecondsMax*class.Ceiling))
	}
	if q.fill(after) <= class.Ceiling {
		return nil
	}
	for _, bound := range []struct {
		would, most   float64
		unit, setting string
	}{
		{float64(after.requests), float64(q.o.RequestsMax), "requests", "requests_max"},
		{float64(after.bytes), float64(q.o.BytesMax), "bytes", "bytes_max"},
		{float64(after.nanos) / 1e9, q.o.SecondsMax, "seconds of work", "work_max"},
	} {
		if most := bound.most * class.Ceiling; bound.would > most {
			again := q.drain(now, l, it)
			return refuse(Full, again, "the queue would hold %.0f %s; there may be %.0f with requests of class %s (settings %s, classes.ceiling)",
				bound.would, bound.unit, most, class.Name, bound.setting)
		}
	}
	return nil
}

// crowded holds the tenant's bound.
func (q *Queue) crowded(now time.Time, l *line, it *Item) *Refusal {
	if it.hold = q.holds[it.Tenant]; it.hold == nil {
		return nil
	}
	mine := *it.hold
	mine.add(it, 1)
	if share, most := q.fill(mine), q.o.TenantRoom*(1-q.fill(q.total)); share > most {
		again := q.drain(now, l, it)
		return refuse(Crowded, again, "the tenant would hold %.0f %% of the queue, where %.0f %% are its part as long as others wait too (setting tenant_room)", 100*share, 100*most)
	}
	return nil
}

// fill is the share of the queue's bounds that is taken, by the one that is nearest.
func (q *Queue) fill(h hold) float64 {
	return max(float64(h.requests)/float64(q.o.RequestsMax), float64(h.bytes)/float64(q.o.BytesMax), float64(h.nanos)/1e9/q.o.SecondsMax)
}

// enter puts an item that may wait into all that knows of it.
func (q *Queue) enter(l *line, it *Item) {
	if !l.known {
		l.known = true
		q.lines[it.Line] = l
		q.order = append(q.order, l)
		q.linesGrown.entered(len(q.lines))
	}
	l.bands[q.classOf(it)].enter(it)
	it.state = waiting
	q.leave.add(it.leaves.UnixNano(), it.seq, it)
	q.total.add(it, 1)
	q.class[q.classOf(it)].add(it, 1)
	if it.hold == nil {
		it.hold = q.holds[it.Tenant]
	}
	if it.hold == nil {
		it.hold = &hold{}
		q.holds[it.Tenant] = it.hold
		q.holdsGrown.entered(len(q.holds))
	}
	it.hold.add(it, 1)
}

// remove takes an item that waits out of all that knows of it.
func (q *Queue) remove(now time.Time, it *Item) {
	it.band.leave(it, q.o.AccountsMax)
	q.leave.remove(it)
	q.total.add(it, -1)
	q.class[q.classOf(it)].add(it, -1)
	if it.hold.add(it, -1); it.hold.requests == 0 {
		delete(q.holds, it.Tenant)
	}
	if q.holdsGrown.emptied(len(q.holds)) {
		q.holds = map[string]*hold{}
	}
	it.hold = nil
	l, k := it.band.line, it.kind()
	if it.band.waiting[k].requests == 0 {
		it.band.speed[k].dry()
	}
	for i := range l.bands {
		if l.bands[i].waiting[k].requests > 0 {
			return
		}
	}
	l.speed[k].dry()
	if l.waits() == 0 {
		l.empty = now
	}
}

// Cancel takes an item out whose client left. It says whether the item was waiting: if not, it was placed before, or timed out.
func (q *Queue) Cancel(now time.Time, it *Item) bool {
	if it.state != waiting {
		return false
	}
	q.remove(now, it)
	it.end()
	q.counts[q.classOf(it)].Left++
	return true
}

// end cuts what holds an item to the queue.
func (it *Item) end() { it.state, it.band, it.account = over, nil, nil }
