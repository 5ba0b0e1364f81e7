package metrics

// GhostState is what other rules would have had to compute of the requests that were served; see docs/GHOSTS.md. Totals since the start.
type GhostState struct {
	Requests, PromptTokens float64
	Sample                 float64 // share of blocks that is looked at
	Bytes                  int64
	Dropped                uint64
	PlaceSeconds           float64
	Rules                  []GhostRule
}

// GhostRule is one of them, or the fleet itself.
type GhostRule struct {
	Rule                          string
	PrefillTokens, PrefillSeconds float64
}

func emitGhosts(emit emitter, g *GhostState) {
	if g == nil {
		return
	}
	emit("warmpath_ghost_requests_total", g.Requests)
	emit("warmpath_ghost_prompt_tokens_total", g.PromptTokens)
	for _, r := range g.Rules {
		emit("warmpath_ghost_prefill_tokens_total", r.PrefillTokens, r.Rule)
		emit("warmpath_ghost_prefill_seconds_total", r.PrefillSeconds, r.Rule)
	}
	emit("warmpath_ghost_dropped_total", float64(g.Dropped))
	emit("warmpath_ghost_sample_ratio", g.Sample)
	emit("warmpath_ghost_bytes", float64(g.Bytes))
	emit("warmpath_ghost_place_seconds_total", g.PlaceSeconds)
}
