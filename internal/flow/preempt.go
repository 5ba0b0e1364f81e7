package flow

import (
	"cmp"
	"slices"
	"time"
)

// Run is one taken item on its worker, as the owner knows it.
type Run struct {
	Item *Item
	// Spent is the engine time that taking it back would waste, and Left the time until it will be done by itself, both in seconds.
	Spent, Left float64
}

// Urgent calls f with the next item of each line, class and kind that has to be placed now or would be too late, or of whose class somebody
// has waited there for so long that it may take the place of preemptible work; the most urgent class first. f returns false to end it, and
// may change the queue then only. Pop has been tried before.
func (q *Queue) Urgent(now time.Time, f func(*Item) bool) {
	for _, l := range q.turns(now) {
		for i := range l.bands {
			for k := range kinds {
				full := [kinds]bool{true, true}
				full[k] = false
				if it := l.bands[i].first(&full); it != nil && q.urgent(now, &l.bands[i], it) && !f(it) {
					return
				}
			}
		}
	}
}

// urgent says that the band has waited for too long, or that waiting for the turn after the next one is too long for its next item.
func (q *Queue) urgent(now time.Time, b *band, it *Item) bool {
	if after := q.o.Classes[q.classOf(it)].PreemptAfter; after > 0 && b.starves(now, after) {
		return true
	}
	_, gap, known := b.line.speed[it.kind()].rate(now)
	return known && it.leaves.Sub(now).Seconds() < 2*gap
}

// NextUrgent is when somebody who waits may take the place of preemptible work for having waited for so long; false: nobody will.
func (q *Queue) NextUrgent() (next time.Time, some bool) {
	for _, l := range q.order {
		for i := range l.bands {
			after, b := q.o.Classes[i].PreemptAfter, &l.bands[i]
			if after == 0 || b.oldest == nil {
				continue
			}
			if at := b.oldest.pushed.Add(after); !some || at.Before(next) {
				next, some = at, true
			}
		}
	}
	return next, some
}

// Preempts says that there are classes below an item's whose work may give way to it.
func (q *Queue) Preempts(it *Item) bool {
	return slices.ContainsFunc(q.o.Classes[q.classOf(it)+1:], func(c Class) bool { return c.Preemptible })
}

// MayGiveWay says that a taken item may be taken back for the sake of one of a class above its own: it is of a preemptible class, and was
// not taken back as often as may be.
func (q *Queue) MayGiveWay(it *Item) bool {
	class := q.classOf(it)
	return it.state == taken && class > 0 && q.o.Classes[class].Preemptible && it.times < q.o.PreemptTimesMax
}

// GiveWay picks from running items those that may give way to one that waits, and puts them in the order in which they should: the least
// urgent class first, and in it those on which least was spent. Only work of a class below its own is taken that still has the time to begin
// again, and that will not be done soon enough by itself.
func (q *Queue) GiveWay(now time.Time, it *Item, runs []Run) []Run {
	runs = slices.DeleteFunc(runs, func(r Run) bool { return !q.givesWay(now, it, &r) })
	slices.SortFunc(runs, func(a, b Run) int {
		return cmp.Or(cmp.Compare(q.classOf(b.Item), q.classOf(a.Item)), cmp.Compare(a.Spent, b.Spent), cmp.Compare(a.Item.seq, b.Item.seq))
	})
	return runs
}

func (q *Queue) givesWay(now time.Time, it *Item, r *Run) bool {
	if !q.MayGiveWay(r.Item) || q.classOf(r.Item) <= q.classOf(it) {
		return false
	}
	if by := r.Item.StartBy; !by.IsZero() && by.Sub(now).Seconds() <= now.Sub(r.Item.taken).Seconds()+r.Left {
		return false
	}
	return r.Left > q.soon(now, it)
}

// soonShare is for how much longer than its class' PreemptAfter an item waits for work that is as good as done, as a share of that time.
const soonShare = 0.25

// soon is how many seconds an item may still wait for work to be done by itself.
func (q *Queue) soon(now time.Time, it *Item) float64 {
	soon := max(0, it.leaves.Sub(now).Seconds())
	if after := q.o.Classes[q.classOf(it)].PreemptAfter; after > 0 {
		soon = min(soon, soonShare*after.Seconds())
	}
	return soon
}

// Take books a waiting item as placed out of its turn: work gave way to it.
func (q *Queue) Take(now time.Time, it *Item) {
	if it.state == waiting {
		q.take(now, it.band.line, it)
	}
}

// TakeBack takes a taken item from its worker, where wasted seconds of engine time were spent on it in vain: its tenant is charged for
// nothing. It is to be put back by Requeue, unless its client leaves before. It returns false for an item that is not taken.
func (q *Queue) TakeBack(now time.Time, it *Item, wasted float64) bool {
	if it.state != taken {
		return false
	}
	q.correct(it, -it.cost)
	it.end()
	it.state = aside
	it.times++
	it.wasted += float64(nanos(wasted)) / 1e9
	c := &q.counts[q.classOf(it)]
	c.Preempted++
	c.WastedSeconds += float64(nanos(wasted)) / 1e9
	return true
}

// Requeue lets an item wait again that was taken back, with its place in line: it is as old as it is. The bounds do not count, since it was
// admitted before; those in flight are bounded elsewhere. It may wait for as long as one that comes now, since it did not fail by itself,
// but StartBy stays what it is. It returns false for an item that was not taken back.
func (q *Queue) Requeue(now time.Time, it *Item) bool {
	if it.state != aside {
		return false
	}
	it.leaves = now.Add(q.waitMax(it))
	q.reenter(it)
	return true
}
