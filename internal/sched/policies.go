package sched

import (
	"math"

	"github.com/warmpath/warmpath/internal/tie"
)

// DefaultPolicy is ours.
const DefaultPolicy = "warm-cost"

// Scores this near to the least are a tie. Learned constants never tie exactly, and the luckiest worker would draw all idle traffic.
const (
	tieSeconds = 0.001
	tieShare   = 0.02
)

// The reasons of choices by policy.
const (
	reasonLeast   = "least load"
	reasonTurn    = "its turn"
	reasonChance  = "chance"
	reasonSession = "owns the session"
	reasonPassed  = "the session's owner has more than its share"
	reasonWarm    = "least load among the warm"
	reasonMatch   = "longest match"
	reasonBlend   = "best blend of match and load"
	reasonProbe   = "tries a worker that was out"

	asGood   = "as good as the least, "
	declined = ", with a longer match declined"
)

// reasonsCost are warm-cost's by what decided, without and with a hit that was declined: none is put together for a request.
var reasonsCost = [...][2]string{
	tie.Least:   {"least cost", "least cost" + declined},
	tie.Warmer:  {asGood + "and warmer", asGood + "and warmer" + declined},
	tie.Faster:  {asGood + "and warm in faster memory", asGood + "and warm in faster memory" + declined},
	tie.Idle:    {asGood + "and idle", asGood + "and idle" + declined},
	tie.Older:   {asGood + "and displaces what is older", asGood + "and displaces what is older" + declined},
	tie.Gentler: {asGood + "and disturbs others less", asGood + "and disturbs others less" + declined},
	tie.Fewer:   {asGood + "and fewer in flight", asGood + "and fewer in flight" + declined},
	tie.Chance:  {asGood + "by chance", asGood + "by chance" + declined},
}

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
	chosen := s.least(req, func(c *candidate) float64 { return c.total }, tieSeconds, tieShare)
	return chosen, reasonsCost[s.rule.By][0]
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
	s.rule = tie.Rule{Seconds: seconds, Share: share, Warm: warm != nil, Ageless: s.without.has(Age)}
	bound = s.rule.Bound(bound)
	s.ties = s.ties[:0]
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in && !(c.score > bound) {
			s.ties = append(s.ties, c.standing(i))
		}
	}
	if warm != nil {
		s.ties = s.rule.Prefer(s.ties, warm.PromptTokens)
	}
	chosen, fewest := 0, math.Inf(1)
	for i := range s.ties {
		c := &s.ties[i]
		if c.InFlight > fewest {
			continue
		}
		if c.InFlight < fewest {
			fewest, s.rule.Equals = c.InFlight, 0
		}
		s.rule.Equals++
		if s.chance.IntN(s.rule.Equals) == 0 {
			chosen = c.At
		}
	}
	s.rule.Taken(tie.Fewest(s.ties))
	return chosen
}

func (c *candidate) standing(at int) tie.Standing {
	return tie.Standing{At: at, Score: c.score, InFlight: c.inFlight, Held: c.cached, Loaded: c.loaded, Delay: c.delay, Pressure: c.pressure, Burden: c.burden}
}
