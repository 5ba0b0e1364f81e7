package gate

import (
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/usher"
)

// Pool is the pool that a request went to; the zero Pool where there are none.
type Pool = usher.Pool

// PoolStats is one pool as it stands.
type PoolStats = usher.PoolStats

// UsePools has requests that come by Enter go to pools of workers; nil: every worker may take every request. It is called after UseQueue.
func (g *Gate) UsePools(s *pools.Set) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.usePools(s)
}

// usePools is called with mu held.
func (g *Gate) usePools(s *pools.Set) {
	if g.usher.Use(s); g.queue == nil {
		return
	}
	if g.queue.Route = nil; s == nil {
		return
	}
	g.queue.Route = func(now time.Time, e *line.Entry) string {
		w, ours := e.Owner.(*Wait)
		if !ours {
			w = &Wait{Guest: usher.Guest{Entry: *e}} // somebody only asks
		}
		g.usher.Route(now, &w.Guest, false)
		return g.usher.LineOf(&w.Guest)
	}
}

// placeIn places a request on a worker of the first of its pools that can take it.
func (g *Gate) placeIn(now time.Time, w *Wait) error {
	to, err := g.usher.Place(now, &w.Guest, func() error { return g.place(w.a, w.Request) })
	if err == nil {
		w.a.Pool = to
	}
	return err
}

// PoolStats are all pools as they stand, that of no pool last; none where there are none.
func (g *Gate) PoolStats() []PoolStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.usher.Stats(g.now())
}

// PoolsOf are the names of the pools that a worker is in. It is for use within View.
func (v View) PoolsOf(w *fleet.Worker) []string { return v.gate.usher.PoolsOf(w) }
