package flow

import "time"

// Run is one taken item on its worker, as the owner knows it.
type Run struct {
	Item *Item
	// Sent says that a byte of its answer went to the client: it can not be taken back any more.
	Sent bool
	// Spent and Left are the seconds since it began on its worker, and until it will be done.
	Spent, Left float64
}

// Urgent calls f with the next item of each line and class that has to be placed now or would be too late, or whose class may take the
// place of preemptible work after the time that it has waited, the most urgent class first; f returns false to end it. Pop has been tried before.
func (q *Queue) Urgent(now time.Time, f func(*Item) bool) {
	for _, l := range q.turns(now) {
		for i := range l.bands {
			var none [kinds]bool
			if it := l.bands[i].first(&none); it != nil && q.urgent(now, l, it) && !f(it) {
				return
			}
		}
	}
}

// urgent says that waiting for the turn after the next one is too long for an item.
func (q *Queue) urgent(now time.Time, l *line, it *Item) bool {
	if after := q.o.Classes[q.classOf(it)].PreemptAfter; after > 0 && now.Sub(it.pushed) >= after {
		return true
	}
	_, gap, known := l.speed[it.kind()].rate(now)
	return known && it.leaves.Sub(now).Seconds() < 2*gap
}

// Preempt chooses which of the running items gives way to one that waits, among those on workers that could serve it; false: none may.
// Only work of a preemptible class below its own is taken, that has sent no byte, was not taken back as often as may be, and still has the
// time to begin again; and which would be done too late for the one that waits, or in more time than is lost by taking it back. Of these
// the least urgent class gives way, and in it the one on which least was spent.
func (q *Queue) Preempt(now time.Time, it *Item, runs []Run) (int, bool) {
	best := -1
	for i := range runs {
		if r := &runs[i]; q.givesWay(now, it, r) && (best < 0 || q.givesWayBefore(r, &runs[best])) {
			best = i
		}
	}
	return best, best >= 0
}

func (q *Queue) givesWay(now time.Time, it *Item, r *Run) bool {
	class := q.classOf(r.Item)
	if r.Item.state != taken || r.Sent || class <= q.classOf(it) || !q.o.Classes[class].Preemptible || r.Item.times >= q.o.PreemptTimesMax {
		return false
	}
	if !r.Item.StartBy.IsZero() && r.Item.StartBy.Sub(now).Seconds() <= r.Spent+r.Left {
		return false
	}
	return r.Left > min(r.Spent, it.leaves.Sub(now).Seconds())
}

func (q *Queue) givesWayBefore(a, b *Run) bool {
	if x, y := q.classOf(a.Item), q.classOf(b.Item); x != y {
		return x > y
	}
	if a.Spent != b.Spent {
		return a.Spent < b.Spent
	}
	return a.Item.seq < b.Item.seq
}
