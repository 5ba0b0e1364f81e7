package sched

import "math"

// turnoverMax is how many turnovers go by until weights are scaled down, lest they overflow.
const turnoverMax = 100

// filled enters what a placement puts into a worker's cache: the uncached part of its prompt and the answer that is expected. Everything
// that is put in displaces what was used longest ago there, so the worker into which least was put lately, for its size, is where a
// prompt displaces what is oldest. Lately is by turnovers, as many tokens as all workers hold, each of which leaves 1/e of what was
// before: what the fleet has forgotten is forgotten here too, whatever the pace of requests. New tokens weigh more rather than old ones
// less, so that nothing is worked out for workers that were not chosen. A ring of the times of the last capacity tokens was rejected:
// it repeats its own past, so that equal workers get a whole cache's worth of requests each in turn.
func (s *Scheduler) filled(c *candidate, j *judgement) {
	if j.capacity == 0 {
		return
	}
	tokens := min(float64(c.uncached)+j.output, j.capacity) // more than all there is does not fit, and would overflow the weight
	s.turnover += tokens / j.capacity
	s.slot(c.worker).filled += tokens * math.Exp(s.turnover)
	if s.turnover > turnoverMax {
		for i := range s.slots {
			s.slots[i].filled *= math.Exp(-s.turnover)
		}
		s.turnover = 0
	}
}

// presses works out how much was put into a candidate's cache lately, for its size, and the least of it so far.
func (s *Scheduler) presses(c *candidate, j *judgement) {
	c.pressure = 0
	if capacity := float64(c.worker.KVTokensMax()); capacity > 0 {
		c.pressure = s.slot(c.worker).filled / capacity
		j.capacity += capacity
	}
	if c.out == in {
		j.gentlest = min(j.gentlest, c.pressure)
	}
}

// youth is how much younger what a prompt displaces is than on the worker where that is oldest: 0 there, towards 1 where it is youngest.
func (c *candidate) youth(j *judgement) float64 {
	if c.pressure <= j.gentlest {
		return 0
	}
	return 1 - j.gentlest/c.pressure
}
