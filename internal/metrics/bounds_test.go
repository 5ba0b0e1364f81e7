package metrics

import "testing"

func TestBoundsShowTheirLimitTheirUseAndWhatWasRefused(t *testing.T) {
	m := New(func(s *State) {
		s.Bounds = []BoundState{{Name: "connections", Limit: 100, Used: 7, Refused: 3}, {Name: "body_bytes", Limit: 64, Each: true}, {Name: "none", Used: 5}}
		s.Shed = []ShedState{{"prefix_index", 2, 4096}}
	})
	text := scrape(t, m)
	has(t, text, `warmpath_bound_limit{bound="connections"} 100`, `warmpath_bound_used{bound="connections"} 7`, `warmpath_bound_refused_total{bound="connections"} 3`,
		`warmpath_bound_limit{bound="body_bytes"} 64`, `warmpath_bound_used{bound="none"} 5`,
		`warmpath_memory_shed_total{cache="prefix_index"} 2`, `warmpath_memory_shed_bytes_total{cache="prefix_index"} 4096`)
	hasNot(t, text, `warmpath_bound_used{bound="body_bytes"}`, `warmpath_bound_limit{bound="none"}`)
	m.KnowModel("a")
	if models, _, workers, _ := m.Labels(); models != 1 || workers != 0 {
		t.Errorf("%d models and %d workers have series", models, workers)
	}
}
