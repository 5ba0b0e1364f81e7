// Package usher leads requests to the workers of their pools: the rules of pools before the room rule of sched, for the gate and for replays.
// It is pure, and guarded by what guards the fleet.
//
//	u := usher.New(fleet, scheduler, outputs)
//	u.Behind(line)                       // where requests wait; without it nobody does
//	u.Use(set)                           // without it every worker may take every request
//	u.Admit(worker, labels)              // as workers come
//	g.Among = u.Home(g)                  // whose prefills tell whether its own is heavy
//	u.Route(now, g, false)               // which pools may take it; again, with true, for one that has waited
//	to, err := u.Place(now, g, place)    // on a worker of the first of them that can
package usher

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
)

// Guest is one request on its way. Its owner sets what Entry asks for, Needs and BestEffort.
type Guest struct {
	line.Entry
	// Needs and BestEffort are what pools' rules look at besides.
	Needs      llmapi.Needs
	BestEffort bool

	steps []pools.Step // the pools that may take it; none: any worker
	of    *pools.Set   // of the steps
}

// Ask is the same request for somebody who only asks what would become of it, with memory of its own.
func (g *Guest) Ask() Guest { return Guest{Entry: g.Entry, Needs: g.Needs, BestEffort: g.BestEffort} }

// Pool is the pool that a request went to; the zero Pool where there are none.
type Pool struct {
	Name    string // "any" for no pool
	Rule    string // that matched; "" none
	Spilled bool
	Why     string // in words
}

// Usher knows which pools each worker is in.
type Usher struct {
	fleet   *fleet.Fleet
	sched   *sched.Scheduler
	outputs *cost.Outputs
	set     *pools.Set                 // nil: every worker may take every request
	line    *line.Line                 // nil: nobody waits here
	labels  map[*fleet.Worker][]string // of all workers, key=value
	in      map[*fleet.Worker]pools.Bits
	counts  []count // by pool, the last of requests for no pool
}

// New makes an usher without pools.
func New(f *fleet.Fleet, s *sched.Scheduler, o *cost.Outputs) *Usher {
	return &Usher{fleet: f, sched: s, outputs: o, labels: map[*fleet.Worker][]string{}, in: map[*fleet.Worker]pools.Bits{}}
}

// Behind has requests be led behind a line in which they may wait.
func (u *Usher) Behind(l *line.Line) { u.line = l }

// Use has requests go to pools of workers from now on; nil: every worker may take every request. Pools that keep their name keep their
// counts. Requests that wait are routed anew when they are looked at next.
func (u *Usher) Use(s *pools.Set) {
	old, counts := u.set, u.counts
	u.set, u.counts = s, nil
	clear(u.in)
	if s == nil {
		return
	}
	u.counts = make([]count, len(s.Names())+1)
	for i, n := range counts {
		to := len(u.counts) - 1
		if i < len(counts)-1 {
			to = slices.Index(s.Names(), old.Name(i))
		}
		if to >= 0 {
			u.counts[to] = n
		}
	}
	for w, labels := range u.labels {
		u.in[w] = s.Members(w.ID, labels)
	}
}

// Admit notes the pools that a worker is in, by its id and its labels (key=value).
func (u *Usher) Admit(w *fleet.Worker, labels []string) {
	if u.labels[w] = labels; u.set != nil {
		u.in[w] = u.set.Members(w.ID, labels)
	}
}

// Follow has a worker's next instance be in the pools of the one before it.
func (u *Usher) Follow(old, next *fleet.Worker) {
	u.labels[next], u.in[next] = u.labels[old], u.in[old]
}

// Forget drops a worker that is gone.
func (u *Usher) Forget(w *fleet.Worker) {
	delete(u.labels, w)
	delete(u.in, w)
}

// Home is the name of the pool that a request belongs to when load and its own weight are left aside: prefills are heavy, or not, among
// those of their pool.
func (u *Usher) Home(g *Guest) string {
	if u.set == nil || g.Request.Only != "" {
		return ""
	}
	r := u.asks(g)
	r.Heavy = false
	pool, _ := u.set.Home(r)
	return u.set.Name(pool)
}

// Route works out which pools may take a request. One that has waited is in its line since then.
func (u *Usher) Route(now time.Time, g *Guest, waiting bool) {
	g.steps, g.of = g.steps[:0], u.set
	if u.set == nil || g.Request.Only != "" {
		return
	}
	g.steps = u.set.Route(u.asks(g), func(pool int) pools.State { return u.state(now, g, pool, waiting) }, g.steps)
}

