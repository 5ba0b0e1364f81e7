package flow

import "time"

// line is all that waits for the same workers, and the accounts of those who waited.
type line struct {
	name  string
	o     *Options
	bands []band // by class
	speed [kinds]meter
	empty time.Time // since when nobody is in it
	known bool      // to the queue
}

// band is one class of a line.
//
// Tenants share it by the engine time they have had for their weight: the least goes next (start-time fair queueing, Goyal et al. 1996,
// without its rounds; deficit round robin was rejected, because it gives a tenant as much as a round allows before it looks at the next).
// A tenant who comes or returns starts from a little before where the others are (Options.Ahead): it is owed no more than that for the
// time in which it asked for nothing.
type band struct {
	line     *line
	served   float64 // of the account that went last, at that moment: seconds of engine time by weight
	accounts map[string]*account
	ready    [kinds]heap[float64, *account] // by what they had; those with an item of that kind
	idle     heap[float64, *account]        // the same; those with none, who have had more than start: nothing else of them is worth remembering
	spare    []*account                     // were forgotten, and are used again
	grown    grown

	oldest, newest *Item
	waiting        [kinds]sum
	credit         float64 // seconds of engine time that it is owed for having starved
	bias           [kinds]bias
	speed          [kinds]meter
	gone           bool // its line was forgotten
}

// account is one tenant's in a band.
type account struct {
	tenant  string
	seq     uint64
	weight  float64
	served  float64 // seconds of engine time by weight
	items   [kinds]order
	readyAt [kinds]int
	idleAt  int
	gone    bool
}

func newLine(name string, o *Options) *line {
	l := &line{name: name, o: o, bands: make([]band, len(o.Classes))}
	for i := range l.bands {
		b := &l.bands[i]
		b.line, b.accounts = l, map[string]*account{}
		b.ready[0].at = func(a *account) *int { return &a.readyAt[0] }
		b.ready[1].at = func(a *account) *int { return &a.readyAt[1] }
		b.idle.at = func(a *account) *int { return &a.idleAt }
	}
	return l
}

// waits is how many wait in the line.
func (l *line) waits() (n int) {
	for i := range l.bands {
		n += l.bands[i].waits()
	}
	return n
}

func (b *band) waits() int { return b.waiting[0].requests + b.waiting[1].requests }

// open finds the account of an item's tenant, or opens it at the start, with nothing waiting.
func (b *band) open(it *Item) *account {
	a := it.account
	if a == nil || !a.of(it) {
		a = b.accounts[it.Tenant]
	}
	if a == nil {
		if n := len(b.spare); n > 0 {
			a = b.spare[n-1]
			b.spare = b.spare[:n-1]
			*a = account{tenant: it.Tenant, readyAt: [kinds]int{-1, -1}}
		} else {
			a = &account{tenant: it.Tenant, readyAt: [kinds]int{-1, -1}}
		}
		b.accounts[it.Tenant] = a
		b.grown.entered(len(b.accounts))
		b.idle.add(b.start(), it.seq, a)
	} else if !b.over(a) {
		return a
	}
	a.served, a.seq, a.weight = b.start(), it.seq, it.weight()
	b.idle.fix(a, a.served)
	return a
}

// spareMax is how many accounts a band keeps to use again.
const spareMax = 256

// of says that an account is still the one of an item's tenant.
func (a *account) of(it *Item) bool { return !a.gone && a.tenant == it.Tenant }

// over says that nothing of an account is worth remembering: it is as good as a new one.
func (b *band) over(a *account) bool { return a.idleAt >= 0 && a.served <= b.start() }

// start is where an account begins.
func (b *band) start() float64 { return b.served - b.line.o.Ahead.Seconds() }

// enter puts an item in its place.
func (b *band) enter(it *Item) {
	a := b.open(it)
	if a.idleAt >= 0 {
		b.idle.remove(a)
	}
	a.weight = it.weight()
	it.band, it.account = b, a
	k := it.kind()
	a.items[k].add(it)
	if a.readyAt[k] < 0 {
		b.ready[k].add(a.served, a.seq, a)
	}
	b.waiting[k].add(it, 1)
	b.append(it)
}

// leave takes an item out of its place.
func (b *band) leave(it *Item, accountsMax int) {
	a, k := it.account, it.kind()
	a.items[k].remove(it)
	if a.items[k].root == nil {
		b.ready[k].remove(a)
	}
	b.waiting[k].add(it, -1)
	b.unlink(it)
	if a.readyAt[0] < 0 && a.readyAt[1] < 0 {
		b.idle.add(a.served, a.seq, a)
	}
	if b.waits() == 0 {
		b.credit = min(b.credit, 0)
	}
	b.trim(accountsMax)
}

