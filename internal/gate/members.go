package gate

import (
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/life"
)

// What happens to a worker between its coming and its going.

// Drain stops new requests to a worker. move has those placed elsewhere that have no byte of their answer yet, as if it had left; without
// it they end where they are. Streams under way go on either way.
func (g *Gate) Drain(id string, move bool) error {
	g.mu.Lock()
	if err := g.fleet.Drain(id); err != nil {
		g.mu.Unlock()
		return err
	}
	var gone *life.Context
	if w := g.fleet.Lookup(id); move && w.InFlight() > 0 {
		next := *g.ends[w]
		gone = next.Gone
		g.reach(next) // for those that come when it is taken back
	}
	g.pump() // those who waited for it alone have waited for nothing
	g.mu.Unlock()
	if gone != nil {
		gone.End(ErrWorkerLeft)
	}
	return nil
}

// Undrain ends a drain: the worker goes on as it was, its caches included.
func (g *Gate) Undrain(id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.fleet.Undrain(id); err != nil {
		return err
	}
	g.pump()
	return nil
}

// Relabel has pools go by other labels of a worker. What it has in flight stays where it is.
func (g *Gate) Relabel(id string, labels []string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.fleet.Lookup(id)
	if w == nil {
		return fmt.Errorf("no worker %q in the fleet", id)
	}
	g.usher.Admit(w, labels)
	g.pump()
	return nil
}

// Known says whether a worker is in the fleet.
func (g *Gate) Known(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fleet.Lookup(id) != nil
}

// Spared says whether others may get what a worker serves: for each of its models somebody else is ready, or for a worker whose models are not
// known, anybody.
func (g *Gate) Spared(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	w, now := g.fleet.Lookup(id), g.now()
	if w == nil {
		return true
	}
	others := func(model string) bool {
		return slices.ContainsFunc(g.fleet.Workers(), func(o *fleet.Worker) bool { return o != w && o.Ready(now) && (model == "" || serves(o, model)) })
	}
	for _, m := range w.Info().Models {
		if !others(m.ID) {
			return false
		}
	}
	return w.ModelsKnown() || others("")
}
