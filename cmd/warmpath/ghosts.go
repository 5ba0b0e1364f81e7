package main

import (
	"context"
	mathrand "math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/ghost"
	"github.com/warmpath/warmpath/internal/outcome"
)

// ghosts place what was served a second time, beside the requests: these leave what they were in the intake, and one goroutine places it.
type ghosts struct {
	intake *ghost.Intake

	mu    sync.Mutex // guards ghosts; held for one batch
	all   *ghost.Ghosts
	most  int64        // bytes
	spent atomic.Int64 // nanoseconds of processors that placing took
	began time.Time
}

// What placing may take: that share of the process's own time on processors, or that share of one processor where the router has little to do.
const (
	ghostShareMax     = 0.03
	ghostShareIdleMax = 0.002
)

// How often what waits is placed, who is in the fleet is looked at, and what it took is held to the bound.
const (
	ghostsPlaceEvery = 250 * time.Millisecond
	ghostsFleetEvery = time.Second
	ghostsJudgeEvery = 2 * time.Second
)

// newGhosts is nil where there are to be none.
func newGhosts(c config.Ghosts) *ghosts {
	if !c.Enabled {
		return nil
	}
	all := ghost.New(ghost.Options{BytesMax: int64(c.BytesMax), Sample: c.Sample, Seed: mathrand.Uint64()})
	return &ghosts{intake: ghost.NewIntake(all.Threshold()), all: all, most: int64(c.BytesMax), began: time.Now()}
}

// steadyNanos is a time by a clock that nobody sets: by how long after another it is, of which both were read in this process.
func steadyNanos(began, at time.Time) int64 { return began.UnixNano() + int64(at.Sub(began)) }

// settled takes in a request whose prompt a worker computed, for all that is known.
func (g *ghosts) settled(f *facts.Facts) {
	w := f.Decision.Worker
	if g == nil || w == nil || len(f.Chain.Keys) == 0 || !prefilled(f) {
		return
	}
	q := ghost.Request{Model: f.Model, Pool: f.Pool.Name, Start: steadyNanos(g.began, f.Started), End: steadyNanos(g.began, f.Ended), Session: f.Session, PromptTokens: f.PromptTokens, AnswerTokens: f.Tokens,
		TextBytes: f.TextBytes, Predicted: f.Decision.MatchedTokens, Slot: w.Slot, Chain: f.Chain}
	if !f.Placed.IsZero() {
		q.Start = steadyNanos(g.began, f.Placed)
	}
	if u := &f.Usage; u.HasPrompt {
		q.PromptTokens = u.PromptTokens
	}
	if u := &f.Usage; u.HasCompletion {
		q.AnswerTokens = u.CompletionTokens
	}
	if u := &f.Usage; u.HasCached {
		q.Cached, q.Reported = u.CachedTokens, true
	}
	g.intake.Add(&q)
}

// prefilled says whether an engine computed the prompt: it answered, or began to.
func prefilled(f *facts.Facts) bool {
	switch f.Outcome {
	case outcome.Succeeded, outcome.Incomplete:
		return true
	case outcome.Cancelled, outcome.Failed:
		return !f.FirstToken.IsZero()
	}
	return false
}

// runGhosts places what comes until ctx ends.
func (r *router) runGhosts(ctx context.Context) {
	runtime.LockOSThread() // what it has of processors is told by thread
	defer runtime.UnlockOSThread()
	g := r.ghosts
	place, look, judge := time.NewTicker(ghostsPlaceEvery), time.NewTicker(ghostsFleetEvery), time.NewTicker(ghostsJudgeEvery)
	defer place.Stop()
	defer look.Stop()
	defer judge.Stop()
	processors, _ := ownUsage()
	spent := g.spent.Load()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			g.setWorkers(r.ghostWorkers())
		case <-judge.C:
			used, _ := ownUsage()
			g.judge(time.Duration(g.spent.Load()-spent), used-processors)
			processors, spent = used, g.spent.Load()
		case <-place.C:
			g.place()
		case <-g.intake.Ready():
			g.place()
		}
	}
}

// place takes in what waits.
func (g *ghosts) place() {
	before := threadTime(g.began)
	g.mu.Lock()
	g.all.Note(g.intake.Take())
	g.intake.SetThreshold(g.all.Threshold())
	g.mu.Unlock()
	g.spent.Add(int64(threadTime(g.began) - before))
}

// judge has the sample fit what placing may take of what the process had of processors since it was judged last.
func (g *ghosts) judge(took, process time.Duration) {
	may := max(time.Duration(ghostShareMax*float64(process)), time.Duration(ghostShareIdleMax*float64(ghostsJudgeEvery)))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all.Judge(steadyNanos(g.began, time.Now()), took, may)
	g.intake.SetThreshold(g.all.Threshold())
}

func (g *ghosts) setWorkers(all []ghost.Worker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all.SetWorkers(all)
}

// ghostWorkers is the fleet as ghosts want to know it.
func (r *router) ghostWorkers() (all []ghost.Worker) {
	r.gate.View(func(v gate.View) {
		all = make([]ghost.Worker, 0, len(v.Workers))
		for _, w := range v.Workers {
			k := v.Costs.Of(w).Constants()
			one := ghost.Worker{Slot: w.Slot, ID: w.ID, Incarnation: w.Incarnation, KVTokens: cacheTokens(w), Up: w.Standing(), Pools: v.PoolsOf(w), B: k.B, C: k.C}
			for _, m := range w.Info().Models {
				one.Models = append(append(one.Models, m.ID), m.Aliases...)
			}
			all = append(all, one)
		}
	})
	return all
}

// cacheTokensDefault is the cache of a worker that tells nothing of it, as prefix.DefaultOptions has it at four bytes a token.
const cacheTokensDefault = 400_000

// cacheTokens is the size of a worker's cache: as its engine tells it, else its slots full of context.
func cacheTokens(w *fleet.Worker) int64 {
	info := w.Info()
	tokens := info.KVTokensMax
	if tokens == 0 {
		for _, m := range info.Models {
			tokens = max(tokens, m.ContextMax*max(1, info.SlotsMax))
		}
	}
	if tokens == 0 {
		tokens = cacheTokensDefault
	}
	return int64(tokens)
}
