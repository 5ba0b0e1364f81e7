package gate

import (
	"errors"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
)

// Pool is the pool that a request went to; the zero Pool where there are none.
type Pool struct {
	Name    string // "any" for no pool
	Rule    string // that matched; "" none
	Spilled bool
	Why     string // in words
}

// UsePools has requests that come by Enter go to pools of workers. It is called after UseQueue and before the
// first worker is added.
func (g *Gate) UsePools(s *pools.Set) {
	g.pools, g.poolCounts = s, make([]poolCount, len(s.Names())+1)
	if g.queue != nil {
		g.queue.Route = func(now time.Time, e *line.Entry) string {
			w, ours := e.Owner.(*Wait)
			if !ours {
				w = &Wait{Entry: *e} // somebody only asks
			}
			g.route(now, w, false)
			return w.line(s)
		}
	}
}

// members are the pools that a worker is in.
func (g *Gate) members(id string, labels []string) pools.Bits {
	if g.pools == nil {
		return 0
	}
	return g.pools.Members(id, labels)
}

// home is the name of the pool that a request belongs to when load and its own weight are left aside: prefills are heavy, or not, among
// those of their pool.
func (g *Gate) home(w *Wait) string {
	if g.pools == nil || w.Request.Only != "" {
		return ""
	}
	r := g.asks(w)
	r.Heavy = false
	pool, _ := g.pools.Home(r)
	return g.pools.Name(pool)
}

// route works out which pools may take a request. One that has waited is in its line since then.
func (g *Gate) route(now time.Time, w *Wait, waiting bool) {
	w.steps = w.steps[:0]
	if g.pools == nil || w.Request.Only != "" {
		return
	}
	w.steps = g.pools.Route(g.asks(w), func(pool int) pools.State { return g.poolState(now, w, pool, waiting) }, w.steps)
}

// line is where a request waits: with those of the pool that it would go to.
func (w *Wait) line(s *pools.Set) string {
	if len(w.steps) == 0 {
		return line.Name(w.Request.Model, w.Request.Only, "")
	}
	to := w.steps[0].Pool
	for i := range w.steps {
		if w.steps[i].Open {
			to = w.steps[i].Pool
			break
		}
	}
	return line.Name(w.Request.Model, w.Request.Only, s.Name(to))
}

// asks is a request as rules look at it. An adapter is asked for by its own name in place of its model's.
func (g *Gate) asks(w *Wait) pools.Request {
	req := w.Request
	r := pools.Request{Model: req.Model, Tenant: req.Tenant, PromptTokens: req.PromptTokens, TotalTokens: req.PromptTokens, KVTokensPeak: req.PromptTokens,
		Needs: w.Needs, BestEffort: w.BestEffort, Heavy: w.Item.Heavy}
	if req.Generates {
		answer := g.outputs.Lengths(cost.Asking{Model: req.Model, Tenant: req.Tenant, Shape: cost.Shape{MaxTokens: req.MaxTokens}})
		r.TotalTokens += int(answer.Mean)
		r.KVTokensPeak += int(answer.P90)
	}
	for _, worker := range g.fleet.Workers() {
		if m, ok := worker.Model(req.Model); ok {
			if m.Parent != "" {
				r.Model, r.Adapter = m.Parent, req.Model
			}
			break
		}
	}
	return r
}

// poolState is how a pool is for a request, now. The wait there is worked out only where something hangs on it.
func (g *Gate) poolState(now time.Time, w *Wait, pool int, waiting bool) (st pools.State) {
	held, known := 0, true
	for _, worker := range g.fleet.Workers() {
		e := g.ends[worker]
		if e == nil || !e.in.Has(pool) || worker.Draining() || !worker.Healthy(now) || worker.ModelsKnown() && w.Request.Model != "" && !serves(worker, w.Request.Model) {
			continue
		}
		l := worker.Load(now)
		st.Workers++
		if idle(&l) {
			st.IdleWorkers++
		}
		held, known = held+l.KVHeldTokens, known && worker.KVTokensMax() > 0
		st.KVTokensMax += worker.KVTokensMax()
	}
	if st.KVTokensHeld = held; !known {
		st.KVTokensMax = 0
	}
	if st.Workers > 0 && g.pools.Spills(pool) {
		st.WaitSeconds = g.poolWait(now, w, pool, waiting)
	}
	return st
}

func idle(l *fleet.Load) bool { return l.InFlight+l.ForeignRunning+l.ForeignWaiting == 0 }

