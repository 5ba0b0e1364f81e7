package flow

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// naive is the queue's order written down plainly: every choice looks at everything.
type naive struct {
	o        *Options
	items    []*Item
	accounts map[place]*purse
	served   map[place]float64 // by line and class
	credit   map[place]float64
	pops     int
	free     map[*Item]bool // charged to nobody, since there was no line yet
}

type place struct {
	line   string
	class  int
	tenant string
}

// purse is what one tenant had.
type purse struct {
	served, weight float64
	seq            uint64
}

func (n *naive) band(it *Item) place { return place{it.Line, it.Class, ""} }

// start is where accounts of a line and class begin.
func (n *naive) start(band place) float64 { return n.served[band] - n.o.Ahead.Seconds() }

func (n *naive) holds(p place) bool {
	for _, it := range n.items {
		if (place{it.Line, it.Class, it.Tenant}) == p {
			return true
		}
	}
	return false
}

func (n *naive) purse(it *Item, joins bool) *purse {
	p, band := place{it.Line, it.Class, it.Tenant}, n.band(it)
	a := n.accounts[p]
	if a == nil {
		a = &purse{served: n.start(band), seq: it.seq, weight: 1}
		n.accounts[p] = a
	}
	if joins && !n.holds(p) {
		a.served = max(a.served, n.start(band))
	}
	return a
}

// tidy forgets what nobody needs.
func (n *naive) tidy() {
	for p, a := range n.accounts {
		if !n.holds(p) && a.served <= n.start(place{p.line, p.class, ""}) {
			delete(n.accounts, p)
		}
	}
}

func (n *naive) push(it *Item) {
	a := n.purse(it, true)
	a.weight = it.weight()
	n.items = append(n.items, it)
}

func (n *naive) drop(it *Item) {
	kept := n.items[:0]
	for _, other := range n.items {
		if other != it {
			kept = append(kept, other)
		}
	}
	n.items = kept
	if !n.any(func(x *Item) bool { return n.band(x) == n.band(it) }) {
		n.credit[n.band(it)] = min(n.credit[n.band(it)], 0)
	}
	n.tidy()
}

func (n *naive) any(f func(*Item) bool) bool {
	for _, it := range n.items {
		if f(it) {
			return true
		}
	}
	return false
}

func (n *naive) correct(it *Item, nanoseconds int64) {
	if n.free[it] {
		delete(n.free, it)
		return
	}
	opens := n.accounts[place{it.Line, it.Class, it.Tenant}] == nil
	if opens && nanoseconds <= 0 {
		return
	}
	a := n.purse(it, false)
	if opens {
		a.weight = it.weight()
	}
	a.served += float64(nanoseconds) / 1e9 / a.weight
	n.tidy()
}

// starves says that somebody of a line and class waits too long.
func (n *naive) starves(now time.Time, band place) bool {
	return n.any(func(it *Item) bool { return n.band(it) == band && now.Sub(it.pushed) >= n.o.AgeAfter })
}

// best is who goes next of one line and class.
func (n *naive) best(band place, full func(*Item) bool) (best *Item) {
	for _, it := range n.items {
		if n.band(it) != band || full(it) {
			continue
		}
		if best == nil {
			best = it
			continue
		}
		a, b := n.purse(it, false), n.purse(best, false)
		switch {
		case a == b && goesBefore(it, best), a != b && (a.served < b.served || a.served == b.served && a.seq < b.seq):
			best = it
		}
	}
	return best
}

func (n *naive) line(now time.Time, name string, full func(*Item) bool) *Item {
	for c := 1; c < len(n.o.Classes); c++ {
		if b := (place{name, c, ""}); n.credit[b] > 0 && n.starves(now, b) {
			if it := n.best(b, full); it != nil {
				return it
			}
		}
	}
	for c := range n.o.Classes {
		if it := n.best(place{name, c, ""}, full); it != nil {
			return it
		}
	}
	return nil
}