// LineOf is where a routed request waits: with those of the pool that it would go to.
func (u *Usher) LineOf(g *Guest) string {
	if len(g.steps) == 0 {
		return line.Name(g.Request.Model, g.Request.Only, "")
	}
	to := g.steps[0].Pool
	for i := range g.steps {
		if g.steps[i].Open {
			to = g.steps[i].Pool
			break
		}
	}
	return line.Name(g.Request.Model, g.Request.Only, u.set.Name(to))
}

// asks is a request as rules look at it. An adapter is asked for by its own name in place of its model's.
func (u *Usher) asks(g *Guest) pools.Request {
	req := g.Request
	r := pools.Request{Model: req.Model, Tenant: req.Tenant, PromptTokens: req.PromptTokens, TotalTokens: req.PromptTokens, KVTokensPeak: req.PromptTokens,
		Needs: g.Needs, BestEffort: g.BestEffort, Heavy: g.Item.Heavy}
	if req.Generates {
		answer, n := u.outputs.Lengths(forecast.Asking(req)), max(req.Answers, 1)
		r.TotalTokens += n * int(answer.Mean)
		r.KVTokensPeak += n * int(answer.P90)
	}
	for _, worker := range u.fleet.Workers() {
		if m, ok := worker.Model(req.Model); ok {
			if m.Parent != "" {
				r.Model, r.Adapter = m.Parent, req.Model
			}
			break
		}
	}
	return r
}

// takes says whether a worker is up and may serve the request's model.
func takes(worker *fleet.Worker, now time.Time, model string) bool {
	if worker.Draining() || !worker.Healthy(now) {
		return false
	}
	_, serves := worker.Model(model)
	return serves || model == "" || !worker.ModelsKnown()
}

// Serves says whether a worker could take a routed request, if it had room: it is in one of the pools that may, open or not.
func (u *Usher) Serves(now time.Time, g *Guest, worker *fleet.Worker) bool {
	if only := g.Request.Only; only != "" && worker.ID != only || !takes(worker, now, g.Request.Model) {
		return false
	}
	if g.of != u.set { // others are in force since
		u.Route(now, g, true)
	}
	return len(g.steps) == 0 || slices.ContainsFunc(g.steps, func(at pools.Step) bool { return at.Pool < 0 || u.in[worker].Has(at.Pool) })
}

// state is how a pool is for a request, now. The wait there is worked out only where something hangs on it.
func (u *Usher) state(now time.Time, g *Guest, pool int, waiting bool) (st pools.State) {
	held, known := 0, true
	for _, worker := range u.fleet.Workers() {
		if !u.in[worker].Has(pool) || !takes(worker, now, g.Request.Model) {
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
	if st.Workers > 0 && u.set.Spills(pool) {
		st.WaitSeconds = u.poolWait(now, g, pool, waiting)
	}
	return st
}

func idle(l *fleet.Load) bool { return l.InFlight+l.ForeignRunning+l.ForeignWaiting == 0 }

// poolWait is how long the request's prefill would wait in a pool, in seconds: in the engines' queues and in ours. One that waits already
// has shown how long it takes.
func (u *Usher) poolWait(now time.Time, g *Guest, pool int, waiting bool) (seconds float64) {
	req := *g.Request
	req.Among = u.within(now, &pools.Step{Pool: pool})
	if c, err := u.sched.Price(now, req); err == nil {
		seconds = c.Wait
	}
	name := line.Name(g.Request.Model, g.Request.Only, u.set.Name(pool))
	switch {
	case u.line == nil:
	case waiting && g.Item.Line == name:
		seconds = max(seconds, now.Sub(g.Item.Pushed()).Seconds())
	case !waiting:
		seconds += u.line.LineWait(now, name, &g.Item).Seconds()
	}
	return seconds
}

// Wait is how long a request's prefill would wait, in our queue and in the engines' of the pool that it would go to.
func (u *Usher) Wait(now time.Time, g *Guest) (wait time.Duration) {
	u.Route(now, g, false)
	req := *g.Request
	for i := range g.steps {
		if g.steps[i].Open {
			req.Among = u.within(now, &g.steps[i])
			break
		}
	}
	if c, err := u.sched.Price(now, req); err == nil {
		wait = time.Duration(c.Wait * float64(time.Second))
	}
	if u.line != nil {
		wait += u.line.LineWait(now, u.LineOf(g), &g.Item)
	}
	return wait
}
