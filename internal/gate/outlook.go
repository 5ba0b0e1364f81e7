package gate

import (
	"errors"
	"time"

	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
)

// Outlook is what would become of a request that came now.
type Outlook struct {
	line.Outlook
	Pool Pool // that it would go to, or wait for
}

// Outlook is what Enter would do with a request that came now. Nothing is reserved, pushed, counted or learned, and w is left as it is. policy
// is the one to go by, "" that in force. Without a queue nothing waits. Errors are those of Enter, or of SetPolicy.
func (g *Gate) Outlook(req sched.Request, w *Wait, policy string) (o Outlook, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if policy != "" {
		inForce := g.sched.Policy()
		if err := g.sched.SetPolicy(policy); err != nil {
			return o, err
		}
		defer g.sched.SetPolicy(inForce)
	}
	now := g.now()
	ask := &Wait{Entry: w.Entry, Needs: w.Needs, BestEffort: w.BestEffort}
	ask.Request, ask.Owner = &req, ask
	if g.queue == nil {
		g.route(now, ask, false)
		o.Outlook.Outlook, err = g.foresee(now, ask, &o.Pool)
		return o, err
	}
	ask.Among = g.home(ask)
	o.Outlook, err = g.queue.Outlook(now, &ask.Entry, func(*line.Entry) (sched.Outlook, error) { return g.foresee(now, ask, &o.Pool) })
	return o, err
}

// foresee is placeIn without the placing. Rows are those of the pool that it would go to, or wait for; of the whole fleet when none is open.
func (g *Gate) foresee(now time.Time, w *Wait, to *Pool) (o sched.Outlook, err error) {
	if len(w.steps) == 0 {
		return g.sched.Outlook(now, *w.Request)
	}
	for i := range w.steps {
		at := &w.steps[i]
		if !at.Open {
			continue
		}
		req := *w.Request
		req.Among, req.Heavy = g.within(now, at), req.Heavy && at.Why != pools.Directed
		there, failed := g.sched.Outlook(now, req)
		if to.Name == "" || failed == nil && (err != nil || there.Room) {
			o, err = there, failed
			*to = Pool{Name: g.pools.Name(at.Pool), Rule: at.Rule, Spilled: at.Overflow, Why: g.pools.Explain(*at)}
		}
		if failed == nil && there.Room {
			return o, nil
		}
	}
	if to.Name != "" {
		return o, err
	}
	o, err = g.sched.Outlook(now, *w.Request)
	shut := g.shut(now, w)
	var full *sched.ErrNoRoom
	if errors.As(shut, &full) && err == nil {
		o.Room = false
		return o, nil
	}
	*to = Pool{Name: g.pools.Name(w.steps[0].Pool), Rule: w.steps[0].Rule, Why: g.pools.Explain(w.steps[0])}
	return o, shut
}
