package sched

import (
	"math"
	"math/bits"
)

// DefaultPolicy is ours.
const DefaultPolicy = "warm-cost"

// Scores this near to the least are a tie. Learned constants never tie exactly, and the luckiest worker would draw all idle traffic.
const (
	tieSeconds = 0.001
	tieShare   = 0.02
)

// boundedLoad is how far above the mean a worker's requests in flight may lie before session-hash passes to the next one.
const boundedLoad = 1.25

// The reasons of choices by policy.
const (
	reasonCost     = "least cost"
	reasonDeclined = "least cost, with a longer match declined"
	reasonLeast    = "least load"
	reasonTurn     = "its turn"
	reasonChance   = "chance"
	reasonSession  = "owns the session"
	reasonPassed   = "the session's owner has more than its share"
	reasonProbe    = "tries a worker that was out"
)

// Policy scores the candidates that are in, the least is best, and returns the index of the chosen one and why.
type Policy func(s *Scheduler, req *Request) (chosen int, reason string)

// Policies are the rules that can be chosen between, at run time too.
var Policies = map[string]Policy{
	"warm-cost":      warmCost,
	"round-robin":    roundRobin,
	"random":         random,
	"least-requests": leastRequests,
	"least-tokens":   leastTokens,
	"session-hash":   sessionHash,
}

// warmCost takes the least request-seconds.
func warmCost(s *Scheduler, req *Request) (int, string) {
	return s.least(req, func(c *candidate) float64 { return c.total }, tieSeconds, tieShare), reasonCost
}

// roundRobin takes the worker that was chosen longest ago, so that workers that come, go or serve other models keep their turn.
func roundRobin(s *Scheduler, req *Request) (int, string) {
	return s.least(nil, func(c *candidate) float64 { return float64(s.slot(c.worker).turn) }, 0, 0), reasonTurn
}

// random takes anyone.
func random(s *Scheduler, req *Request) (int, string) {
	return s.least(nil, func(*candidate) float64 { return s.chance.Float64() }, 0, 0), reasonChance
}

// leastRequests takes the fewest requests in flight, foreign ones included: the classic that holds connections for load.
func leastRequests(s *Scheduler, req *Request) (int, string) {
	return s.least(nil, func(c *candidate) float64 { return c.inFlight }, 0, 0), reasonLeast
}

// leastTokens takes the fewest uncached prompt tokens dispatched whose first token has not come: P_i, blind to what this request finds cached.
func leastTokens(s *Scheduler, req *Request) (int, string) {
	return s.least(nil, func(c *candidate) float64 { return float64(c.load.PendingTokens) }, 0, 0), reasonLeast
}

// sessionHash takes the session's owner by rendezvous hashing (Thaler, Ravishankar 1996): workers that come or go move only their own
// sessions. An owner that would have more than boundedLoad times the mean in flight passes to the next (Mirrokni et al. 2018).
func sessionHash(s *Scheduler, req *Request) (int, string) {
	if req.SessionKey == 0 {
		return random(s, req)
	}
	total, left := 1, 0
	for i := range s.cands {
		if s.cands[i].out == in {
			left++
			total += s.cands[i].load.InFlight
		}
	}
	most := int(math.Ceil(boundedLoad * float64(total) / float64(left)))
	owner := s.least(nil, func(c *candidate) float64 { return ownership(req.SessionKey, s.slot(c.worker).idHash) }, 0, 0)
	if s.cands[owner].load.InFlight < most {
		return owner, reasonSession
	}
	next := s.least(nil, func(c *candidate) float64 {
		if c.load.InFlight >= most {
			return 1 + c.score
		}
		return c.score
	}, 0, 0)
	return next, reasonPassed
}

// ownership orders workers for a session: uniform in 0..1.
func ownership(session, idHash uint64) float64 {
	hi, lo := bits.Mul64(session^0x9e3779b97f4a7c15, idHash|1)
	hi, lo = bits.Mul64(hi^lo^idHash, 0xd6e8feb86659fd93)
	return float64((hi^lo)>>11) / (1 << 53)
}

// hashID is FNV-1a: sessions must not move when a router restarts, or between replicas.
func hashID(id string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := 0; i < len(id); i++ {
		h = (h ^ uint64(id[i])) * 0x100000001b3
	}
	return h
}

// least scores every candidate and returns one of the least. Within max(seconds, share of the least) all tie. Among those, for a policy
// that knows the cache (warm), a clearly longer match wins; then the least burden of others; then the fewest in flight; then chance.
// Match and burden go first because 2 % of a long answer is a prefill of a thousand tokens: left to the in-flight count, it would give
// up hits and queue behind prefills all day. On idle workers neither tells anything, and chance decides.
func (s *Scheduler) least(warm *Request, score func(*candidate) float64, seconds, share float64) int {
	bound := math.Inf(1)
	for i := range s.cands {
		if c := &s.cands[i]; c.scored() {
			c.score = score(c)
			if c.out == in {
				bound = min(bound, c.score)
			}
		}
	}
	bound += max(seconds, share*math.Abs(bound))
	longest, lightest := 0, math.Inf(1)
	j := judgement{tokens: math.MaxInt}
	if warm != nil {
		j.tokens = warm.PromptTokens
		for i := range s.cands {
			if c := &s.cands[i]; c.out == in && !(c.score > bound) {
				longest = max(longest, c.cached)
			}
		}
		for i := range s.cands {
			if c := &s.cands[i]; c.out == in && !(c.score > bound) && !j.clearly(longest, c.cached) {
				lightest = min(lightest, c.burden)
			}
		}
	}
	lightest += max(seconds, share*lightest)
	chosen, equals, fewest := 0, 0, math.Inf(1)
	for i := range s.cands {
		c := &s.cands[i]
		if c.out != in || c.score > bound || c.inFlight > fewest || j.clearly(longest, c.cached) || (warm != nil && c.burden > lightest) {
			continue
		}
		if c.inFlight < fewest {
			fewest, equals = c.inFlight, 0
		}
		equals++
		if s.chance.IntN(equals) == 0 {
			chosen = i
		}
	}
	return chosen
}
