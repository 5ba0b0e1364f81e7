package metrics

// BoundState is how one bound of the router stands.
type BoundState struct {
	Name        string
	Limit, Used float64 // Limit 0: none
	Each        bool    // it bounds every single thing: there is no use to tell of
	Refused     uint64
}

func emitBounds(emit emitter, all []BoundState) {
	for _, b := range all {
		if b.Limit > 0 {
			emit("warmpath_bound_limit", b.Limit, b.Name)
		}
		if !b.Each {
			emit("warmpath_bound_used", b.Used, b.Name)
		}
		emit("warmpath_bound_refused_total", float64(b.Refused), b.Name)
	}
}

// ShedState is what one cache gave up for want of memory.
type ShedState struct {
	Cache string
	Times uint64
	Bytes int64
}

func emitShed(emit emitter, all []ShedState) {
	for _, s := range all {
		emit("warmpath_memory_shed_total", float64(s.Times), s.Cache)
		emit("warmpath_memory_shed_bytes_total", float64(s.Bytes), s.Cache)
	}
}

// Labels is how many models and workers have series of their own, and how many may.
func (s *Set) Labels() (models, modelsMost, workers, workersMost int) {
	return len(*s.models.byName.Load()), modelsMax, len(*s.workers.byName.Load()), workersMax
}
