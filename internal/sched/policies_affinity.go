package sched

import "math"

// Rules that weigh a prefix match against load by shares and thresholds.

// The weights of the match, of requests in flight and of KV use: llm-d's default blend until 2026.
const (
	weightMatch    = 3.0
	weightRequests = 2.0
	weightKV       = 2.0
)

// weighted takes the most of 3 * h/L + 2 * (1 - A/max A) + 2 * (1 - KV/capacity). Where the capacity is not known the last term is
// the same for all.
func weighted(s *Scheduler, req *Request) (int, string) {
	most := 1.0
	for i := range s.cands {
		if c := &s.cands[i]; c.scored() {
			most = max(most, c.inFlight)
		}
	}
	return s.least(nil, func(c *candidate) float64 {
		use := 0.0
		if kv := c.worker.KVTokensMax(); kv > 0 {
			use = float64(c.load.KVHeldTokens) / float64(kv)
		}
		return -(weightMatch*c.heldShare() + weightRequests*(1-c.inFlight/most) + weightKV*(1-use))
	}, 0, 0), reasonBlend
}

// heldShare is h/L.
func (c *candidate) heldShare() float64 {
	if c.cached == 0 {
		return 0
	}
	return float64(c.cached) / float64(c.cached+c.uncached)
}

// A worker is warm to affinity-filter from affinityShare of the prompt on, and keeps its affinity while its backlog is no more than
// affinityPatience seconds of prefill longer than the best of the cold ones.
const (
	affinityShare    = 0.8
	affinityPatience = 18.0
)

// affinityFilter keeps to the warm workers that are not too far behind, and takes the least P + u of those; of all, where there is none:
// llm-d's default since 2026.
func affinityFilter(s *Scheduler, req *Request) (int, string) {
	cold := math.Inf(1)
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in && c.heldShare() < affinityShare {
			cold = min(cold, s.backlog(c))
		}
	}
	warm := func(c *candidate) bool {
		return c.heldShare() >= affinityShare && (math.IsInf(cold, 1) || s.backlog(c)-cold <= affinityPatience)
	}
	penalty, reason := 0.0, reasonLeast
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in && warm(c) {
			penalty, reason = 1<<40, reasonWarm // tokens: more than any backlog has
		}
	}
	return s.least(nil, func(c *candidate) float64 {
		tokens := float64(c.load.PendingTokens + c.uncached)
		if penalty > 0 && !warm(c) {
			tokens += penalty
		}
		return tokens
	}, 0, 0), reason
}

// backlog is P in seconds, at the worker's measured prefill rate.
func (s *Scheduler) backlog(c *candidate) float64 {
	return float64(c.load.PendingTokens) * s.book.Of(c.worker).Constants().B
}

// What threshold calls unbalanced, and a match worth following: the defaults of the SGLang gateway's cache_aware.
const (
	unbalancedBy    = 64
	unbalancedTimes = 1.5
	matchShare      = 0.3
)

// threshold takes the fewest in flight when the most and the fewest lie more than 64 and half as much again apart, else the longest
// match when it is more than 0.3 of the prompt, else the fewest in flight.
func threshold(s *Scheduler, req *Request) (int, string) {
	most, fewest, longest := 0.0, math.Inf(1), 0.0
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in {
			most, fewest = max(most, c.inFlight), min(fewest, c.inFlight)
			longest = max(longest, c.heldShare())
		}
	}
	if unbalanced := most-fewest > unbalancedBy && most > unbalancedTimes*fewest; unbalanced || longest <= matchShare {
		return leastRequests(s, req)
	}
	return s.least(nil, func(c *candidate) float64 { return float64(c.uncached) }, 0, 0), reasonMatch
}
