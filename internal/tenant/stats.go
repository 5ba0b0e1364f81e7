package tenant

import (
	"maps"
	"time"
)

// Stats is one tenant as it stands.
type Stats struct {
	Name               string
	InFlight           int
	RequestsLastMinute int
	TokensLastMinute   int   // reserved ones included
	SpentToday         Money // reserved ones included
	Limits             Limits
	// Totals since the start. What was reserved and neither given back nor in flight was used, and Exceeded comes to it.
	Begun, NeverRan            uint64
	Reserved, Returned, Beyond uint64            // tokens
	Refused                    map[string]uint64 // by limit
}

// Stats are most tenants from the one at that place on, in the order in which they first asked; next is where the following ones begin, 0 when
// these were the last. So the owner's lock is never held for all of a hundred thousand tenants at a time.
func (b *Book) Stats(now time.Time, from, most int) (some []Stats, next int) {
	end := min(from+most, len(b.order))
	for i := min(from, end); i < end; i++ {
		a := b.order[i]
		a.at(now.Unix())
		s := a.stats
		s.Name, s.InFlight, s.SpentToday = a.name, a.inFlight, a.spent
		if t := b.table.tenants[a.name]; t != nil {
			s.Limits = t.Limits
		}
		s.RequestsLastMinute, s.TokensLastMinute = int(a.requests.sum), int(a.tokens.sum)
		s.Refused = maps.Clone(a.stats.Refused)
		some = append(some, s)
	}
	if end < len(b.order) {
		return some, end
	}
	return some, 0
}
