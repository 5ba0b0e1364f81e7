package metrics

// ReloadState is what a scrape shows of the configuration, and of how often it was read again since the start.
type ReloadState struct {
	LoadedUnixSecs float64 // when the one in force was read
	Generation     int     // 1 at the start
	LastRefused    bool    // the last attempt was
	Counts         [3]uint64
}

// reloadResults are what came of reading it again, in the order of the counts.
var reloadResults = [...]string{"applied", "unchanged", "refused"}

func emitReload(emit emitter, s *ReloadState) {
	good := 1.0
	if s.LastRefused {
		good = 0
	}
	emit("warmpath_config_last_reload_successful", good)
	emit("warmpath_config_loaded_timestamp_seconds", s.LoadedUnixSecs)
	emit("warmpath_config_generation", float64(s.Generation))
	for i, n := range s.Counts {
		emit("warmpath_config_reloads_total", float64(n), reloadResults[i])
	}
}
