package sim

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/usher"
)

// Pool is what came of the requests that went to a pool's workers. Times are in seconds.
type Pool struct {
	Name            string // "any" of requests that no rule leads to a pool
	Workers         int
	Placed, Spilled int
	// Times are those of finished requests, from when they came. Spills are when spilled requests came.
	TTFT, E2E Distribution
	Spills    []time.Duration
}

// SpilledBetween is how many requests that came in a stretch of the run were spilled to the pool.
func (p *Pool) SpilledBetween(from, to time.Duration) (n int) {
	for _, at := range p.Spills {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// Pool is the pool of that name; nil: there is none.
func (r *Result) Pool(name string) *Pool {
	for _, p := range r.Pools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// workerID is what a worker is called to its routers.
func workerID(number int) string { return fmt.Sprintf("w%d", number) }

// PoolsIn are the pools that a fleet's workers are in, in the order of their configuration and that of no pool last; none of no set. A
// pool without workers is an error.
func PoolsIn(set *pools.Set, fleet []lineup.Worker) (all []*Pool, err error) {
	if set == nil {
		return nil, nil
	}
	for i, name := range set.Names() {
		p := &Pool{Name: name}
		for n, w := range fleet {
			if set.Members(workerID(n), w.Labels()).Has(i) {
				p.Workers++
			}
		}
		if p.Workers == 0 {
			return nil, fmt.Errorf("pool %s has no workers in the fleet; label some, as in --fleet h100-8b:6,h100-8b:2@%s, or @KEY=VALUE for a pool that goes by labels", name, name)
		}
		all = append(all, p)
	}
	return append(all, &Pool{Name: set.Name(-1), Workers: len(fleet)}), nil
}

// usePools has requests go to pools of workers.
func (r *router) usePools() {
	c := &r.lab.config
	if c.Pools == nil {
		return
	}
	r.usher.Use(c.Pools)
	for i, w := range r.workers {
		r.usher.Admit(w, c.Fleet[i].Labels())
	}
	if r.line != nil {
		r.line.Route = func(now time.Time, e *line.Entry) string {
			g := &e.Owner.(*flight).guest
			r.usher.Route(now, g, false)
			return r.usher.LineOf(g)
		}
	}
}

// pooled notes where a request went.
func (r *Result) pooled(f *flight, to usher.Pool) {
	if f.pool = r.Pool(to.Name); f.pool == nil {
		return
	}
	f.pool.Placed++
	if to.Spilled {
		f.pool.Spilled++
		f.pool.Spills = append(f.pool.Spills, f.came)
	}
}
