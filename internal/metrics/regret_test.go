package metrics

import "testing"

func TestRegretIsShownWithWhatWasGained(t *testing.T) {
	s := New(func(s *State) {
		s.Regret = RegretState{Requests: 100, Beaten: 7, LostSeconds: 1.5, AheadSeconds: 30, RealSeconds: 250, ForetoldSeconds: 240}
	})
	has(t, scrape(t, s), "warmpath_regret_requests_total 100", "warmpath_regret_beaten_total 7", `warmpath_regret_seconds_total{what="lost"} 1.5`,
		`warmpath_regret_seconds_total{what="ahead"} 30`, `warmpath_regret_cost_seconds_total{what="real"} 250`, `warmpath_regret_cost_seconds_total{what="foretold"} 240`)
}