// turns are the lines in their order.
func (n *naive) turns() (names []string) {
	type rank struct {
		class int
		seq   uint64
	}
	first, longest := map[string]rank{}, map[string]rank{}
	for _, it := range n.items {
		r, have := first[it.Line]
		if !have || it.Class < r.class || it.Class == r.class && it.seq < r.seq {
			first[it.Line] = rank{it.Class, it.seq}
		}
		if r, have := longest[it.Line]; !have || it.seq < r.seq {
			longest[it.Line] = rank{0, it.seq}
		}
	}
	by := first
	if len(first) > 1 {
		if (n.pops+1)%agedEvery == 0 {
			by = longest
		}
	}
	for len(by) > 0 {
		best := ""
		for name, r := range by {
			if b := by[best]; best == "" || r.class < b.class || r.class == b.class && r.seq < b.seq {
				best = name
			}
		}
		names = append(names, best)
		delete(by, best)
	}
	return names
}

func (n *naive) pop(now time.Time, full func(*Item) bool) *Item {
	for _, name := range n.turns() {
		it := n.line(now, name, full)
		if it == nil {
			continue
		}
		seconds, band := float64(it.cost)/1e9, n.band(it)
		if n.credit[band] > 0 && n.any(func(x *Item) bool { return x.Line == name && x.Class < it.Class }) {
			n.credit[band] -= seconds
		}
		for c := it.Class + 1; c < len(n.o.Classes); c++ {
			if b := (place{name, c, ""}); n.starves(now, b) {
				n.credit[b] = min(n.credit[b]+n.o.AgedShare*seconds, creditMax)
			}
		}
		a := n.purse(it, false)
		n.served[band] = max(n.served[band], a.served)
		a.served += seconds / a.weight
		n.drop(it)
		n.pops++
		return it
	}
	return nil
}

// TestTheQueueGoesInTheOrderThatIsWrittenDownPlainly runs random pushes, pops onto workers of which some are full, departures, time-outs,
// settlements and preemptions against the naive order.
func TestTheQueueGoesInTheOrderThatIsWrittenDownPlainly(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			o := DefaultOptions()
			o.ForgetAfter, o.AgeAfter, o.SecondsMax, o.RequestsMax = 1000*time.Hour, 4*time.Second, 1e6, 300
			for i := range o.Classes {
				o.Classes[i].WaitMax, o.Classes[i].Ceiling, o.Classes[i].ShedFrom = time.Hour, 1, 1
				o.Classes[i].Order = []Order{Shortest, FirstCome, ByDeadline}[(uint64(i)+seed)%3]
			}
			o.Ahead = time.Duration(seed%3) * time.Second
			m := &model{t: t, r: rand.New(rand.NewPCG(seed, 7)), q: queue(t, o), now: time.Unix(1e9, 0), lines: 1 + int(seed%4)}
			m.n = &naive{o: &m.q.o, free: map[*Item]bool{}, accounts: map[place]*purse{}, served: map[place]float64{}, credit: map[place]float64{}}
			for step := range 3000 {
				m.step()
				m.check()
				if t.Failed() {
					t.Fatalf("at step %d of seed %d", step, seed)
				}
			}
			if m.popped < 300 || m.expired < 10 || m.requeued < 10 {
				t.Errorf("%d popped, %d expired, %d requeued: the test shows too little", m.popped, m.expired, m.requeued)
			}
		})
	}
}

