// Package room says when a worker has none for another request that could wait elsewhere. Engines cannot put what they took into another
// order, or pass it on, so that they get no more than keeps them busy. It is pure.
//
//	limits := room.DefaultLimits()
//	has := limits.Has(now, worker, &load, constants, &room.Ask{Uncached: 1800, PrefillSeconds: 0.04, OutputTokens: 250})
package room

import (
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
)

// Limits say when a worker has no room. The zero Limits are DefaultLimits.
type Limits struct {
	// DepthSeconds of queued prefill: a request that finds so much before it does not begin soon. Two of the engine's longest steps are the
	// most whatever it is: one is being computed, the other is there when it ends.
	DepthSeconds float64
	// HeavyLanesMax is how many heavy prefills may be under way on one worker at one time, and LightShare the share of the workers that have
	// none, rounded down: the others suffice for heavy work unless it has to wait for longer than it takes.
	HeavyLanesMax int
	LightShare    float64
	// ReserveShare of the workers, rounded down, is left without prefill by those who yield.
	ReserveShare float64
}

// DefaultLimits are one second of prefill, and for the rest what `warmpath prove queue` was played with: with a quarter of eight workers in
// reserve, and a quarter for heavy work, what goes first hardly feels the others, which get 6 % less done in an overload.
func DefaultLimits() Limits {
	return Limits{DepthSeconds: 1, HeavyLanesMax: 1, LightShare: 0.75, ReserveShare: 0.25}
}

const (
	// slotsSpare is what goes to an engine beyond its batch slots, as a share of them and at least: the next to begin when one ends.
	slotsSpare, slotsSpareMin = 1.0 / 16, 1
	// stepsDeep is how many of an engine's longest steps keep it busy.
	stepsDeep = 2
	// stepsBeside is by how many of its steps without any prefill those who yield may lengthen one: short prompts ride along.
	stepsBeside = 2
	// kvSpare is the share of the memory that they leave.
	kvSpare = 1.0 / 8
)

// Ask is what a request needs of a worker, and how it stands to others.
type Ask struct {
	Uncached       int
	PrefillSeconds float64
	OutputTokens   float64 // expected
	// Yields: others who would go before it might come at any moment.
	Yields bool
	// AtOnce: it takes a slot that is free and none in the engine's queue, because here work would give way to it, and there nothing does.
	AtOnce bool
}

// Has says whether a worker has room, as far as one request alone is concerned.
func (l *Limits) Has(now time.Time, w *fleet.Worker, load *fleet.Load, k cost.Constants, inFlight float64, a *Ask) bool {
	if w.IsBusy(now) && load.InFlight > 0 { // with nothing of ours there, asking again is the only way to know
		return false
	}
	slots := float64(w.SlotsMax())
	spare := max(slotsSpareMin, slotsSpare*slots)
	if a.Yields || a.AtOnce {
		spare = 0
	}
	if slots > 0 && inFlight >= slots+spare {
		return false
	}
	if most := w.InFlightMax(); most > 0 && load.InFlight >= most {
		return false
	}
	kv := w.KVTokensMax()
	if a.Yields {
		kv -= int(kvSpare * float64(kv))
	}
	if kv > 0 && load.InFlight > 0 && load.KVHeldTokens+a.Uncached+growth(load, a) > kv {
		return false
	}
	if load.Prefilling == 0 || w.Info().SharesSteps && slots > 0 {
		return true
	}
	if a.Yields {
		return load.QueuedSeconds+a.PrefillSeconds <= stepsBeside*k.Step(float64(load.InFlight-load.Prefilling), float64(load.ContextTokens))
	}
	return load.QueuedSeconds < min(l.DepthSeconds, stepsDeep*k.B*cost.ChunkTokens)
}

// growth is by how many tokens the answers there will grow until as much is freed again: those in flight are half done on the mean, and as
// many end as begin. An engine that runs out of memory computes again what it had, which is worse than to wait.
func growth(load *fleet.Load, a *Ask) int { return int(a.OutputTokens / 2 * float64(load.InFlight+1)) }

// Lanes is how many heavy prefills a worker may have for one more to go there, of all workers, light ones among them that have none: none of
// its own where those are to be left alone. overdue says that the request has waited for longer than its prefill takes: then one suffices.
func (l *Limits) Lanes(all, light int, overdue bool) int {
	leave := min(int(l.LightShare*float64(all)), all-1)
	if overdue {
		leave = min(leave, 1)
	}
	if leave > 0 && light <= leave {
		return 0
	}
	return l.HeavyLanesMax
}

// Reserve is how many of all workers with room those who yield leave alone.
func (l *Limits) Reserve(all int) int { return int(l.ReserveShare * float64(all)) }
