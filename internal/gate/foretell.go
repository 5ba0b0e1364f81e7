package gate

import (
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/sched"
)

// PoolForecast is what a request would take in one pool, as its workers are on the mean.
type PoolForecast struct {
	Pool    string
	Workers int // that could serve it
	forecast.Forecast
}

// foretell says what a request would take on the worker that it would go to, and in each pool.
func (g *Gate) foretell(now time.Time, o *Outlook, req *sched.Request) {
	if o.Worker == nil {
		return
	}
	o.Forecast = g.casts.Expect(now, &o.Decision, req, false)
	at := map[string]int{}
	there := map[string][]cost.Conditions{}
	for i := range o.Rows {
		r := &o.Rows[i]
		if r.Worker == nil || !r.Worker.Healthy(now) || r.Worker.Draining() || req.Model != "" && r.Worker.ModelsKnown() && !serves(r.Worker, req.Model) {
			continue
		}
		for _, name := range g.usher.PoolsOf(r.Worker) {
			n, known := at[name]
			if !known {
				n = len(o.Pools)
				at[name] = n
				o.Pools = append(o.Pools, PoolForecast{Pool: name})
			}
			p := &o.Pools[n]
			p.Workers++
			p.CachedTokens = max(p.CachedTokens, r.MatchedTokens) // where it would most likely go
			there[name] = append(there[name], cost.ConditionsAt(r.Worker, g.costs.Of(r.Worker).Constants(), r.Worker.Load(now), float64(req.PromptTokens)))
		}
	}
	for i := range o.Pools {
		p := &o.Pools[i]
		p.Forecast = g.casts.Under(cost.Across(there[p.Pool]), p.CachedTokens, req)
	}
}
