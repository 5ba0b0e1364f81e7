package metrics

// RegretState is what came of the choices that were looked at, as totals since the start in request-seconds; see docs/LOOK.md.
type RegretState struct {
	Requests, Beaten             uint64
	LostSeconds, AheadSeconds    float64
	RealSeconds, ForetoldSeconds float64 // of the chosen workers
}

func emitRegret(emit emitter, s *RegretState) {
	emit("warmpath_regret_requests_total", float64(s.Requests))
	emit("warmpath_regret_beaten_total", float64(s.Beaten))
	emit("warmpath_regret_seconds_total", s.LostSeconds, "lost")
	emit("warmpath_regret_seconds_total", s.AheadSeconds, "ahead")
	emit("warmpath_regret_cost_seconds_total", s.RealSeconds, "real")
	emit("warmpath_regret_cost_seconds_total", s.ForetoldSeconds, "foretold")
}
