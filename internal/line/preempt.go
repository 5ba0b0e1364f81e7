package line

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/flow"
)

// Running work of a preemptible class gives way to requests of classes above it that have waited for as long as theirs may:
//
//	for e, back := l.Preempt(now); e != nil; e, back = l.Preempt(now)   // after Next: e was placed, and those in back gave way
//	if !l.Keep(e) { ... }                                               // before the first byte of an answer goes out
//	l.Return(now, e)                                                    // waits again, in its old place

// Sight is what preemption asks of the owner.
type Sight struct {
	// Serves says whether a worker could take an entry at all, if it had room.
	Serves func(e *Entry, w *fleet.Worker) bool
	// Room says whether Place would place an entry that has waited now. It may not call the Line.
	Room func(e *Entry) bool
}

const (
	// calmFor is for how long nobody is looked for to give way after nobody was found.
	calmFor = 50 * time.Millisecond
	// soughtWorkers is on how many workers work is sought that may give way, soughtRuns how many requests of one of them may have to, and
	// spared of how many of these it is tried whether they are superfluous.
	soughtWorkers, soughtRuns, spared = 16, 64, 8
)

// run follows a placed entry whose work may be taken back.
func (l *Line) run(e *Entry) {
	if e.Course == nil || l.Sight.Room == nil || !l.MayGiveWay(&e.Item) {
		return
	}
	l.running = append(l.running, e)
	l.nth++
	e.at, e.nth = len(l.running), l.nth
}

// still ends run.
func (l *Line) still(e *Entry) {
	if e.at == 0 {
		return
	}
	last := len(l.running) - 1
	moved := l.running[last]
	l.running[e.at-1], moved.at = moved, e.at
	l.running[last], e.at = nil, 0
	l.running = l.running[:last]
}

// Recallable says whether the entry's work may be taken back, until Keep.
func (e *Entry) Recallable() bool { return e.at > 0 }

// GaveWay says that the entry's work was taken back, and that it has not returned yet.
func (e *Entry) GaveWay() bool { return e.back }

// Keep says that a byte of the answer goes out: from now on the work is not taken back any more. false: it was, before.
func (l *Line) Keep(e *Entry) bool {
	l.still(e)
	return !e.back
}

// Return has an entry wait again that gave way, in its old place.
func (l *Line) Return(now time.Time, e *Entry) {
	if e.back {
		e.back, e.since = false, now
		l.Requeue(now, &e.Item)
	}
}

// Left notes how long an entry waited that was taken out of the queue because its client left.
func (e *Entry) Left(now time.Time) { e.Waited = now.Sub(e.since) }

// Preempt places the most urgent of those who have waited for too long where work gives way to it, which is released there, and whose owner
// is to end it at its engine; nil: nobody is so urgent, or nothing may give way. Next has been tried before.
func (l *Line) Preempt(now time.Time) (e *Entry, back []*Entry) {
	if len(l.running) == 0 || l.Waiting() == 0 || now.Before(l.calm) {
		return nil, nil
	}
	l.Urgent(now, func(it *flow.Item) bool {
		urgent := it.Owner.(*Entry)
		l.stand(now, urgent, true)
		if back = l.inTheWay(now, urgent); len(back) > 0 {
			e = urgent
		}
		return e == nil
	})
	if e == nil || !l.placeWithout(now, e, back) {
		l.calm = now.Add(calmFor)
		return nil, nil
	}
	for _, b := range back {
		l.takeBack(now, b)
	}
	l.Take(now, &e.Item)
	e.Waited = now.Sub(e.since)
	l.run(e)
	return e, back
}

// placeWithout places an entry as if others were not there: before anything is given up for it, so that nothing is if that fails after all.
func (l *Line) placeWithout(now time.Time, e *Entry, others []*Entry) (placed bool) {
	l.aside(now, others, func() {
		if d, err := l.place(e); err == nil {
			l.took(e, d)
			placed, e.Err = true, nil
		}
	})
	return placed
}

// takeBack releases running work, as it was judged. Its prompt counts as cached where its prefill is over.
func (l *Line) takeBack(now time.Time, e *Entry) {
	prefill, _, _ := e.Course.Reservation().Progress(now)
	l.still(e)
	e.back = true
	l.sched.Release(e.Course, e.Request.Chain, now, fleet.Cancelled, prefill >= 1 && e.spent > 0)
	l.TakeBack(now, &e.Item, e.spent)
}

