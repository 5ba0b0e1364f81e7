package sched

import (
	"fmt"
	"math"
	"time"
)

// RoomLimits say when a worker has none for another request that could wait elsewhere. Engines cannot put what they took into another order, or
// pass it on, so that they get no more than keeps them busy. The zero RoomLimits are DefaultRoomLimits.
type RoomLimits struct {
	// DepthSeconds of queued prefill: a request that finds so much before it does not begin soon.
	DepthSeconds float64
	// HeavyLanesMax is how many heavy prefills may be under way on one worker at one time, and LightMin how many workers stay without any,
	// where there are more than that.
	HeavyLanesMax, LightMin int
}

// DefaultRoomLimits are one second of prefill, two of an engine's longest steps of prompt tokens on the slowest of DESIGN's profiles.
func DefaultRoomLimits() RoomLimits {
	return RoomLimits{DepthSeconds: 1, HeavyLanesMax: 1, LightMin: 1}
}

// slotsSpare is what goes to an engine beyond its batch slots, as a share of them and at least: the next to begin when one ends.
const slotsSpare, slotsSpareMin = 1.0 / 16, 1

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
		o.Room = !req.MayWait || s.makeRoom(now, &s.req)
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
func (s *Scheduler) makeRoom(now time.Time, req *Request) bool {
	lanes := s.lanes(req)
	any := false
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in {
			c.full = !s.hasRoom(now, c, req, lanes)
			any = any || !c.full
		}
	}
	if any && (req.Waited || req.Heavy) {
		for i := range s.cands {
			if c := &s.cands[i]; c.out == in && c.full {
				c.out = outLater
			}
		}
	}
	return any
}

func (s *Scheduler) hasRoom(now time.Time, c *candidate, req *Request, lanes int) bool {
	w, l := c.worker, &c.load
	if req.Heavy && l.HeavyPrefills >= lanes {
		return false
	}
	if w.IsBusy(now) && l.InFlight > 0 { // with nothing of ours there, asking again is the only way to know
		return false
	}
	if slots := float64(w.SlotsMax()); slots > 0 && c.inFlight >= slots+max(slotsSpareMin, slotsSpare*slots) {
		return false
	}
	if most := w.InFlightMax(); most > 0 && l.InFlight >= most {
		return false
	}
	if most := w.KVTokensMax(); most > 0 && l.InFlight > 0 && l.KVHeldTokens+c.uncached > most {
		return false
	}
	return l.Prefilling == 0 || w.Info().SharesSteps && w.SlotsMax() > 0 || l.QueuedSeconds < s.room.DepthSeconds
}

// lanes is how many heavy prefills a worker may have for one more to go there: none of its own where the last workers without any are to
// be left alone.
func (s *Scheduler) lanes(req *Request) int {
	if !req.Heavy {
		return 0
	}
	all, light := 0, 0
	for i := range s.cands {
		if c := &s.cands[i]; c.out == in {
			all++
			if c.load.HeavyPrefills == 0 {
				light++
			}
		}
	}
	if all > s.room.LightMin && light <= s.room.LightMin {
		return 0
	}
	return s.room.HeavyLanesMax
}
