// Package heavy tells prefills that are out of all proportion to the others. It is pure.
//
//	var recent heavy.Spread                             // of one pool
//	recent.Add(0.04)                                    // each prefill's predicted seconds
//	if heavy.DefaultRule().Heavy(7.2, &recent) { ... }  // out of all proportion
package heavy

import (
	"fmt"
	"math"
)

// Rule says which prefills are heavy.
type Rule struct {
	// Seconds of predicted prefill from which on a request is heavy; 0: by the multiple of the pool's recent median.
	Seconds float64
	// Multiple of the recent median, and FloorSeconds below which nothing is heavy, however short the others are.
	Multiple     float64
	FloorSeconds float64
}

// DefaultRule takes what is eight times the usual, and half a second at least: a stream that stands still for less is not noticed.
func DefaultRule() Rule {
	return Rule{Multiple: 8, FloorSeconds: 0.5}
}

// Check says what of the rule cannot be.
func (r Rule) Check() error {
	switch {
	case !(r.Seconds >= 0) || math.IsInf(r.Seconds, 0):
		return fmt.Errorf("requests are heavy from %v s, want 0 or more (setting heavy.seconds)", r.Seconds)
	case r.Seconds == 0 && !(r.Multiple >= 1 && r.FloorSeconds >= 0):
		return fmt.Errorf("requests are heavy from %v times the median and %v s; want 1 or more, and 0 or more (settings heavy.multiple, heavy.floor_seconds)", r.Multiple, r.FloorSeconds)
	}
	return nil
}

// Heavy says whether a prefill of so many predicted seconds is heavy among those of the pool. Nothing is as long as too few are known.
func (r Rule) Heavy(seconds float64, pool *Spread) bool {
	if r.Seconds > 0 {
		return seconds >= r.Seconds
	}
	if seconds < r.FloorSeconds { // nearly all are, and need no median
		return false
	}
	median, known := pool.Quantile(0.5)
	return known && seconds >= max(r.Multiple*median, r.FloorSeconds)
}

// Spread is the recent distribution of predicted prefill seconds: counts in logarithmic buckets, older ones weighing less and less. A list of the
// last values was rejected, because each quantile would sort it.
type Spread struct {
	counts [spreadBuckets]float64
	n      float64 // sum of counts
	weight float64 // of the next value; it grows, in place of all counts shrinking
	added  int     // up to spreadMin
}

// The buckets go from 0.1 ms to 4 h, each a fifth wider than the one before.
const (
	spreadBuckets = 96
	spreadLeast   = 1e-4
	spreadStep    = 1.2
	spreadMemory  = 1024 // values over which the distribution forgets
	spreadMin     = 20   // values it takes to be one
)

// Add takes one request's predicted seconds.
func (s *Spread) Add(seconds float64) {
	if math.IsNaN(seconds) {
		return
	}
	if s.added == 0 {
		s.weight = 1
	}
	s.added = min(s.added+1, spreadMin)
	s.counts[bucket(seconds)] += s.weight
	s.n += s.weight
	s.weight *= 1 + 1.0/spreadMemory
	if s.weight > 1e9 {
		for i := range s.counts {
			s.counts[i] /= s.weight
		}
		s.n /= s.weight
		s.weight = 1
	}
}

func bucket(seconds float64) int {
	if !(seconds > spreadLeast) {
		return 0
	}
	return int(min(math.Log(seconds/spreadLeast)/math.Log(spreadStep), spreadBuckets-1))
}

// Quantile is the value that a share of p of the recent requests does not exceed, to within a tenth; false: too few are known.
func (s *Spread) Quantile(p float64) (seconds float64, known bool) {
	if s.added < spreadMin {
		return 0, false
	}
	left := p * s.n
	for i, c := range s.counts {
		if left -= c; left <= 0 && c > 0 {
			return spreadLeast * math.Pow(spreadStep, float64(i)+0.5), true
		}
	}
	return spreadLeast * math.Pow(spreadStep, spreadBuckets), true
}
