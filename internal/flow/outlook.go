package flow

import "time"

// Outlook is what would become of an item that came now.
type Outlook struct {
	Refusal *Refusal // nil: it might wait, unless it is shed
	Shed    float64  // how likely it would be refused by chance, 0 to 1
	Before  int      // that wait now and would go first
	Wait    time.Duration
	Known   bool          // Wait is: somebody had a turn in the line before
	Most    time.Duration // it might wait
}

// Outlook says what Push would of a copy of an item, and keeps nothing of it.
func (q *Queue) Outlook(now time.Time, it Item) (o Outlook) {
	q.prepare(now, &it)
	q.seq--
	l := q.lines[it.Line]
	if l == nil {
		l = newLine(it.Line, &q.o)
	}
	o.Most = it.leaves.Sub(now)
	if _, part := q.shedding(&it); part > 0 {
		o.Shed = min(part, 1)
	}
	if o.Refusal = q.mayWait(now, l, &it, 2); o.Refusal == nil { // no chance is so high as 2
		o.Before = q.before(now, l, &it)
		o.Wait, o.Known = q.wait(now, l, &it)
	}
	return o
}
