package sched

import (
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/internal/room"
)

// Cost is what a request is expected to take, in seconds of engine time.
type Cost struct {
	Prefill float64 // where that is least
	Decode  float64 // its part of the batch's steps
	Wait    float64 // before its prefill begins, where that is least; told by Price
}

// Seconds is all of it.
func (c Cost) Seconds() float64 { return c.Prefill + c.Decode }

// ErrNoRoom says that workers could take a request that may wait, and that all of them have enough to do.
type ErrNoRoom struct {
	Model string
	Cost  Cost
}

func (e *ErrNoRoom) Error() string {
	return fmt.Sprintf("no worker of model %q has room now", e.Model)
}

// Price is what a request would cost, without placing it. Its errors are those of Place.
func (s *Scheduler) Price(now time.Time, req Request) (Cost, error) {
	s.req = req
	defer func() { s.req = Request{} }()
	j, _, err := s.weighed(now, &s.req)
	if err != nil {
		return Cost{}, err
	}
	c := s.cheapest(&j)
	c.Wait = math.Inf(1)
	for i := range s.cands {
		if d := &s.cands[i]; d.out == in {
			c.Wait = min(c.Wait, d.queued)
		}
	}
	return c, nil
}

// Outlook is what Place would do now.
type Outlook struct {
	Decision      // with a row of every worker, in the fleet's order; without a Worker when there is an error
	Room     bool // it would not wait, or may not
}

// Outlook does all that Place does but reserve, and changes nothing. With an error, which is one of Place's, rows tell the filters alone.
func (s *Scheduler) Outlook(now time.Time, req Request) (o Outlook, err error) {
	s.req = req
	defer func() { s.req = Request{} }()
	j, relaxed, err := s.weighed(now, &s.req)
	if err == nil {
		o.Room = !req.MayWait || s.makeRoom(now, &s.req, j.output)
		chosen, reason := s.choose(now, &s.req)
		o.Decision = s.explain(chosen, reason, relaxed, j)
		o.Cost = Cost{Prefill: s.cands[chosen].booking, Decode: s.decoding(&s.cands[chosen], &j)}
	}
	o.Policy, o.Rows = s.policy, nil
	for i := range s.cands {
		c := &s.cands[i]
		if err != nil {
			*c = candidate{worker: c.worker, out: c.out}
		}
		o.Rows = append(o.Rows, c.row())
	}
	return o, err
}

// cheapest is the least that the request takes on any candidate.
func (s *Scheduler) cheapest(j *judgement) Cost {
	var best *candidate
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in && (best == nil || c.booking+s.decoding(c, j) < best.booking+s.decoding(best, j)) {
			best = c
		}
	}
	return Cost{Prefill: best.booking, Decode: s.decoding(best, j)}
}

// decoding is what the answer adds to the batch's steps, and its part of their floor.
func (s *Scheduler) decoding(c *candidate, j *judgement) float64 {
	k := s.book.Of(c.worker).Constants()
	return j.output * (k.D0/(c.inFlight+1) + k.D1 + k.D2*(float64(j.tokens)+j.output/2))
}

// makeRoom reports whether a worker has room for the request. Of a request that has waited only those remain in that have: what it waited
// for must not be spent in another queue; and of a heavy one, those that have a lane.
func (s *Scheduler) makeRoom(now time.Time, req *Request, output float64) bool {
	all, free, lanes := 0, 0, 0
	if req.Heavy {
		lanes = s.lanes(req.Overdue)
	}
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in {
			all++
			ask := room.Ask{Uncached: c.uncached, PrefillSeconds: c.booking, OutputTokens: output, Yields: req.Yields, AtOnce: req.AtOnce}
			c.full = req.Heavy && c.load.HeavyPrefills >= lanes || !s.room.Has(now, c.worker, &c.load, c.k, c.inFlight, &ask)
			if !c.full {
				free++
			}
		}
	}
	if free == 0 || req.Yields && free <= s.room.Reserve(all) {
		return false
	}
	if req.Waited || req.Heavy {
		for i := range s.cands {
			if c := &s.cands[i]; c.out == in && c.full {
				c.out = outLater
			}
		}
	}
	return true
}

// lanes is how many heavy prefills a worker may have for one more to go there.
func (s *Scheduler) lanes(overdue bool) int {
	all, light := 0, 0
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in {
			all++
			if c.load.HeavyPrefills == 0 {
				light++
			}
		}
	}
	return s.room.Lanes(all, light, overdue)
}
