package flow

import "time"

// company is who came lately for the same room, of one class: the tenant that came last, and the last one that is another.
type company struct{ last, other sight }

type sight struct {
	tenant string
	at     time.Time // zero: never
}

// companyFor is for how long somebody who came is reckoned with: people pause for less between one request and the next.
const companyFor = 30 * time.Second

func (s *sight) near(now time.Time) bool { return !s.at.IsZero() && now.Sub(s.at) < companyFor }

// Came notes that somebody came, whether it will wait or not.
func (q *Queue) Came(now time.Time, it *Item) {
	all := q.company[it.Line]
	if all == nil {
		if len(q.company) >= q.o.LinesMax {
			clear(q.company)
		}
		all = make([]company, len(q.o.Classes))
		q.company[it.Line] = all
	}
	c := &all[q.classOf(it)]
	if c.last.tenant != it.Tenant {
		c.other = c.last
	}
	c.last = sight{it.Tenant, now}
}

// Yields says whether an item should leave room to others, who would go before it and might come at any moment: those of classes above its
// own; or of its class, tenants who ask for little, when it is one of several that its own tenant has waiting. Where everybody is alike
// nobody yields.
func (q *Queue) Yields(now time.Time, it *Item) bool {
	all := q.company[it.Line]
	if all == nil {
		return false
	}
	class := q.classOf(it)
	for i := range all[:class] {
		if all[i].last.near(now) {
			return true
		}
	}
	c := &all[class]
	other := &c.other
	if c.last.tenant != it.Tenant {
		other = &c.last
	}
	return other.near(now) && q.waitsOf(it) > 0
}

// waitsOf is how many others of an item's tenant, line and class wait.
func (q *Queue) waitsOf(it *Item) int {
	l := q.lines[it.Line]
	if l == nil {
		return 0
	}
	a := l.bands[q.classOf(it)].accounts[it.Tenant]
	if a == nil {
		return 0
	}
	n := a.items[0].all.requests + a.items[1].all.requests
	if it.state == waiting {
		n--
	}
	return n
}
