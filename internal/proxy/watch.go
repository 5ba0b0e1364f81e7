package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prefix"
)

// What requests and telemetry tell the gate while they go on. Each call takes the lock for a moment.

// firstToken moves a reservation from prefill to decoding. clean says that the time was this prefill's alone.
func (g *Gate) firstToken(r *fleet.Reservation, now time.Time) (clean bool, prefill time.Duration, batch fleet.Load) {
	g.mu.Lock()
	defer g.mu.Unlock()
	clean, prefill = r.FirstToken(now)
	return clean, prefill, r.Worker().Load(now)
}

// release ends an attempt. A prompt that was entered as expected and never computed, for all that is known, is withdrawn from the
// worker's assumed cache: a miss too many costs a prefill, a hit that is none costs a wait for nothing besides.
func (g *Gate) release(a *attempt, c prefix.Chain, o fleet.Outcome, computed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a.reservation.Release(g.now(), o)
	if w := a.decision.Worker; !computed && !w.Gone() {
		g.index.Withdraw(w.Slot, c, a.decision.MatchedBlocks)
	}
}

func (g *Gate) fault(w *fleet.Worker, kind fleet.Fault) (ejected bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fleet.Fault(w, g.now(), kind)
}

func (g *Gate) succeeded(w *fleet.Worker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.Succeeded(g.now())
}

func (g *Gate) busy(w *fleet.Worker, retryAfter time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.Busy(g.now(), retryAfter)
}

// InFlight is the number of our requests on a worker, for telemetry to tell foreign load by.
func (g *Gate) InFlight(id string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil {
		return w.InFlight()
	}
	return 0
}

// Observe takes one scrape of a worker's engine.
func (g *Gate) Observe(id string, incarnation uint64, c fleet.Counts) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil && w.Incarnation == incarnation {
		w.Observe(c)
	}
}

// Describe takes what a worker's engine says about itself.
func (g *Gate) Describe(id string, incarnation uint64, info fleet.Info) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.fleet.Lookup(id)
	if w == nil || w.Incarnation != incarnation {
		return
	}
	if len(info.Models) == 0 {
		info.Models = w.Info().Models // configured, or told before
	}
	w.SetInfo(info)
	g.index.SetCapacity(w.Slot, g.cacheBytes(info))
}

// cacheBytes is the size of an engine's KV cache in prompt bytes: as it tells it, else its slots full of context.
func (g *Gate) cacheBytes(info fleet.Info) int64 {
	tokens, model := info.KVTokensMax, ""
	for _, m := range info.Models {
		if model == "" {
			model = m.ID
		}
		if info.KVTokensMax == 0 {
			tokens = max(tokens, m.ContextMax*max(1, info.SlotsMax))
		}
	}
	return int64(g.ratio.Bytes(model, tokens))
}

// Unreachable notes that nobody answers at a worker's address.
func (g *Gate) Unreachable(id string, incarnation uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil && w.Incarnation == incarnation {
		w.Unreachable()
	}
}

// Reachable notes that somebody is at a worker's address, though telemetry learns nothing there.
func (g *Gate) Reachable(id string, incarnation uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil && w.Incarnation == incarnation {
		w.Reachable()
	}
}

// Restarted starts a worker's next incarnation: its engine began anew at the same address, with empty caches.
func (g *Gate) Restarted(id string, incarnation uint64) (*fleet.Worker, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.fleet.Lookup(id)
	if old == nil || old.Incarnation != incarnation {
		return nil, fmt.Errorf("worker %s: incarnation %d is gone", id, incarnation)
	}
	w, err := g.fleet.Restart(id, g.now())
	if err != nil {
		return nil, err
	}
	e := g.ends[old]
	delete(g.ends, old)
	g.index.Forget(old.Slot)
	g.fleet.SlotFree(old.Slot)
	g.costs.Forget(old)
	next := &endpoint{worker: w, client: e.client, key: e.key}
	next.gone, next.leave = context.WithCancelCause(context.Background())
	g.ends[w] = next
	return w, nil
}
