package main

import (
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/regret"
)

// regrets hold some of the choices against what came of them.
type regrets struct {
	seen atomic.Uint64 // requests that could be looked at

	mu   sync.Mutex // guards sums
	sums regret.Sums
}

// regretted looks at one request in regret.Every of those that can be: streams that ended well and whose engine told their usage, one prompt and one
// answer each. Of others nobody knows when the first token came, or how many there were.
func (r *router) regretted(f *facts.Facts) {
	u := &f.Usage
	if !f.Stream || f.Outcome != outcome.Succeeded || f.FirstToken.IsZero() || !u.HasPrompt || !u.HasCompletion || len(f.Decision.Rows) < 2 || f.Forecast.Sequences() != 1 {
		return
	}
	if !regret.Sampled(r.regrets.seen.Add(1)) {
		return
	}
	c := regret.Course{PromptTokens: u.PromptTokens, AnswerTokens: u.CompletionTokens, CachedTokens: u.CachedTokens, CachedKnown: u.HasCached,
		First: f.FirstToken.Sub(f.Placed).Seconds(), Decode: f.Ended.Sub(f.FirstToken).Seconds()}
	v, ok := regret.Judge(&f.Decision, f.PromptTokens, &c)
	if !ok {
		return
	}
	r.regrets.mu.Lock()
	r.regrets.sums.Add(v)
	r.regrets.mu.Unlock()
	r.archive.series.Regretted(f.Ended, v.Lost(), v.Ahead(), v.Real, v.Foretold)
}

func (g *regrets) now() regret.Sums {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sums
}

// regretState is what came of the choices that were looked at, in /state. Sums are since the start, in request-seconds.
type regretState struct {
	OneIn           int     `json:"one_in"` // of the requests that can be looked at
	Requests        uint64  `json:"requests"`
	Beaten          uint64  `json:"beaten"`
	LostSeconds     float64 `json:"lost_seconds"`
	AheadSeconds    float64 `json:"ahead_seconds"`
	RealSeconds     float64 `json:"real_seconds"`
	ForetoldSeconds float64 `json:"foretold_seconds"`
}

func (r *router) regretsNow() regretState {
	s := r.regrets.now()
	return regretState{regret.Every, s.Requests, s.Beaten, s.LostSeconds, s.AheadSeconds, s.RealSeconds, s.ForetoldSeconds}
}

// collectRegrets fills them in for a scrape.
func (r *router) collectRegrets(s *metrics.State) { s.Regret = metrics.RegretState(r.regrets.now()) }
