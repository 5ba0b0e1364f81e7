package metrics

import "testing"

func TestSourcesOfWorkersAreShown(t *testing.T) {
	text := scrape(t, New(func(s *State) {
		s.Sources = []SourceState{{Source: "dns engines:8000", Workers: 3, HasAge: true, AgeSeconds: 2.5}, {Source: "file w.yaml", Stale: true, Errors: 7}}
		s.RefusedWorkers = 2
	}))
	has(t, text, `warmpath_discovery_workers{source="dns engines:8000"} 3`, `warmpath_discovery_age_seconds{source="dns engines:8000"} 2.5`,
		`warmpath_discovery_stale{source="dns engines:8000"} 0`, `warmpath_discovery_stale{source="file w.yaml"} 1`, `warmpath_discovery_errors_total{source="file w.yaml"} 7`,
		`warmpath_discovery_refused_workers 2`)
	hasNot(t, text, `warmpath_discovery_age_seconds{source="file`)
	hasNot(t, scrape(t, New(nil)), "warmpath_discovery_")
}
