package cost

import "github.com/warmpath/warmpath/internal/fleet"

// Conditions are those of a worker, or the mean of a pool's, that would take the request.
type Conditions struct {
	Constants
	Batch         float64 // sequences that decode there
	ContextTokens float64 // and the sum of their contexts
	PageTokens    int     // by which KV room is taken; 0 is 1
}

// ConditionsAt are those of a worker now. What its engine counts beyond our own requests is in them, with contexts as long as ours are on
// the mean there, else contextMean tokens.
func ConditionsAt(w *fleet.Worker, k Constants, l fleet.Load, contextMean float64) Conditions {
	if l.InFlight > 0 {
		contextMean = float64(l.ContextTokens) / float64(l.InFlight)
	}
	foreign := float64(l.ForeignRunning + l.ForeignWaiting)
	return Conditions{Constants: k, Batch: float64(l.InFlight) + foreign, ContextTokens: float64(l.ContextTokens) + foreign*contextMean, PageTokens: w.BlockTokens()}
}

// Across is the mean of several workers' conditions: a pool's, as a request meets them that may land on each alike. The zero value for none.
func Across(workers []Conditions) (mean Conditions) {
	if len(workers) == 0 {
		return mean
	}
	share := 1 / float64(len(workers))
	for _, c := range workers {
		for _, f := range [...]struct {
			sum  *float64
			part float64
		}{{&mean.A, c.A}, {&mean.B, c.B}, {&mean.C, c.C}, {&mean.D0, c.D0}, {&mean.D1, c.D1}, {&mean.D2, c.D2}, {&mean.Batch, c.Batch}, {&mean.ContextTokens, c.ContextTokens}} {
			*f.sum += share * f.part
		}
		mean.PageTokens = max(mean.PageTokens, c.PageTokens)
	}
	return mean
}
