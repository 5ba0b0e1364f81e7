package main

import (
	"time"

	"github.com/warmpath/warmpath/internal/ghost"
	"github.com/warmpath/warmpath/internal/metrics"
)

// ghostState is the fleet, or what one rule would have made of the same requests, in /state.
type ghostState struct {
	Rule     string       `json:"rule"` // fleet, round-robin, random, session-hash or reachable
	Total    ghostFigures `json:"total"`
	LastHour ghostFigures `json:"last_hour"`
}

// ghostFigures are of all requests that were placed again, the same for all rules.
type ghostFigures struct {
	Requests       float64 `json:"requests"`
	PromptTokens   float64 `json:"prompt_tokens"`
	CachedTokens   float64 `json:"cached_tokens"`
	HitRate        float64 `json:"hit_rate"`
	PrefillTokens  float64 `json:"prefill_tokens"`
	PrefillSeconds float64 `json:"prefill_seconds"`
	// Saved is what the fleet did not have to do and the rule had to.
	SavedTokens      *float64 `json:"saved_tokens,omitempty"`
	SavedWorkerHours *float64 `json:"saved_worker_hours,omitempty"`
	// Of the fleet alone: what was predicted to be cached, of all and of those whose engine reported it, and what it reported.
	PredictedTokens         *float64 `json:"predicted_tokens,omitempty"`
	ReportedPromptTokens    *float64 `json:"reported_prompt_tokens,omitempty"`
	PredictedReportedTokens *float64 `json:"predicted_reported_tokens,omitempty"`
	ReportedTokens          *float64 `json:"reported_tokens,omitempty"`
}

// ghostsAbout says how the figures came about.
type ghostsAbout struct {
	SampleRate   float64  `json:"sample_rate"`                  // share of blocks that is counted
	RisingTo     float64  `json:"sample_rate_rising,omitempty"` // that which caches are being warmed for
	Bytes        int64    `json:"bytes"`
	BytesMax     int64    `json:"bytes_max"`
	Dropped      uint64   `json:"dropped_requests"`  // that came faster than they could be placed
	Unplaced     uint64   `json:"unplaced_requests"` // that no worker might take when they were placed again
	PlaceSeconds float64  `json:"place_seconds"`     // of processors that placing took so far
	Assumes      []string `json:"assumes"`
}

// ghostsAssume is what has to be known to read the figures.
var ghostsAssume = []string{
	"Each rule has the workers that were up and might serve the request, each with a cache as large as its engine's, or as is assumed where the engine does not tell; least recently used leaves first.",
	"Requests are the same and come in the same order, as they ended: no rule makes clients ask more, less or later.",
	"An answer stays cached with its prompt, and the next request of the conversation quotes it as it was.",
	"Cached tokens of the fleet are those that engines reported, and those that were predicted where they did not.",
	"Seconds are tokens at the prefill speed that was learned of each worker; what a queue, a batch or an idle GPU makes of a second is not in them.",
	"session-hash gives a session's request to the next worker while its own has more than its share in flight, by the times that requests really took.",
	"reachable is a bound and no rule: one cache for each model, as large as those of its workers together.",
}

// ghostReport is how ghosts stand.
func (g *ghosts) report(now time.Time) ghost.Report {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all.Report(steadyNanos(g.began, now))
}

// ghostsNow is how they stand for /state; nothing where there are none.
func (r *router) ghostsNow() ([]ghostState, *ghostsAbout) {
	g := r.ghosts
	if g == nil {
		return nil, nil
	}
	now := g.report(time.Now())
	all := []ghostState{{Rule: "fleet", Total: fleetFigures(&now.Total), LastHour: fleetFigures(&now.Window)}}
	for rule, name := range ghost.Names {
		all = append(all, ghostState{name, ruleFigures(&now.Total, ghost.Rule(rule)), ruleFigures(&now.Window, ghost.Rule(rule))})
	}
	return all, &ghostsAbout{SampleRate: now.Rate, RisingTo: now.Rising, Bytes: now.Bytes, BytesMax: g.most, Dropped: now.Dropped, Unplaced: now.Unplaced,
		PlaceSeconds: time.Duration(g.spent.Load()).Seconds(), Assumes: ghostsAssume}
}

func figures(s *ghost.Sums, w ghost.Work) ghostFigures {
	return ghostFigures{Requests: s.Requests, PromptTokens: s.PromptTokens, CachedTokens: s.PromptTokens - w.PrefillTokens, HitRate: s.Rate(w),
		PrefillTokens: w.PrefillTokens, PrefillSeconds: w.PrefillSeconds}
}

func fleetFigures(s *ghost.Sums) ghostFigures {
	f := figures(s, s.Real)
	f.PredictedTokens, f.ReportedPromptTokens, f.PredictedReportedTokens, f.ReportedTokens = &s.PredictedTokens, &s.ReportedPromptTokens, &s.PredictedReportedTokens, &s.ReportedTokens
	return f
}

func ruleFigures(s *ghost.Sums, rule ghost.Rule) ghostFigures {
	f, saved := figures(s, s.Of(rule)), s.Saved(rule)
	hours := saved.PrefillSeconds / 3600
	f.SavedTokens, f.SavedWorkerHours = &saved.PrefillTokens, &hours
	return f
}

// collectGhosts fills them in for a scrape.
func (r *router) collectGhosts(s *metrics.State) {
	g := r.ghosts
	if g == nil {
		return
	}
	now := g.report(time.Now())
	of := func(rule string, w ghost.Work) metrics.GhostRule {
		return metrics.GhostRule{Rule: rule, PrefillTokens: w.PrefillTokens, PrefillSeconds: w.PrefillSeconds}
	}
	m := &metrics.GhostState{Requests: now.Total.Requests, PromptTokens: now.Total.PromptTokens, Sample: now.Rate, Bytes: now.Bytes, Dropped: now.Dropped + now.Unplaced,
		PlaceSeconds: time.Duration(g.spent.Load()).Seconds(), Rules: []metrics.GhostRule{of("fleet", now.Total.Real)}}
	for rule, name := range ghost.Names {
		m.Rules = append(m.Rules, of(name, now.Total.Ghosts[rule]))
	}
	s.Ghosts = m
}