func queue(t testing.TB, o Options) *Queue {
	t.Helper()
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

type model struct {
	t     *testing.T
	r     *rand.Rand
	q     *Queue
	n     *naive
	now   time.Time
	lines int
	taken []*Item

	popped, expired, requeued int
}

func (m *model) step() {
	m.now = m.now.Add(time.Duration(m.r.IntN(200)) * time.Millisecond)
	switch r := m.r.IntN(20); {
	case r < 9:
		m.push()
	case r < 14:
		m.pop()
	case r == 14 && len(m.n.items) > 0:
		it := m.n.items[m.r.IntN(len(m.n.items))]
		if !m.q.Cancel(m.now, it) || m.q.Cancel(m.now, it) {
			m.t.Error("cancelling worked not at all, or twice")
		}
		m.n.drop(it)
	case r < 18 && len(m.taken) > 0:
		it := m.one()
		seconds := it.Seconds * m.r.Float64() * 2
		cost := it.cost
		m.q.Settle(it, seconds)
		m.n.correct(it, nanos(seconds)-cost)
		m.q.Settle(it, 1e6)
	case r == 18 && len(m.taken) > 0:
		it := m.one()
		m.q.TakeBack(m.now, it, 1)
		m.n.correct(it, -it.cost)
		m.q.Requeue(m.now, it)
		m.n.push(it)
		m.requeued++
	default:
		for _, it := range m.q.Expire(m.now, nil) {
			if it.leaves.After(m.now) {
				m.t.Errorf("timed out %v early", it.leaves.Sub(m.now))
			}
			m.n.drop(it)
			m.expired++
		}
	}
}

func (m *model) one() *Item {
	i := m.r.IntN(len(m.taken))
	it := m.taken[i]
	m.taken = append(m.taken[:i], m.taken[i+1:]...)
	return it
}

func (m *model) push() {
	it := &Item{Line: fmt.Sprint("line", m.r.IntN(m.lines)), Tenant: fmt.Sprint("t", m.r.IntN(6)), Class: m.r.IntN(3), Weight: float64(1 + m.r.IntN(3)),
		Heavy: m.r.IntN(5) == 0, Bytes: int64(m.r.IntN(1000)), Seconds: float64(m.r.IntN(4)) / 2, Prefill: m.r.ExpFloat64()}
	if m.r.IntN(4) == 0 {
		it.WaitMax = time.Duration(1 + m.r.IntN(int(20*time.Second)))
	}
	if !m.q.Waits(it) && m.r.IntN(2) == 0 {
		if m.q.Pass(m.now, it); it.band == nil {
			m.n.free[it] = true
		} else {
			a := m.n.purse(it, true)
			if a.seq == it.seq {
				a.weight = it.weight()
			}
			m.n.served[m.n.band(it)] = max(m.n.served[m.n.band(it)], a.served)
			a.served += float64(it.cost) / 1e9 / a.weight
			m.n.tidy()
		}
		m.taken = append(m.taken, it)
		return
	}
	if m.q.Push(m.now, it, 0.5) == nil {
		m.n.push(it)
	}
}

func (m *model) pop() {
	full := map[string]bool{}
	for i := range m.lines {
		for k := range kinds {
			full[fmt.Sprint("line", i, k)] = m.r.IntN(3) == 0
		}
	}
	isFull := func(it *Item) bool { return full[fmt.Sprint(it.Line, it.kind())] }
	for _, it := range m.q.Expire(m.now, nil) {
		m.n.drop(it)
		m.expired++
	}
	want := m.n.pop(m.now, isFull)
	got := m.q.Pop(m.now, func(it *Item) Verdict {
		switch {
		case !isFull(it):
			return Placed
		case full[it.Line+"0"] && full[it.Line+"1"]:
			return LineFull
		}
		return KindFull
	})
	if got != want {
		m.t.Errorf("popped %s, want %s", tell(got), tell(want))
	}
	if got != nil {
		m.taken = append(m.taken, got)
		m.popped++
	}
}

func tell(it *Item) string {
	if it == nil {
		return "nobody"
	}
	return fmt.Sprintf("%s/%d/%s seq %d key %d", it.Line, it.Class, it.Tenant, it.seq, it.key)
}

// check holds the sums against the items, and the trees against their rules.
func (m *model) check() {
	q, want := m.q, hold{}
	for _, it := range m.n.items {
		want.add(it, 1)
		if it.left != nil && (!goesBefore(it.left, it) || it.left.prio > it.prio) || it.right != nil && (!goesBefore(it, it.right) || it.right.prio > it.prio) {
			m.t.Errorf("the tree is out of order at %s", tell(it))
		}
		below := it.below
		if it.count(); it.below != below {
			m.t.Errorf("the sum below %s is %v, want %v", tell(it), below, it.below)
		}
	}
	classes := hold{}
	for _, h := range q.class {
		classes.join(h)
	}
	if q.total != want || classes != want || q.leave.len() != want.requests {
		m.t.Errorf("%+v wait and %d may time out, want %+v", q.total, q.leave.len(), want)
	}
}
