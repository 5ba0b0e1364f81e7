// Package tie says who may be taken of those that a policy scores nearly alike. Learned constants never tie exactly, and the luckiest worker
// would draw all idle traffic: so scores within a bound of the least are a tie, and what hardly costs anything decides first.
//
//	near := ...                         // all within rule.Bound(least)
//	near = rule.Prefer(near, tokens)    // a longer match, faster memory, nobody to hold up, an older cache, others left in peace
//	near = tie.Fewest(near)             // and then the fewest in flight; chance decides between those that are left
//	rule.Taken(near)                    // rule.By says what decided
package tie

import "math"

// Rule is how a policy breaks ties.
type Rule struct {
	Seconds float64 // scores within so much of the least tie,
	Share   float64 // or within this share of it
	Warm    bool    // the policy knows the caches: Prefer goes before the fewest in flight
	Ageless bool    // it does not look at how much was put into a cache lately
	Equals  int     // how many were left for chance to decide between; 0: who was taken was not decided by this rule
	By      Edge    // what decided, see Taken
	least   float64 // score, see Bound
}

// Edge is what one that ties was taken for in place of the one with the least score.
type Edge uint8

// The edges, in the order in which they are looked at.
const (
	Least   Edge = iota // none: its score is the least of those that were left
	Warmer              // it holds clearly more of the prompt
	Faster              // less of that comes from slower memory
	Idle                // nobody is there whom a long prefill would hold up
	Older               // what the prompt displaces there is older
	Gentler             // others are burdened less
	Fewer               // fewer are in flight there
	Chance
)

// Standing is what ties are broken by.
type Standing struct {
	At       int     // whose it is, in the caller's numbers
	Score    float64 // the least wins
	InFlight float64 // foreign requests included
	Held     int     // leading tokens of the prompt that it holds
	Loaded   int     // of these, tokens that come from slower memory
	Delay    float64 // seconds by which the prefill would hold up who decodes there
	Pressure float64 // what was put into its cache lately for its size
	Burden   float64 // the part of its score that is due to others there
}

// Bound is the score up to which others tie with the least. It comes first.
func (r *Rule) Bound(least float64) float64 {
	r.least = least
	return least + max(r.Seconds, r.Share*math.Abs(least))
}

// A match must be longer by so much of the prompt, and by at least so many tokens, to be clearly longer: two blocks.
const (
	clearlyShare  = 0.1
	clearlyTokens = 32
)

// noticed is how many seconds a stream stands still until that is noticed.
const noticed = 0.2

// Clearly reports whether a match is so much longer than another, of a prompt of so many tokens, that leaving it is a decision and not chance.
func Clearly(longer, shorter, tokens int) bool {
	d := longer - shorter
	return d >= clearlyTokens && float64(d) >= clearlyShare*float64(tokens)
}

// Prefer leaves of the tied those that hold clearly more; of these, those that have clearly less of it to load from slower memory; of
// these, where one is idle, those where nobody would notice the prefill, since delays are priced by how many the fleet has on the mean, and
// that is more than the nobody who is there; of these, where the prompt displaces what is oldest, since nobody but the router decides what the fleet as a whole forgets; of these,
// where nobody's capacity is known, those where others are burdened least. It goes before the number in flight because 2 % of a long
// answer is a prefill of a thousand tokens: left to that number, it would give up hits and queue behind prefills all day, and forget
// parked conversations for prompts that had better places. It works in place.
func (r *Rule) Prefer(near []Standing, tokens int) []Standing {
	if !r.Warm {
		return near
	}
	longest, fastest, fewest, gentlest, lightest := 0, math.MaxInt, math.Inf(1), math.Inf(1), math.Inf(1)
	for i := range near {
		longest = max(longest, near[i].Held)
	}
	near = keep(near, func(s *Standing) bool {
		if Clearly(longest, s.Held, tokens) {
			return false
		}
		fastest = min(fastest, s.Loaded)
		return true
	})
	r.passed(near, Warmer)
	near = keep(near, func(s *Standing) bool {
		if Clearly(s.Loaded, fastest, tokens) {
			return false
		}
		fewest = min(fewest, s.InFlight)
		return true
	})
	r.passed(near, Faster)
	near = keep(near, func(s *Standing) bool {
		if !(fewest > 0) && s.InFlight > 0 && s.Delay > noticed {
			return false
		}
		gentlest = min(gentlest, s.Pressure)
		return true
	})
	r.passed(near, Idle)
	near = keep(near, func(s *Standing) bool {
		if !r.Ageless && !(s.Pressure <= gentlest) {
			return false
		}
		lightest = min(lightest, s.Burden)
		return true
	})
	r.passed(near, Older)
	lightest += max(r.Seconds, r.Share*lightest)
	near = keep(near, func(s *Standing) bool { return !(s.Burden > lightest) })
	r.passed(near, Gentler)
	return near
}

// passed notes what put the last one with the least score out, when none is left any more.
func (r *Rule) passed(left []Standing, by Edge) {
	if r.By != Least {
		return
	}
	for i := range left {
		if left[i].Score <= r.least {
			return
		}
	}
	r.By = by
}

// Taken notes what decided, from those that Fewest left. Where that is several it was chance, also if the one with the least score was taken.
func (r *Rule) Taken(left []Standing) {
	r.passed(left, Fewer)
	if r.By == Least && len(left) > 1 {
		r.By = Chance
	}
}

// Fewest leaves those with the fewest in flight. It works in place.
func Fewest(near []Standing) []Standing {
	fewest := math.Inf(1)
	for i := range near {
		fewest = min(fewest, near[i].InFlight)
	}
	return keep(near, func(s *Standing) bool { return !(s.InFlight > fewest) })
}

func keep(near []Standing, good func(*Standing) bool) []Standing {
	n := 0
	for i := range near {
		if good(&near[i]) {
			near[n] = near[i]
			n++
		}
	}
	return near[:n]
}