// poolWait is how long the request's prefill would wait in a pool, in seconds: in the engines' queues and in ours. One that waits already
// has shown how long it takes.
func (g *Gate) poolWait(now time.Time, w *Wait, pool int, waiting bool) (seconds float64) {
	req := *w.Request
	req.Among = g.within(now, &pools.Step{Pool: pool})
	if c, err := g.sched.Price(now, req); err == nil {
		seconds = c.Wait
	}
	name := line.Name(w.Request.Model, w.Request.Only, g.pools.Name(pool))
	switch {
	case g.queue == nil:
	case waiting && w.Item.Line == name:
		seconds = max(seconds, now.Sub(w.Item.Pushed()).Seconds())
	case !waiting:
		seconds += g.queue.LineWait(now, name, &w.Item).Seconds()
	}
	return seconds
}

// within says which workers a step allows; nil: all.
func (g *Gate) within(now time.Time, at *pools.Step) func(*fleet.Worker) bool {
	if at.Pool < 0 {
		return nil
	}
	return func(worker *fleet.Worker) bool {
		e := g.ends[worker]
		if e == nil || !e.in.Has(at.Pool) {
			return false
		}
		if !at.OnlyIdle {
			return true
		}
		l := worker.Load(now)
		return idle(&l)
	}
}

// placeIn places a request on a worker of the first of its pools that can take it, which then need not be the cheapest: the order of
// pools goes before what workers cost, and a spill's price was weighed when the order was made.
func (g *Gate) placeIn(now time.Time, w *Wait) (err error) {
	if len(w.steps) == 0 {
		return g.place(w.a, w.Request)
	}
	heavy := w.Request.Heavy
	defer func() { w.Request.Among, w.Request.Heavy = nil, heavy }()
	for i := range w.steps {
		at := &w.steps[i]
		if !at.Open {
			continue
		}
		// Where heavy requests are sent there are no light ones to be kept a lane for.
		w.Request.Among, w.Request.Heavy = g.within(now, at), heavy && at.Why != pools.Directed
		failed := g.place(w.a, w.Request)
		if failed == nil {
			g.countPool(at)
			w.a.Pool = Pool{Name: g.pools.Name(at.Pool), Rule: at.Rule, Spilled: at.Overflow, Why: g.pools.Explain(*at)}
			return nil
		}
		var full *sched.ErrNoRoom
		if err == nil || errors.As(failed, &full) { // to wait for room is better than to be refused
			err = failed
		}
	}
	if err == nil {
		w.Request.Among = nil
		err = g.shut(now, w)
	}
	return err
}

func (g *Gate) countPool(at *pools.Step) {
	n := &g.poolCounts[len(g.poolCounts)-1]
	if at.Pool >= 0 {
		n = &g.poolCounts[at.Pool]
	}
	n.placed++
	if at.Overflow {
		n.spilled++
	}
}

// shut is why no pool is open to a request.
func (g *Gate) shut(now time.Time, w *Wait) error {
	c, err := g.sched.Price(now, *w.Request)
	if err != nil {
		return err // nobody in the whole fleet could serve it
	}
	at := &w.steps[0]
	for i := range w.steps {
		if why := w.steps[i].Why; why == pools.Busy || why == pools.Full {
			if w.Request.MayWait {
				return &sched.ErrNoRoom{Model: w.Request.Model, Cost: c}
			}
			at = &w.steps[i]
			break
		}
	}
	return &sched.ErrNoWorker{Model: w.Request.Model, Why: "pool " + g.pools.Explain(*at)}
}

// PoolStats is one pool as it stands. Counts are since the start.
type PoolStats struct {
	Pool               string // "any" for requests that no rule sends to a pool
	Workers, Idle      int    // that are up, and of these without a request
	Requests, Spilled  uint64 // placed there, and of these spilled
	KVTokens, InFlight int    // held by what is in flight on its workers
}

// poolCount is what went to a pool.
type poolCount struct{ placed, spilled uint64 }

// PoolStats are all pools as they stand, that of no pool last; none where there are none.
func (g *Gate) PoolStats() []PoolStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pools == nil {
		return nil
	}
	now, all := g.now(), make([]PoolStats, len(g.poolCounts))
	for i := range all {
		s, n := &all[i], g.poolCounts[i]
		s.Pool, s.Requests, s.Spilled = g.pools.Name(i), n.placed, n.spilled
		for _, worker := range g.fleet.Workers() {
			if e := g.ends[worker]; e == nil || !e.in.Has(i) && (i < len(all)-1 || e.in != 0) || worker.Draining() || !worker.Healthy(now) {
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

// PoolsOf are the names of the pools that a worker is in. It is for use within View.
func (v View) PoolsOf(w *fleet.Worker) (names []string) {
	e := v.gate.ends[w]
	if e == nil || v.gate.pools == nil {
		return nil
	}
	for i, name := range v.gate.pools.Names() {
		if e.in.Has(i) {
			names = append(names, name)
		}
	}
	return names
}
