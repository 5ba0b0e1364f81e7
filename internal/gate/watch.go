package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prefix"
)

// What requests and telemetry tell the gate while they go on. Each call takes the lock for a moment.

// FirstToken moves an attempt from prefill to decoding.
func (g *Gate) FirstToken(a *Attempt, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sched.FirstToken(&a.course, now)
	g.pump()
}

// EnterAtOnce is how many blocks of a prompt are entered in the index with its placement, under the lock that all requests go through:
// 16 KB of text that nobody has sent before. EnterRest enters the others in steps of as many.
const EnterAtOnce = 256

// EnterRest enters what Place left of a long prompt. It is called once the request is on its way, so that nobody waits for it: siblings
// that come within the same millisecond match the first blocks.
func (g *Gate) EnterRest(a *Attempt, c prefix.Chain) {
	for g.enterStep(a, c) {
	}
}

// enterStep says whether there is more to do.
func (g *Gate) enterStep(a *Attempt, c prefix.Chain) (more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if upTo := &a.Decision.Entered; *upTo < len(c.Keys) && !a.Worker.Gone() && !a.course.Reservation().Released() {
		*upTo = g.index.Extend(a.Worker.Slot, c, g.now().UnixNano(), *upTo, EnterAtOnce)
		return *upTo < len(c.Keys)
	}
	return false
}

// Release ends an attempt; later calls change nothing. computed says that its prompt was, for all that is known.
func (g *Gate) Release(a *Attempt, c prefix.Chain, o fleet.Outcome, computed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sched.Release(&a.course, c, g.now(), o, computed)
	g.paid(a, computed, nil)
	g.pump()
}

// Fault counts a fault that an attempt met against its worker, and says whether that put the worker out, and why.
func (g *Gate) Fault(a *Attempt, kind fleet.Fault) (e fleet.Ejection, ejected bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ejected = a.course.Reservation().Fault(g.now(), kind)
	e, _ = a.Worker.Ejection()
	return e, ejected
}

// Absolve takes a worker's latest fault back: another worker failed the same request in the same way.
func (g *Gate) Absolve(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil {
		w.Absolve(g.now())
	}
}

// Succeeded says that an attempt's worker gave a good answer.
func (g *Gate) Succeeded(a *Attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a.course.Reservation().Succeeded(g.now())
}

// Proved says that an attempt has a good answer under way, which is enough of a worker that it tries.
func (g *Gate) Proved(a *Attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a.course.Reservation().Proved(g.now())
}

// Busy says that a worker answered 429 or 503: others are preferred until retryAfter is over.
func (g *Gate) Busy(w *fleet.Worker, retryAfter time.Duration) {
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
		g.pump()
	}
}

// Describe takes what a worker's engine says about itself. It returns the adapters that the worker served until now and does not any more.
func (g *Gate) Describe(id string, incarnation uint64, info fleet.Info) (unloaded []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.fleet.Lookup(id)
	if w == nil || w.Incarnation != incarnation {
		return nil
	}
	before := w.Info().Models
	if len(info.Models) == 0 {
		info.Models = before // configured, or told before
	}
	w.SetInfo(info)
	defer g.pump()
	g.index.SetCapacity(w.Slot, g.cacheBytes(info))
	return Unloaded(before, info.Models)
}

// Unloaded are the adapters among the models before that are none of those now.
func Unloaded(before, now []fleet.Model) (names []string) {
	for _, m := range before {
		if m.Parent != "" && !slices.ContainsFunc(now, func(n fleet.Model) bool { return n.ID == m.ID }) {
			names = append(names, m.ID)
		}
	}
	return names
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

// Slot is where that very instance of a worker is in every table by worker; false when it is not in the fleet.
func (g *Gate) Slot(id string, incarnation uint64) (slot int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil && w.Incarnation == incarnation {
		return w.Slot, true
	}
	return 0, false
}

// Doubt says whether what a worker tells of its cache is not to be gone by.
func (g *Gate) Doubt(w *fleet.Worker, doubted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.Doubt(doubted)
}

// Unreachable notes that nobody answers at a worker's address.
func (g *Gate) Unreachable(id string, incarnation uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil && w.Incarnation == incarnation {
		w.Unreachable()
	}
}

// Silent judges a worker whose telemetry failed, see fleet.Silent. It reports whether the worker was put out just now.
func (g *Gate) Silent(id string, incarnation uint64) (e fleet.Ejection, ejected bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.fleet.Lookup(id)
	if w == nil || w.Incarnation != incarnation || !g.fleet.Silent(w, g.now()) {
		return e, false
	}
	return w.Ejection()
}

// Loading notes that somebody is at a worker's address who says that its model is not loaded yet.
func (g *Gate) Loading(id string, incarnation uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil && w.Incarnation == incarnation {
		w.Loading()
	}
}

// Checked takes what a worker's engine says of itself: why it is not well, or "" when it is. It reports whether the worker was put out just now.
func (g *Gate) Checked(id string, incarnation uint64, why string) (e fleet.Ejection, ejected bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.fleet.Lookup(id)
	switch {
	case w == nil || w.Incarnation != incarnation:
		return e, false
	case why == "":
		w.Well(g.now())
		g.pump()
		return e, false
	}
	ejected = g.fleet.Sick(w, g.now(), why)
	e, _ = w.Ejection()
	return e, ejected
}

// Reachable notes that somebody is at a worker's address, though telemetry learns nothing there.
func (g *Gate) Reachable(id string, incarnation uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil && w.Incarnation == incarnation {
		w.Reachable()
	}
}

// Ready reports whether a worker may be promised to clients now.
func (g *Gate) Ready() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	return slices.ContainsFunc(g.fleet.Workers(), func(w *fleet.Worker) bool { return w.Ready(now) })
}

// Heard notes that a byte came from a worker, though telemetry learned nothing of it.
func (g *Gate) Heard(id string, incarnation uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.fleet.Lookup(id); w != nil && w.Incarnation == incarnation {
		w.Heard()
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
	g.usher.Follow(old, w)
	next := *g.forget(old)
	next.Worker = w
	g.reach(next)
	return w, nil
}
