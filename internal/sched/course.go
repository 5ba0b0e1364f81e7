package sched

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prefix"
)

// Course is a placed request on its way: from the reservation to what its end teaches.
type Course struct {
	worker        *fleet.Worker
	reservation   *fleet.Reservation
	began         time.Time
	matchedTokens int
	matchedBlocks int32
	expected      []prefix.Key // see Scheduler.expectBlocks

	clean   bool          // its prefill was observed alone,
	prefill time.Duration // and took so long
	batch   fleet.Load    // of the worker at the first token
	alone   bool          // nobody else was on the worker from beginning to end
	beside  time.Duration // of its decoding, in which others prefilled there; until it ends, minus the worker's time before
}

// Lesson is what a finished request teaches.
type Lesson struct {
	Model, Tenant string
	Chain         prefix.Chain
	Streamed      bool
	Whole         bool // the answer ended by itself

	PromptTokens int  // as the engine counted them when Counted, else estimated
	Counted      bool // and then
	TextBytes    int  // is what they were made of; 0 when they were not made of text alone
	CachedTokens int
	Reported     bool // the engine told how many were cached
	Generated    int

	Gaps              []float32 // seconds between tokens
	FirstToken, Ended time.Time // FirstToken is zero when none was seen
}

const (
	// assumedBlockTokens is the tokens of one engine block where nobody told; vLLM's default.
	assumedBlockTokens = 16
	// gapsMin is how many token gaps make a median worth learning, gapsMax how many are looked at.
	gapsMin, gapsMax = 4, 256
)

// Follow takes what Place returned and follows it to its end.
func Follow(d *Decision, r *fleet.Reservation, now time.Time) Course {
	return Course{worker: d.Worker, reservation: r, began: now, matchedTokens: d.MatchedTokens, matchedBlocks: d.MatchedBlocks, expected: d.expected}
}

// Reservation is what the request has on its worker.
func (c *Course) Reservation() *fleet.Reservation { return c.reservation }

// FirstToken moves the request from prefill to decoding.
func (s *Scheduler) FirstToken(c *Course, now time.Time) {
	c.clean, c.prefill = c.reservation.FirstToken(now)
	c.batch = c.worker.Load(now)
	c.beside = -c.worker.PrefillTime(now)
}

// Prefill is how long its prefill took; false when it was not seen alone.
func (c *Course) Prefill() (took time.Duration, alone bool) { return c.prefill, c.clean }

// Release ends the request; later calls change nothing. A prompt that was entered as expected and never computed, for all that is known,
// is withdrawn from the worker's assumed cache: a miss too many costs a prefill, a hit that is none costs a wait for nothing besides.
func (s *Scheduler) Release(c *Course, chain prefix.Chain, now time.Time, o fleet.Outcome, computed bool) {
	c.alone = c.reservation.Alone()
	released := c.reservation.Release(now, o)
	s.withdraw(c.worker, c.expected)
	c.expected = nil
	if released {
		c.beside += c.worker.PrefillTime(now)
	}
	if released && !computed && s.index != nil && !c.worker.Gone() {
		s.index.Withdraw(c.worker.Slot, chain, c.matchedBlocks)
	}
}

// Learn takes what a finished request teaches: the worker's speed, bytes per token, and how far the assumed cache was right. It is called
// after Release. The length of its answer is learned where that was foretold.
func (s *Scheduler) Learn(c *Course, l Lesson) {
	if s.ratio != nil && l.Counted && l.TextBytes > 0 {
		s.ratio.Learn(l.Model, l.TextBytes, l.PromptTokens)
	}
	if c.worker.Gone() {
		return
	}
	if l.Reported {
		s.trust(c, &l)
	} else {
		l.CachedTokens = c.matchedTokens
	}
	l.CachedTokens = max(0, min(l.CachedTokens, l.PromptTokens-1))
	s.learnSpeed(c, &l)
}

// trust compares the engine's word with the assumption. When far less was cached than assumed, the worker has evicted it, and with
// it what continued it.
func (s *Scheduler) trust(c *Course, l *Lesson) {
	predicted := c.matchedTokens
	if slack := max(2*assumedBlockTokens, predicted/10); s.index == nil || s.ratio == nil || l.CachedTokens+slack >= predicted {
		return
	}
	bytes := int32(s.ratio.Bytes(l.Model, l.CachedTokens))
	depth, _ := slices.BinarySearch(l.Chain.Ends, bytes+1)
	s.index.Trim(c.worker.Slot, l.Chain, int32(depth))
}

// learnSpeed learns the worker's timing from a stream that had it to itself in prefill, and from the median gap of its tokens: the
// gaps in which another prefill ran are outliers of the median, not the worker's decode speed. Where others prefilled for most of the
// time they are the median itself, so that nothing is learned: a worker that is crowded for a while would look slow for good, and its
// siblings would draw a queue.
func (s *Scheduler) learnSpeed(c *Course, l *Lesson) {
	m, uncached := s.book.Of(c.worker), l.PromptTokens-l.CachedTokens
	if !l.Streamed {
		m.LearnRough(uncached, l.CachedTokens, l.Generated, l.Ended.Sub(c.began).Seconds())
		if c.alone {
			m.LearnWhole(uncached, l.CachedTokens, l.Generated, l.Ended.Sub(c.began).Seconds())
		}
		return
	}
	if !l.FirstToken.IsZero() {
		m.LearnRough(uncached, l.CachedTokens, 0, l.FirstToken.Sub(c.began).Seconds())
	}
	if c.clean {
		m.LearnPrefill(uncached, l.CachedTokens, c.prefill.Seconds())
	}
	if len(l.Gaps) < gapsMin || 2*c.beside > l.Ended.Sub(l.FirstToken) {
		return
	}
	gaps := slices.Clone(l.Gaps[:min(len(l.Gaps), gapsMax)])
	slices.Sort(gaps)
	m.LearnStep(float64(max(1, c.batch.InFlight)), float64(c.batch.ContextTokens), float64(gaps[len(gaps)/2]))
}
