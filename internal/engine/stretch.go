package engine

import (
	"time"

	"github.com/warmpath/warmpath/internal/prefix"
)

// cursor is how far into a stretch somebody has looked: so many steps had ended at that time.
type cursor struct {
	steps int
	at    time.Duration
}

// BeginStretch is Begin for a caller that wants to know only when something changes: as long as all that is in the batch decodes and
// nobody can be admitted, steps are planned together up to the one in which the first sequence ends. The times are those that single
// steps would have. Cut ends it earlier. End then settles all its steps and reports the last one's tokens.
func (c *Core) BeginStretch(now time.Duration) (end time.Duration, busy bool) {
	end, busy = c.Begin(now)
	if !busy {
		return end, busy
	}
	c.reached, c.contexts = cursor{at: now}, 0
	for _, p := range c.plan {
		c.contexts += float64(p.sequence.context())
	}
	if c.steps = c.stretchSteps(); c.steps > 1 {
		c.end = c.advance(c.steps).at
	}
	return c.end, true
}

// stretchSteps is how many steps like the planned one can follow each other, itself included.
func (c *Core) stretchSteps() int {
	if c.closed || len(c.plan) != len(c.batch) {
		return 1
	}
	batch := len(c.plan)
	// With room for k more pages each, no sequence runs out of its last page and k others.
	steps := 1 + (c.cache.free/batch)*c.cache.pageTokens
	for _, p := range c.plan {
		if !p.decode || len(c.queue) > 0 && p.sequence.publishes() {
			return 1 // what is published may make the one that waits need less room
		}
		steps = min(steps, p.sequence.OutputTokens-p.sequence.Generated)
	}
	return max(1, steps)
}

// Running says that the sequence was admitted, and has room and a slot.
func (s *Sequence) Running() bool { return s.state == running }

// publishes says that the sequence has blocks to come that others can find.
func (s *Sequence) publishes() bool { return s.published < len(s.Keys) }

// advance returns the cursor after so many steps of a stretch in which all decode: every step's contexts are longer by one.
func (c *Core) advance(steps int) cursor {
	k, batch := c.profile.Constants, float64(len(c.plan))
	at := c.reached
	for ; at.steps < steps; at.steps++ {
		at.at += stepTime(k.D0 + k.D1*batch + k.D2*(c.contexts+batch*float64(at.steps)))
	}
	return at
}

func stepTime(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// look moves the cursor to the last step that ended at or before now.
func (c *Core) look(now time.Duration) {
	for c.reached.steps < c.steps {
		next := c.advance(c.reached.steps + 1)
		if next.at > now {
			return
		}
		c.reached = next
	}
}

// Decoded returns how many steps of the stretch being computed had ended at now, which does not run backwards: so many tokens more
// has every sequence of the batch than its Generated says.
func (c *Core) Decoded(now time.Duration) int {
	if !c.planned || c.steps == 1 {
		return 0
	}
	c.look(now)
	return min(c.reached.steps, c.steps)
}

// Planned is the number of steps that are being computed.
func (c *Core) Planned() int { return c.steps }

// Cut ends the stretch with the step that is being computed at now, because something came that may change the next one. It returns
// when that is.
func (c *Core) Cut(now time.Duration) (end time.Duration) {
	if !c.planned || c.steps == 1 {
		return c.end
	}
	if c.look(now); c.reached.steps < c.steps {
		last := c.reached
		if last.steps == 0 || last.at < now {
			last = c.advance(last.steps + 1)
		}
		c.steps, c.end = last.steps, last.at
	}
	return c.end
}

// catchUp settles so many steps of a stretch before its last: the sequences got a token in each. Where answers have keys, two may
// come to the same one, and the first in time is to have it: then it goes step by step.
func (c *Core) catchUp(steps int) {
	atOnce := steps
	for _, p := range c.plan {
		if p.sequence.publishes() {
			atOnce = 1
		}
	}
	for ; steps > 0; steps -= atOnce {
		for _, p := range c.plan {
			s := p.sequence
			if s.state != running {
				continue
			}
			s.computed += atOnce
			s.Generated += atOnce
			c.counts.GeneratedTokens += uint64(atOnce)
			c.occupy(s, 1)
		}
	}
}

// Cached returns how many leading blocks of a prompt are in the cache or the slower memory behind it, those
// that are being computed included.
func (c *Core) Cached(keys []prefix.Key) int {
	n := c.cache.depth(keys)
	if t := c.cache.tier; t != nil {
		n += t.depth(keys[n:])
	}
	return n
}

// OnBlock has f told of every block that becomes findable (stored) or is given up, in order.
func (c *Core) OnBlock(f func(key prefix.Key, stored bool)) { c.cache.changed = f }