// judge looks at the running work on workers that serve an entry. What is spent is engine time, of which it was predicted to take so much.
func (l *Line) judge(now time.Time, e *Entry) {
	l.runs = l.runs[:0]
	for _, r := range l.running {
		at := r.Course.Reservation()
		if w := at.Worker(); w.Gone() || !l.Sight.Serves(e, w) {
			continue
		}
		it := &r.Item
		prefill, answer, left := at.Progress(now)
		l.runs = append(l.runs, flow.Run{Item: it, Spent: it.Prefill*prefill + max(0, it.Seconds-it.Prefill)*answer, Left: left})
	}
	// Of more requests than an engine has slots the youngest have not begun.
	slices.SortFunc(l.runs, func(a, b flow.Run) int { return cmp.Compare(entryOf(&b).nth, entryOf(&a).nth) })
	beyond := map[*fleet.Worker]int{}
	for i := range l.runs {
		r := &l.runs[i]
		one := entryOf(r)
		w := one.Course.Reservation().Worker()
		n, known := beyond[w]
		if !known {
			n = -slotsFree(now, w)
		}
		if beyond[w] = n - 1; n > 0 {
			r.Spent = 0
		}
		one.spent = r.Spent
	}
}

// slotsFree is how many of a worker's batch slots are free, below 0 when requests wait for one; some where it does not tell its slots.
func slotsFree(now time.Time, w *fleet.Worker) int {
	if w.SlotsMax() == 0 {
		return 1
	}
	load := w.Load(now)
	return w.SlotsMax() - load.InFlight - load.ForeignRunning - load.ForeignWaiting
}

func entryOf(r *flow.Run) *Entry { return r.Item.Owner.(*Entry) }

// inTheWay is the work that has to give way for an entry to be placed: of the least urgent class that it takes, and of that with the least
// engine time spent on it. nil: there is none, or it would be placed without.
func (l *Line) inTheWay(now time.Time, e *Entry) (best []*Entry) {
	l.judge(now, e)
	l.runs = l.GiveWay(now, &e.Item, l.runs)
	if len(l.runs) == 0 || l.Sight.Room(e) {
		return nil
	}
	var sought []*fleet.Worker
	var least toll
	for i := range l.runs {
		w := entryOf(&l.runs[i]).Course.Reservation().Worker()
		if slices.Contains(sought, w) {
			continue
		}
		if sought = append(sought, w); len(sought) > soughtWorkers {
			break
		}
		if set, t := l.enough(now, e, w, l.runs[i:]); set != nil && (best == nil || t.before(least)) {
			best, least = set, t
		}
		if i == 0 && len(best) == 1 {
			break // nothing is worth less than the first
		}
	}
	return best
}

// toll is what it takes that an entry can be placed.
type toll struct {
	class  int     // the most urgent of what gives way
	wasted float64 // seconds of engine time
}

func (t toll) before(o toll) bool {
	return cmp.Or(cmp.Compare(o.class, t.class), cmp.Compare(t.wasted, o.wasted)) < 0
}

// enough is as few of a worker's runs, the first ones rather than the later, as make room there for an entry; nil: all of them do not.
func (l *Line) enough(now time.Time, e *Entry, w *fleet.Worker, runs []flow.Run) (set []*Entry, t toll) {
	for i := 0; i < len(runs) && len(set) < soughtRuns; i++ {
		if one := entryOf(&runs[i]); one.Course.Reservation().Worker() == w {
			set = append(set, one)
		}
	}
	room := func(without []*Entry) (is bool) {
		l.aside(now, without, func() { is = l.Sight.Room(e) })
		return is
	}
	if !room(set) {
		return nil, t
	}
	least := 1 + sort.Search(len(set)-1, func(n int) bool { return room(set[:n+1]) })
	set = set[:least]
	for i := len(set) - 2; i >= 0 && i > len(set)-2-spared; i-- {
		if others := slices.Delete(slices.Clone(set), i, i+1); room(others) {
			set = others
		}
	}
	t.class = set[0].Item.Class
	for _, s := range set {
		t.class = min(t.class, s.Item.Class)
		t.wasted += s.spent
	}
	return set, t
}

// aside calls f as if entries, all on one worker, were not there.
func (l *Line) aside(now time.Time, all []*Entry, f func()) {
	for _, e := range all {
		e.Course.Reservation().Aside(now)
	}
	f()
	for _, e := range all {
		e.Course.Reservation().Regard()
	}
}

// Due is when those who wait have to be looked at next, by Late or by Preempt; false: when something waits again.
func (l *Line) Due() (time.Time, bool) {
	due, some := l.NextExpiry()
	if !some || len(l.running) == 0 {
		return due, some
	}
	if at, urgent := l.NextUrgent(); urgent {
		if at.Before(l.calm) {
			at = l.calm
		}
		if at.Before(due) {
			due = at
		}
	}
	return due, true
}
