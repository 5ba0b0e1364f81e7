package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/forecast"
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/sched"
)

// Outlook is what would become of a request that came now.
type Outlook struct {
	line.Outlook
	Pool     Pool // that it would go to, or wait for
	Forecast forecast.Forecast
	Pools    []PoolForecast // each of them that could serve it; none where there are none
}

// Otherwise is what an outlook supposes to be other than it is.
type Otherwise struct {
	Policy  string   // to go by; "" that in force
	Without []string // ids of workers that could not be chosen; those that nobody has are passed over
}

// Outlook is what Enter would do with a request that came now. Nothing is reserved, pushed, counted or learned, and w is left as it is.
// Without a queue nothing waits. Errors are those of Enter, or of SetPolicy.
func (g *Gate) Outlook(req sched.Request, w *Wait, but Otherwise) (o Outlook, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if but.Policy != "" {
		inForce := g.sched.Policy()
		if err := g.sched.SetPolicy(but.Policy); err != nil {
			return o, err
		}
		defer g.sched.SetPolicy(inForce)
	}
	for _, worker := range g.fleet.Workers() {
		if slices.Contains(but.Without, worker.ID) {
			req.Tried = append(req.Tried, worker)
		}
	}
	now := g.now()
	defer func() {
		g.foretell(now, &o, &req)
		for i := range o.Rows {
			o.Rows[i].Why = why(now, &o.Rows[i])
		}
	}()
	ask := &Wait{Guest: w.Ask()}
	ask.Request, ask.Owner = &req, ask
	if g.queue == nil {
		g.usher.Route(now, &ask.Guest, false)
		o.Outlook.Outlook, o.Pool, err = g.usher.Foresee(now, &ask.Guest)
		return o, err
	}
	ask.Among = g.usher.Home(&ask.Guest)
	var to Pool
	o.Outlook, err = g.queue.Outlook(now, &ask.Entry, func(*line.Entry) (there sched.Outlook, err error) {
		there, to, err = g.usher.Foresee(now, &ask.Guest)
		return there, err
	})
	o.Pool = to
	return o, err
}

// why is what put a worker out of a choice, for one that is out with the reason and the time of its return, and for one in its slow start
// with the part that it may have.
func why(now time.Time, r *sched.Row) string {
	e, out := r.Worker.Ejection()
	switch {
	case r.Why == sched.WhyEjected && out && e.Until.After(now):
		return fmt.Sprintf("%s for another %.1f s: %s", r.Why, e.Until.Sub(now).Seconds(), e.Why)
	case r.Why == sched.WhyEjected && out:
		return fmt.Sprintf("%s, being tried: %s", r.Why, e.Why)
	case r.Why == sched.WhyRising:
		return fmt.Sprintf("%s: %.0f %% of its part", r.Why, 100*r.Worker.Rising(now))
	}
	return r.Why
}
