package metrics

import "testing"

func TestReloadsShowByResult(t *testing.T) {
	m := New(func(s *State) {
		s.Reload = ReloadState{LoadedUnixSecs: 12.5, Generation: 3, LastRefused: true, Counts: [3]uint64{2, 4, 6}}
	})
	has(t, scrape(t, m), `warmpath_config_last_reload_successful 0`, `warmpath_config_loaded_timestamp_seconds 12.5`, `warmpath_config_generation 3`,
		`warmpath_config_reloads_total{result="applied"} 2`, `warmpath_config_reloads_total{result="unchanged"} 4`, `warmpath_config_reloads_total{result="refused"} 6`)
}
