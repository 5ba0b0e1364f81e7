package metrics

import "testing"

func TestGhostsAreShownByRuleAndNotAtAllWhereThereAreNone(t *testing.T) {
	var ghosts *GhostState
	s := New(func(s *State) { s.Ghosts = ghosts })
	hasNot(t, scrape(t, s), "warmpath_ghost")
	ghosts = &GhostState{Requests: 3, PromptTokens: 300, Sample: 0.5, Bytes: 1000, Dropped: 2, PlaceSeconds: 0.25,
		Rules: []GhostRule{{"fleet", 100, 1.5}, {"round-robin", 250, 3}}}
	has(t, scrape(t, s), "warmpath_ghost_requests_total 3", "warmpath_ghost_prompt_tokens_total 300", `warmpath_ghost_prefill_tokens_total{rule="round-robin"} 250`,
		`warmpath_ghost_prefill_seconds_total{rule="fleet"} 1.5`, "warmpath_ghost_dropped_total 2", "warmpath_ghost_sample_ratio 0.5", "warmpath_ghost_bytes 1000", "warmpath_ghost_place_seconds_total 0.25")
}
