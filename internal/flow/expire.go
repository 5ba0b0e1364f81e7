package flow

import (
	"slices"
	"time"
)

// sweepEvery is how often lines are looked at for old age.
const sweepEvery = time.Second

// sweep takes out those whose time is up, and forgets lines that nobody stood in for long.
func (q *Queue) sweep(now time.Time) {
	for q.leave.len() > 0 {
		it := q.leave.first()
		if now.Before(it.leaves) {
			break
		}
		it.band.bias[it.kind()].saw(it.expected, now.Sub(it.pushed).Seconds())
		q.remove(now, it)
		it.end()
		q.counts[q.classOf(it)].TimedOut++
		q.overdue = append(q.overdue, it)
	}
	if now.Sub(q.swept) < sweepEvery {
		return
	}
	q.swept = now
	for i := len(q.order) - 1; i >= 0; i-- {
		if l := q.order[i]; l.waits() == 0 && now.Sub(l.empty) >= q.o.ForgetAfter {
			q.forget(i)
		}
	}
}

// forget drops the i-th line, in which nobody waits.
func (q *Queue) forget(i int) {
	l := q.order[i]
	if q.order = slices.Delete(q.order, i, i+1); len(q.order) == 0 {
		q.order, q.turn = nil, nil
	}
	for i := range l.bands {
		l.bands[i].gone = true
	}
	delete(q.lines, l.name)
	if q.linesGrown.emptied(len(q.lines)) {
		q.lines = map[string]*line{}
	}
}

// forgetOne makes room for a line: the one goes that has been empty longest. It returns false when somebody waits in each.
func (q *Queue) forgetOne() bool {
	oldest := -1
	for i, l := range q.order {
		if l.waits() == 0 && (oldest < 0 || l.empty.Before(q.order[oldest].empty)) {
			oldest = i
		}
	}
	if oldest < 0 {
		return false
	}
	q.forget(oldest)
	return true
}

// Expire appends to into those that have waited for as long as they may. Each is given out once, and can never be placed any more.
func (q *Queue) Expire(now time.Time, into []*Item) []*Item {
	q.sweep(now)
	into = append(into, q.overdue...)
	q.overdue = nil
	return into
}

// NextExpiry is when Expire should be called next; false: when something waits again.
func (q *Queue) NextExpiry() (time.Time, bool) {
	if len(q.overdue) > 0 {
		return q.overdue[0].leaves, true
	}
	if q.leave.len() == 0 {
		return time.Time{}, false
	}
	return q.leave.first().leaves, true
}
