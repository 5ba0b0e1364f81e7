package sched

import "math"

// DefaultPolicy is ours.
const DefaultPolicy = "warm-cost"

// Scores this near to the least are a tie. Learned constants never tie exactly, and the luckiest worker would draw all idle traffic.
const (
	tieSeconds = 0.001
	tieShare   = 0.02
)

// The reasons of choices by policy.
const (
	reasonCost     = "least cost"
	reasonDeclined = "least cost, with a longer match declined"
	reasonLeast    = "least load"
	reasonTurn     = "its turn"
	reasonChance   = "chance"
	reasonSession  = "owns the session"
	reasonPassed   = "the session's owner has more than its share"
	reasonWarm     = "least load among the warm"
	reasonMatch    = "longest match"
	reasonBlend    = "best blend of match and load"
	reasonProbe    = "tries a worker that was out"
)

// Policy scores the candidates that are in, the least is best, and returns the index of the chosen one and why.
type Policy func(s *Scheduler, req *Request) (chosen int, reason string)

// Policies are the rules that can be chosen between, at run time too. All but warm-cost are rules that others use; each has their defaults.
var Policies = map[string]Policy{
	"warm-cost": warmCost,

	"round-robin":    roundRobin,
	"random":         random,
	"least-requests": leastRequests,
	"power-of-two":   powerOfTwo,
	"session-hash":   sessionHash,

	"least-tokens":  leastTokens,
	"least-prefill": leastPrefill,
	"multiply":      multiply,
	"linear":        linear,
	"linear-tuned":  linearTuned,

	"weighted":        weighted,
	"affinity-filter": affinityFilter,
	"threshold":       threshold,
}

// warmCost takes the least request-seconds.
func warmCost(s *Scheduler, req *Request) (int, string) {
	return s.least(req, func(c *candidate) float64 { return c.total }, tieSeconds, tieShare), reasonCost
}

// least scores every candidate and returns one of the least: all within max(seconds, share of the least) tie, and then the fewest in
// flight, and then chance decide. For a policy that knows the cache (warm), tied ones are preferred first.
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
	s.ties = s.ties[:0]
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in && !(c.score > bound) {
			s.ties = append(s.ties, int32(i))
		}
	}
	if warm != nil {
		s.prefer(warm.PromptTokens, seconds, share)
	}
	chosen, equals, fewest := 0, 0, math.Inf(1)
	for _, i := range s.ties {
		c := &s.cands[i]
		if c.inFlight > fewest {
			continue
		}
		if c.inFlight < fewest {
			fewest, equals = c.inFlight, 0
		}
		equals++
		if s.chance.IntN(equals) == 0 {
			chosen = int(i)
		}
	}
	return chosen
}

// prefer leaves of the tied those that hold clearly more; of these, those that have clearly less of it to load from slower memory; of
// these, where the prompt displaces what is oldest, since nobody but the router decides what the fleet as a whole forgets; of these,
// where nobody's capacity is known, those where others are burdened least. It goes before the number in flight because 2 % of a long
// answer is a prefill of a thousand tokens: left to that number, it would give up hits and queue behind prefills all day, and forget
// parked conversations for prompts that had better places.
func (s *Scheduler) prefer(tokens int, seconds, share float64) {
	j := judgement{tokens: tokens}
	longest, fastest, gentlest, lightest := 0, math.MaxInt, math.Inf(1), math.Inf(1)
	s.tied(func(c *candidate) bool { longest = max(longest, c.cached); return true })
	s.tied(func(c *candidate) bool {
		if j.clearly(longest, c.cached) {
			return false
		}
		fastest = min(fastest, c.loaded)
		return true
	})
	s.tied(func(c *candidate) bool {
		if j.clearly(c.loaded, fastest) {
			return false
		}
		gentlest = min(gentlest, c.pressure)
		return true
	})
	s.tied(func(c *candidate) bool {
		if !s.without.has(Age) && !(c.pressure <= gentlest) {
			return false
		}
		lightest = min(lightest, c.burden)
		return true
	})
	lightest += max(seconds, share*lightest)
	s.tied(func(c *candidate) bool { return !(c.burden > lightest) })
}

// tied keeps of the tied those for which it is true.
func (s *Scheduler) tied(keep func(*candidate) bool) {
	n := 0
	for _, i := range s.ties {
		if keep(&s.cands[i]) {
			s.ties[n] = i
			n++
		}
	}
	s.ties = s.ties[:n]
}
