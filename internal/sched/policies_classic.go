package sched

import (
	"math"
	"math/bits"

	"github.com/warmpath/warmpath/internal/tie"
)

// Rules that know requests and sessions, but neither tokens nor caches.

// BoundedLoad is how far above the mean a worker's requests in flight may lie before session-hash passes to the next one.
const BoundedLoad = 1.25

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

// powerOfTwo draws two workers and takes the one with fewer requests in flight (Mitzenmacher 2001): nearly as even as leastRequests
// where counts are exact, and steadier where they are stale.
func powerOfTwo(s *Scheduler, req *Request) (int, string) {
	first := s.least(nil, func(*candidate) float64 { return s.chance.Float64() }, 0, 0)
	drawn := s.cands[first].score
	second := s.least(nil, func(c *candidate) float64 {
		if c.score == drawn {
			return 2
		}
		return c.score
	}, 0, 0)
	for i := range s.cands {
		s.cands[i].score = s.cands[i].inFlight
	}
	s.rule = tie.Rule{} // two were drawn, whatever the others' scores
	if s.cands[second].inFlight < s.cands[first].inFlight {
		return second, reasonLeast
	}
	return first, reasonLeast
}

// sessionHash takes the session's owner by rendezvous hashing (Thaler, Ravishankar 1996): workers that come or go move only their own
// sessions. An owner that would have more than BoundedLoad times the mean in flight passes to the next (Mirrokni et al. 2018).
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
	most := int(math.Ceil(BoundedLoad * float64(total) / float64(left)))
	owner := s.least(nil, func(c *candidate) float64 { return Ownership(req.SessionKey, s.slot(c.worker).idHash) }, 0, 0)
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

// Ownership orders workers for a session: uniform in 0..1.
func Ownership(session, idHash uint64) float64 {
	hi, lo := bits.Mul64(session^0x9e3779b97f4a7c15, idHash|1)
	hi, lo = bits.Mul64(hi^lo^idHash, 0xd6e8feb86659fd93)
	return float64((hi^lo)>>11) / (1 << 53)
}

// HashID is FNV-1a: sessions must not move when a router restarts, or between replicas.
func HashID(id string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := 0; i < len(id); i++ {
		h = (h ^ uint64(id[i])) * 0x100000001b3
	}
	return h
}
