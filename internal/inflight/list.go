package inflight

import (
	"cmp"
	"slices"
	"time"
)

// Filter says which requests are wanted; what is empty is not looked at.
type Filter struct {
	ID, Worker, Tenant, Model, Pool, Class, State string

	Limit int // at most so many, those inside longest; 0: all
}

// Request is one that is inside, as of one moment.
type Request struct {
	ID, Path string
	About
	Placement
	State    State
	Started  time.Time
	Placed   time.Time // zero: it is not
	Tries    int       // workers that it was sent to
	Tokens   int       // of its answer, so far
	Standing *Standing // of one that waits in the queue
}

// Listing is what List found.
type Listing struct {
	Requests []Request // the oldest first
	Found    int       // that the filter wants, beyond the limit too
	Inside   int       // of all
	States   [5]int    // of all, by state
}

// List returns the requests that a filter wants.
func (b *Book) List(f Filter) (l Listing) {
	if b == nil {
		return l
	}
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		for e := s.first; e != nil; e = e.next {
			l.Inside++
			l.States[e.state.Load()]++
			if e.wanted(&f) {
				l.Requests = append(l.Requests, e.request())
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(l.Requests, func(a, b Request) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	l.Found = len(l.Requests)
	if f.Limit > 0 && len(l.Requests) > f.Limit {
		l.Requests = l.Requests[:f.Limit]
	}
	for i := range l.Requests {
		if r := &l.Requests[i]; r.State == Waiting {
			r.Standing = b.standing(r.ID, r.Started)
		}
	}
	return l
}

// standing is how a request stands that waits, nil when it does not wait any more. The few that are shown are asked one by one: how one stands is
// worked out under the queue's lock.
func (b *Book) standing(id string, started time.Time) *Standing {
	s := b.shardOf(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.first; e != nil; e = e.next {
		if e.id == id && e.started.Equal(started) && e.waiter != nil {
			if at, waits := b.stands(e.waiter); waits {
				return &at
			}
		}
	}
	return nil
}

// Count is how many requests are inside, by state.
func (b *Book) Count() (inside int, states [5]int) {
	l := b.List(Filter{State: "none"})
	return l.Inside, l.States
}

func (e *Entry) wanted(f *Filter) bool {
	for _, pair := range [...][2]string{{f.ID, e.id}, {f.Worker, e.placement.Worker}, {f.Tenant, e.about.Tenant}, {f.Model, e.about.Model}, {f.Pool, e.placement.Pool}, {f.Class, e.about.Class}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return f.State == "" || f.State == State(e.state.Load()).String()
}

func (e *Entry) request() Request {
	return Request{ID: e.id, Path: e.path, About: e.about, Placement: e.placement, State: State(e.state.Load()), Started: e.started, Placed: e.placed, Tries: e.tries, Tokens: int(e.tokens.Load())}
}
