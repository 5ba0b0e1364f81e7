package flow

import (
	"cmp"
	"slices"
	"time"
)

// Verdict is what came of trying to place an item.
type Verdict uint8

// The verdicts.
const (
	Placed    Verdict = iota
	KindFull          // no room for it, and none for others of its line that are as light, or as heavy, as it is
	ClassFull         // the same, but only for others of its class and those below: those above may find room where it does not
	LineFull          // no room for anybody in its line
	QueueFull         // nor for anybody else: nothing more is tried
)

// agedEvery is how many turns among lines go by class until one goes by who has waited longest: lines may share workers, and then the
// urgent ones of one line would starve those of another.
const agedEvery = 20

// Pop places the next item: place is called with one after the other, in the order in which they deserve to go, until it has placed one,
// which is then taken, charged to its tenant and returned; nil when none could be. place reserves what the item needs and may not call the
// queue; it is called at most twice for each class of a line. Those whose time is up are passed over and come from Expire.
func (q *Queue) Pop(now time.Time, place func(*Item) Verdict) *Item {
	q.sweep(now)
	for _, l := range q.turns(now) {
		full := slices.Grow(q.full[:0], len(l.bands))[:len(l.bands)]
		clear(full)
		q.full = full
		for it := l.first(now, full, &q.o); it != nil; it = l.first(now, full, &q.o) {
			from, kind := 0, it.kind()
			switch place(it) {
			case Placed:
				q.take(now, l, it)
				return it
			case KindFull:
			case ClassFull:
				from = q.classOf(it)
			case LineFull:
				for i := range full {
					full[i][1-kind] = true
				}
			default:
				return nil
			}
			for i := from; i < len(full); i++ {
				full[i][kind] = true
			}
		}
	}
	return nil
}

// turns are the lines that have somebody waiting, in their order: by class, then by who has waited longest.
func (q *Queue) turns(now time.Time) []*line {
	clear(q.turn)
	q.turn = q.turn[:0]
	for _, l := range q.order {
		if l.waits() > 0 {
			q.turn = append(q.turn, l)
		}
	}
	if len(q.turn) < 2 {
		return q.turn
	}
	byAge := (q.taken+1)%agedEvery == 0
	slices.SortFunc(q.turn, func(a, b *line) int {
		if byAge {
			return cmp.Compare(a.longest().seq, b.longest().seq)
		}
		classA, oldestA := a.rank()
		classB, oldestB := b.rank()
		return cmp.Or(cmp.Compare(classA, classB), cmp.Compare(oldestA.seq, oldestB.seq))
	})
	return q.turn
}

// take books an item that was placed.
func (q *Queue) take(now time.Time, l *line, it *Item) {
	b, a, k := it.band, it.account, it.kind()
	l.went(now, it, &q.o)
	l.speed[k].went(now, it.cost)
	b.speed[k].went(now, it.cost)
	b.bias[k].saw(it.expected, now.Sub(it.pushed).Seconds())
	b.served = max(b.served, a.served)
	b.charge(a, it.cost)
	q.remove(now, it)
	it.state, it.taken = taken, now
	q.taken++
	q.counts[q.classOf(it)].Popped++
}

// Pass books an item that was placed without waiting, see Waits: it can be settled and taken back like any other. Its tenant is charged
// where others are known to have waited lately; before that there is nobody to be fair to.
func (q *Queue) Pass(now time.Time, it *Item) {
	if it.state == waiting || it.state == taken || it.state == aside {
		return
	}
	q.prepare(now, it)
	it.state, it.taken, it.band, it.account = taken, now, nil, nil
	q.counts[q.classOf(it)].Passed++
	if l := q.lines[it.Line]; l != nil {
		b := &l.bands[q.classOf(it)]
		it.band, it.account = b, b.open(it)
		b.served = max(b.served, it.account.served)
		b.charge(it.account, it.cost)
		b.trim(q.o.AccountsMax)
	}
}

// Settle corrects what an item's tenant was charged to what it took: seconds of engine time, 0 when it never ran. Once is enough; more
// than that, and items that are not taken, change nothing.
func (q *Queue) Settle(it *Item, seconds float64) {
	if it.state != taken {
		return
	}
	q.correct(it, nanos(seconds)-it.cost)
	it.end()
}

// correct charges a difference, also to an account that was forgotten meanwhile because it had nothing waiting: it would start again from
// where the others are, so that only what is still owed counts.
func (q *Queue) correct(it *Item, nanoseconds int64) {
	b, a := it.band, it.account
	if b == nil || b.gone {
		return
	}
	if !a.of(it) || b.over(a) {
		if nanoseconds <= 0 && b.accounts[it.Tenant] == nil {
			return
		}
		a = b.open(it)
	}
	b.charge(a, nanoseconds)
	b.trim(q.o.AccountsMax)
}

// Retry puts a taken item back whose worker failed it, as old as it is, and charged for nothing. The time on the worker is no waiting, but
// StartBy stays what it is. Its Line may be another one by now. It returns false for an item that is not taken.
func (q *Queue) Retry(now time.Time, it *Item) bool {
	if it.state != taken {
		return false
	}
	q.correct(it, -it.cost)
	it.leaves = it.leaves.Add(now.Sub(it.taken))
	q.reenter(it)
	return true
}

// reenter has an item wait again that was taken.
func (q *Queue) reenter(it *Item) {
	if !it.StartBy.IsZero() && it.StartBy.Before(it.leaves) {
		it.leaves = it.StartBy
	}
	it.expected, it.band, it.account = -1, nil, nil
	l := q.lines[it.Line]
	if l == nil {
		l = newLine(it.Line, &q.o)
	}
	q.enter(l, it)
}
