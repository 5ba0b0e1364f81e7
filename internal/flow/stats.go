package flow

import (
	"cmp"
	"slices"
	"time"
)

// Counts are what became of a class' items since the start.
type Counts struct {
	Pushed, Passed, Popped, Left, TimedOut, Preempted uint64
	// Refused by reason.
	Full, Crowded, Shed, Late uint64
	WastedSeconds             float64 // engine time spent on work that was taken back
}

func (c *Counts) refused(r Reason) {
	switch r {
	case Full:
		c.Full++
	case Crowded:
		c.Crowded++
	case Shed:
		c.Shed++
	case Late:
		c.Late++
	}
}

// ClassStats is one class as it stands.
type ClassStats struct {
	Class   string
	Waiting int
	Heavy   int     // of these
	Seconds float64 // of predicted engine time that waits
	Oldest  time.Duration
	Counts
}

// LineStats is one line as it stands.
type LineStats struct {
	Line     string
	Waiting  int
	Seconds  float64
	Speed    float64 // seconds of predicted work that go in a second; 0: not known
	Accounts int     // tenants that are remembered
}

// Stats is the queue as it stands.
type Stats struct {
	Waiting int
	Bytes   int64
	Seconds float64
	Fill    float64 // share of the queue's bounds that is taken, by the nearest one
	Tenants int     // that have something waiting
	Classes []ClassStats
	Lines   []LineStats // by name
}

// Stats looks at all lines; it is for pages and metrics.
func (q *Queue) Stats(now time.Time) Stats {
	s := Stats{Waiting: q.total.requests, Bytes: q.total.bytes, Seconds: float64(q.total.nanos) / 1e9, Fill: q.fill(q.total), Tenants: len(q.holds)}
	for i, c := range q.o.Classes {
		s.Classes = append(s.Classes, ClassStats{Class: c.Name, Counts: q.counts[i]})
	}
	for _, l := range q.order {
		line := LineStats{Line: l.name, Waiting: l.waits()}
		for k := range l.speed {
			rate, _, _ := l.speed[k].rate(now)
			line.Speed += rate
		}
		for i := range l.bands {
			b, c := &l.bands[i], &s.Classes[i]
			seconds := float64(b.waiting[0].nanos+b.waiting[1].nanos) / 1e9
			line.Seconds += seconds
			line.Accounts += len(b.accounts)
			c.Waiting += b.waits()
			c.Heavy += b.waiting[1].requests
			c.Seconds += seconds
			if b.oldest != nil {
				c.Oldest = max(c.Oldest, now.Sub(b.oldest.pushed))
			}
		}
		s.Lines = append(s.Lines, line)
	}
	slices.SortFunc(s.Lines, func(a, b LineStats) int { return cmp.Compare(a.Line, b.Line) })
	return s
}

// TenantStats is what one tenant has waiting.
type TenantStats struct {
	Tenant  string
	Waiting int
	Bytes   int64
	Seconds float64 // of predicted engine time
}

// Tenants are those with most work waiting, at most so many.
func (q *Queue) Tenants(most int) []TenantStats {
	all := make([]TenantStats, 0, len(q.holds))
	for name, h := range q.holds {
		all = append(all, TenantStats{name, h.requests, h.bytes, float64(h.nanos) / 1e9})
	}
	slices.SortFunc(all, func(a, b TenantStats) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Tenant, b.Tenant))
	})
	return slices.Clip(all[:min(len(all), most)])
}