// append links an item in by age. One that was taken back is older than most that wait: its place is looked for from the oldest on.
func (b *band) append(it *Item) {
	before := b.newest
	if before != nil && it.seq < before.seq {
		before = nil
		for n := b.oldest; n != nil && n.seq < it.seq; n = n.newer {
			before = n
		}
	}
	it.older, it.newer = before, b.oldest
	if before != nil {
		it.newer = before.newer
		before.newer = it
	} else {
		b.oldest = it
	}
	if it.newer != nil {
		it.newer.older = it
	} else {
		b.newest = it
	}
}

func (b *band) unlink(it *Item) {
	if it.older != nil {
		it.older.newer = it.newer
	} else {
		b.oldest = it.newer
	}
	if it.newer != nil {
		it.newer.older = it.older
	} else {
		b.newest = it.older
	}
	it.older, it.newer = nil, nil
}

// charge books engine time, below 0 what is given back, to an account and moves it among the others.
func (b *band) charge(a *account, nanoseconds int64) {
	a.served += float64(nanoseconds) / 1e9 / a.weight
	for k := range b.ready {
		if a.readyAt[k] >= 0 {
			b.ready[k].fix(a, a.served)
		}
	}
	if a.idleAt >= 0 {
		b.idle.fix(a, a.served)
	}
}

// trimMost is how many accounts are forgotten at one time: one more than can be left idle by what comes before, and few enough that no
// single turn pays for a whole crowd whose time is over at once.
const trimMost = 2

// trim forgets accounts that have nothing waiting and had no more than those that go next, and beyond the bound those that owe least.
func (b *band) trim(accountsMax int) {
	for range trimMost {
		if b.idle.len() == 0 || !b.over(b.idle.first()) && b.idle.len() <= accountsMax {
			break
		}
		a := b.idle.first()
		b.idle.remove(a)
		delete(b.accounts, a.tenant)
		*a = account{gone: true}
		if len(b.spare) < spareMax {
			b.spare = append(b.spare, a)
		}
	}
	if b.grown.emptied(len(b.accounts)) {
		b.accounts, b.spare = map[string]*account{}, nil
	}
}

// first is the item that goes next of the kinds that are not full; nil when there is none.
func (b *band) first(full *[kinds]bool) (best *Item) {
	var least *node[float64, *account]
	for k := range b.ready {
		if full[k] || b.ready[k].len() == 0 {
			continue
		}
		n := &b.ready[k].nodes[0]
		it := n.member.items[k].first
		if best == nil || n.before(least) || n.member == least.member && goesBefore(it, best) {
			best, least = it, n
		}
	}
	return best
}

// starves says that somebody in the band has waited for AgeAfter.
func (b *band) starves(now time.Time, after time.Duration) bool {
	return b.oldest != nil && now.Sub(b.oldest.pushed) >= after
}

// first is the item of the line that goes next: of a class that starved and is owed some time, else of the most urgent that has any.
func (l *line) first(now time.Time, full [][kinds]bool, o *Options) *Item {
	for i := 1; i < len(l.bands); i++ {
		b := &l.bands[i]
		if b.credit > 0 && b.starves(now, o.AgeAfter) {
			if it := b.first(&full[i]); it != nil {
				return it
			}
		}
	}
	for i := range l.bands {
		if it := l.bands[i].first(&full[i]); it != nil {
			return it
		}
	}
	return nil
}

// went books a class' turn to the classes below it that starve meanwhile, and to its own credit when that is why it went.
func (l *line) went(now time.Time, it *Item, o *Options) {
	seconds, below := float64(it.cost)/1e9, false
	for i := range l.bands {
		switch b := &l.bands[i]; {
		case b == it.band:
			below = true
			if b.credit > 0 && l.above(i) {
				b.credit -= seconds
			}
		case below && b.starves(now, o.AgeAfter):
			b.credit = min(b.credit+o.AgedShare*seconds, creditMax)
		}
	}
}

// creditMax bounds what a class saves up while it has no turn, as when its kind of room is full, in seconds of engine time.
const creditMax = 60

// above says that somebody waits in a class above the i-th.
func (l *line) above(i int) bool {
	for j := range i {
		if l.bands[j].waits() > 0 {
			return true
		}
	}
	return false
}

// rank is the most urgent class that has somebody waiting, and who in it has waited longest.
func (l *line) rank() (class int, oldest *Item) {
	for i := range l.bands {
		if it := l.bands[i].oldest; it != nil {
			return i, it
		}
	}
	return len(l.bands), nil
}

// longest is who has waited longest in the line, of any class.
func (l *line) longest() (oldest *Item) {
	for i := range l.bands {
		if it := l.bands[i].oldest; it != nil && (oldest == nil || it.seq < oldest.seq) {
			oldest = it
		}
	}
	return oldest
}
