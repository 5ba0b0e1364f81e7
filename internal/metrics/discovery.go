package metrics

// What a scrape shows of the sources of workers.

// SourceState is one source of workers.
type SourceState struct {
	Source     string
	Workers    int // of the set that it told last
	HasAge     bool
	AgeSeconds float64 // since it told it
	Stale      bool
	Errors     uint64 // since the start
}

// sourcesMax bounds the sources that have series of their own: as many as anybody configures.
const sourcesMax = 256

func emitSources(emit emitter, all []SourceState, refused int) {
	for i := range all[:min(len(all), sourcesMax)] {
		s := &all[i]
		emit("warmpath_discovery_workers", float64(s.Workers), s.Source)
		emit("warmpath_discovery_errors_total", float64(s.Errors), s.Source)
		stale := 0.0
		if s.Stale {
			stale = 1
		}
		emit("warmpath_discovery_stale", stale, s.Source)
		if s.HasAge {
			emit("warmpath_discovery_age_seconds", s.AgeSeconds, s.Source)
		}
	}
	if len(all) > 0 {
		emit("warmpath_discovery_refused_workers", float64(refused))
	}
}
