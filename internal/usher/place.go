package usher

import (
	"errors"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
)

// within says which workers a step allows; nil: all.
func (u *Usher) within(now time.Time, at *pools.Step) func(*fleet.Worker) bool {
	if at.Pool < 0 {
		return nil
	}
	return func(worker *fleet.Worker) bool {
		if !u.in[worker].Has(at.Pool) {
			return false
		}
		if !at.OnlyIdle {
			return true
		}
		l := worker.Load(now)
		return idle(&l)
	}
}

// Place has place put a routed request on a worker of the first of its pools that can take it, which then need not be the cheapest: the
// order of pools goes before what workers cost, and a spill's price was weighed when the order was made.
func (u *Usher) Place(now time.Time, g *Guest, place func() error) (to Pool, err error) {
	if len(g.steps) == 0 {
		return to, place()
	}
	req := g.Request
	heavy := req.Heavy
	defer func() { req.Among, req.Heavy = nil, heavy }()
	for i := range g.steps {
		at := &g.steps[i]
		if !at.Open {
			continue
		}
		// Where heavy requests are sent there are no light ones to be kept a lane for.
		req.Among, req.Heavy = u.within(now, at), heavy && at.Why != pools.Directed
		failed := place()
		if failed == nil {
			u.count(at)
			return u.pool(at), nil
		}
		var full *sched.ErrNoRoom
		if err == nil || errors.As(failed, &full) { // to wait for room is better than to be refused
			err = failed
		}
	}
	if err == nil {
		req.Among = nil
		err = u.shut(now, g)
	}
	return to, err
}

func (u *Usher) pool(at *pools.Step) Pool {
	return Pool{Name: u.set.Name(at.Pool), Rule: at.Rule, Spilled: at.Overflow, Why: u.set.Explain(*at)}
}

// Foresee is Place without the placing. Rows are those of the pool that it would go to, or wait for; of the whole fleet when none is open.
func (u *Usher) Foresee(now time.Time, g *Guest) (o sched.Outlook, to Pool, err error) {
	if len(g.steps) == 0 {
		o, err = u.sched.Outlook(now, *g.Request)
		return o, to, err
	}
	for i := range g.steps {
		at := &g.steps[i]
		if !at.Open {
			continue
		}
		req := *g.Request
		req.Among, req.Heavy = u.within(now, at), req.Heavy && at.Why != pools.Directed
		there, failed := u.sched.Outlook(now, req)
		if to.Name == "" || failed == nil && (err != nil || there.Room) {
			o, err, to = there, failed, u.pool(at)
		}
		if failed == nil && there.Room {
			return o, to, nil
		}
	}
	if to.Name != "" {
		return o, to, err
	}
	o, err = u.sched.Outlook(now, *g.Request)
	shut := u.shut(now, g)
	var full *sched.ErrNoRoom
	if errors.As(shut, &full) && err == nil {
		o.Room = false
		return o, to, nil
	}
	first := g.steps[0]
	return o, Pool{Name: u.set.Name(first.Pool), Rule: first.Rule, Why: u.set.Explain(first)}, shut
}

// shut is why no pool is open to a request.
func (u *Usher) shut(now time.Time, g *Guest) error {
	c, err := u.sched.Price(now, *g.Request)
	if err != nil {
		return err // nobody in the whole fleet could serve it
	}
	at := &g.steps[0]
	for i := range g.steps {
		if why := g.steps[i].Why; why == pools.Busy || why == pools.Full {
			if g.Request.MayWait {
				return &sched.ErrNoRoom{Model: g.Request.Model, Cost: c}
			}
			at = &g.steps[i]
			break
		}
	}
	return &sched.ErrNoWorker{Model: g.Request.Model, Why: "pool " + u.set.Explain(*at)}
}

// count is what went to a pool.
type count struct{ placed, spilled uint64 }

func (u *Usher) count(at *pools.Step) {
	n := &u.counts[len(u.counts)-1]
	if at.Pool >= 0 {
		n = &u.counts[at.Pool]
	}
	n.placed++
	if at.Overflow {
		n.spilled++
	}
}

// PoolStats is one pool as it stands. Counts are since the start.
type PoolStats struct {
	Pool               string // "any" for requests that no rule sends to a pool
	Workers, Idle      int    // that are up, and of these without a request
	Requests, Spilled  uint64 // placed there, and of these spilled
	KVTokens, InFlight int    // held by what is in flight on its workers
}

// Stats are all pools as they stand, that of no pool last; none where there are none.
func (u *Usher) Stats(now time.Time) []PoolStats {
	if u.set == nil {
		return nil
	}
	all := make([]PoolStats, len(u.counts))
	for i := range all {
		s, n := &all[i], u.counts[i]
		s.Pool, s.Requests, s.Spilled = u.set.Name(i), n.placed, n.spilled
		for _, worker := range u.fleet.Workers() {
			if in := u.in[worker]; !in.Has(i) && (i < len(all)-1 || in != 0) || worker.Draining() || !worker.Healthy(now) {
				continue
			}
			l := worker.Load(now)
			s.Workers, s.KVTokens, s.InFlight = s.Workers+1, s.KVTokens+l.KVHeldTokens, s.InFlight+l.InFlight
			if idle(&l) {
				s.Idle++
			}
		}
	}
	return all
}

// PoolsOf are the names of the pools that a worker is in.
func (u *Usher) PoolsOf(w *fleet.Worker) (names []string) {
	in := u.in[w]
	if in == 0 {
		return nil
	}
	for i, name := range u.set.Names() {
		if in.Has(i) {
			names = append(names, name)
		}
	}
	return names
}
