package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/prefix"
)

// Sequence is one prompt and its answer. The caller sets the first group of fields and does not change them after
// Submit; the Core sets the others, which are to be read only between its calls.
type Sequence struct {
	// PromptTokens is at least 1. OutputTokens is how many tokens will be generated; 0 is a prompt that is only
	// prefilled, as for an embedding.
	PromptTokens, OutputTokens int
	// Keys are the chained keys of the full blocks of prompt and answer together: Keys[i] stands for all tokens up to
	// the end of block i. Blocks beyond them are never shared.
	Keys []prefix.Key
	// Owner is the caller's own handle.
	Owner any

	// Arrived, Admitted (first time in the batch), FirstToken and Finished are virtual times.
	Arrived, Admitted, FirstToken, Finished time.Duration
	// CachedTokens is how much of the prompt was found cached when it was first admitted.
	CachedTokens int
	// Generated is the number of tokens produced so far.
	Generated int
	// Preemptions counts how often the sequence lost its room and had to be computed again.
	Preemptions int

	state    state
	computed int // tokens whose KV is there
	blocks   []int32
	// published is how many leading blocks others can find.
	published int
	opening   bool // the prefill has not had a step yet
}

type state uint8

const (
	unknown state = iota
	waiting
	running
	finished
)

// context is the number of tokens the sequence consists of now.
func (s *Sequence) context() int { return s.PromptTokens + s.Generated }

// decoding says that only the newest token is left to compute.
func (s *Sequence) decoding() bool { return s.Generated > 0 && s.computed == s.context()-1 }

// Counts are totals since the start.
type Counts struct {
	// Steps is the number of steps, BusyTime their virtual time.
	Steps    uint64
	BusyTime time.Duration
	// PromptTokens are the prompts whose prefill ended; CachedTokens of those were found cached at admission.
	PromptTokens, CachedTokens uint64
	// PrefilledTokens were computed as prompt, including those computed again after a preemption.
	PrefilledTokens uint64
	GeneratedTokens uint64
	// QueriedTokens and HitTokens count what admitted prompts asked of the prefix cache and what they found.
	QueriedTokens, HitTokens uint64
	// LoadedTokens are those of them that came from slower memory.
	LoadedTokens uint64
	// Finished and Aborted count sequences. Evictions counts cached blocks that were given up for room.
	Finished, Aborted, Preemptions, Evictions uint64
}

// Emission is one sequence's part in the step that ended: one more token, or the end of a prompt without output.
type Emission struct {
	Sequence *Sequence
	// First marks the token that ended the prefill, Finished the last one.
	First, Finished bool
}

// part is what one sequence does in the step being computed.
type part struct {
	sequence *Sequence
	tokens   int
	decode   bool
}

// Core is the engine without time, sockets or goroutines. It is not synchronised. Between steps:
// Begin plans one and says when it ends, End settles it; Submit and Abort may come at any time.
type Core struct {
	profile cost.Profile
	cache   *kvCache
	queue   []*Sequence // waiting, the next one first
	batch   []*Sequence // running, the oldest first
	plan    []part
	planned bool
	loading float64 // seconds that this step waits for slower memory
	closed  bool    // nobody was admitted to this step, because somebody lost their room
	steps   int     // that are planned together; more than one in a stretch
	begun   time.Duration
	end     time.Duration
	// Of a stretch: how far it was looked at, and the sum of the contexts at its begin.
	reached  cursor
	contexts float64
	out      []Emission
	matched  []int32
	counts   Counts
}

// NewCore makes an idle engine with an empty cache. The profile's limits are all positive.
func NewCore(p cost.Profile) *Core {
	page := p.PageTokens
	if page == 0 {
		page = p.BlockTokens
	}
	c := &Core{profile: p, cache: newKVCache(p.KVTokensMax, p.BlockTokens, page)}
	if blocks := p.TierTokensMax / p.BlockTokens; blocks > 0 {
		c.cache.tier = newTier(blocks)
	}
	return c
}

// ErrTooLong is wrapped by Submit's error for a sequence that could never fit in the KV cache.
var ErrTooLong = errors.New("sequence is longer than the KV cache")

// Submit puts a sequence at the end of the waiting queue.
func (c *Core) Submit(s *Sequence, now time.Duration) error {
	total := s.PromptTokens + s.OutputTokens
	if s.PromptTokens < 1 || s.OutputTokens < 0 {
		return fmt.Errorf("a sequence of %d prompt and %d output tokens: it needs a prompt", s.PromptTokens, s.OutputTokens)
	}
	if c.cache.pagesFor(total) > c.cache.total {
		return fmt.Errorf("%w: %d prompt and %d output tokens, %d in the profile", ErrTooLong,
			s.PromptTokens, s.OutputTokens, c.profile.KVTokensMax)
	}
	s.Arrived, s.state = now, waiting
	c.queue = append(c.queue, s)
	return nil
}

// Abort takes a sequence out, wherever it is. Its room is free for the next step; a step that is being computed keeps
// its length. It returns false when the sequence is not there (any more).
func (c *Core) Abort(s *Sequence) bool {
	switch s.state {
	case waiting:
		c.queue = remove(c.queue, s)
	case running:
		c.batch = remove(c.batch, s)
		c.free(s)
	default:
		return false
	}
	s.state = finished
	c.counts.Aborted++
	return true
}

func remove(list []*Sequence, s *Sequence) []*Sequence {
	i := slices.Index(list, s)
	return slices.Delete(list, i, i+1)
}

func (c *Core) free(s *Sequence) {
	c.cache.release(s.blocks)
	s.blocks, s.computed = nil, 0
}

// Begin plans the next step and returns the virtual time at which it ends; false means that there is nothing to do.
// Every true is followed by one End.
func (c *Core) Begin(now time.Duration) (end time.Duration, busy bool) {
	if c.planned {
		panic("engine: Begin before End of the last step")
	}
	c.plan = c.plan[:0]
	budget, preempted := c.planBatch(c.profile.ChunkTokens)
	if c.closed = preempted; !preempted {
		c.admit(now, budget)
	}
	if len(c.plan) == 0 {
		return 0, false
	}
	c.begun, c.steps, c.planned = now, 1, true
	c.end = now + stepTime(c.stepSeconds())
	return c.end, true
}

// planBatch gives every running sequence its part, oldest first, preempting the youngest when the cache is full.
func (c *Core) planBatch(budget int) (left int, preempted bool) {
	for i := 0; i < len(c.batch) && budget > 0; i++ {
		s := c.batch[i]
		n := min(s.context()-s.computed, budget)
		for !c.extend(s, n) {
			preempted = true
			if c.preemptYoungest() == s {
				return budget, true
			}
		}
		budget -= n
	}
	return budget, preempted
}

// extend makes room for n more tokens of a running sequence and adds them to the plan. Full blocks are findable from
// here on, so that a sibling admitted in the same step shares them: the step writes them before anyone reads.
func (c *Core) extend(s *Sequence, n int) bool {
	if !c.occupy(s, n) {
		return false
	}
	c.plan = append(c.plan, part{s, n, s.decoding()})
	return true
}

func (c *Core) occupy(s *Sequence, n int) bool {
	blocks, ok := c.cache.grow(s.blocks, s.computed+n)
	if !ok {
		return false
	}
	s.blocks = blocks
	full := min((s.computed+n)/c.cache.blockTokens, len(s.Keys))
	for ; s.published < full; s.published++ {
		c.cache.publish(s.blocks[s.published], s.Keys[s.published])
	}
	return true
}

// preemptYoungest sends the sequence admitted last back to the head of the queue; all it computed is lost, except what
// is still cached when its turn comes again.
func (c *Core) preemptYoungest() *Sequence {
	last := len(c.batch) - 1
	s := c.batch[last]
	c.batch[last] = nil
	c.batch = c.batch[:last]
	c.free(s)
	s.state = waiting
	s.Preemptions++
	c.counts.Preemptions++
	c.queue = slices.Insert(c.queue, 0, s)
	return s
}

// admit moves waiting sequences into the batch in order, as long as there is a slot, budget, and room for the whole of
// what the next one must compute. It never overtakes: a big prompt that does not fit yet holds up those behind it.
func (c *Core) admit(now time.Duration, budget int) {
	for len(c.queue) > 0 && len(c.batch) < c.profile.BatchMax && budget > 0 {
		s := c.queue[0]
		// One token must be computed to have something to sample from, so the last block is never taken whole.
		c.matched = c.cache.match(s.Keys, (s.context()-1)/c.cache.blockTokens, c.matched[:0])
		if !c.cache.fits(c.matched, s.context()) {
			return
		}
		c.queue[0] = nil
		c.queue = c.queue[1:]
		c.cache.share(c.matched)
		s.blocks = append(s.blocks[:0], c.matched...)
		s.computed, s.published = len(c.matched)*c.cache.blockTokens, len(c.matched)
		s.state, s.opening = running, true
		c.load(s, (s.context()-1)/c.cache.blockTokens)
		if s.Preemptions == 0 {
			// A step may have begun, on the virtual clock, just before a request came that it takes along.
			s.Admitted, s.CachedTokens = max(now, s.Arrived), s.computed
			c.counts.QueriedTokens += uint64(s.PromptTokens)
			c.counts.HitTokens += uint64(s.computed)
		}
		c.batch = append(c.batch, s)
		n := min(s.context()-s.computed, budget)
		c.extend(s, n)
		budget -= n
	}
}

// stepSeconds is the time of the planned step, in seconds of the profile:
// max(d0, b*X) + c*sum((p+x)^2 - p^2) + d1*B + d2*K + a for every prefill that opens,
// X the prompt tokens x of all prefills, p those each had already, B the decoding sequences, K the sum of their contexts; and the time that
// what was loaded from slower memory takes.
func (c *Core) stepSeconds() float64 {
	var prompt, squares, batch, context, opened float64
	for _, p := range c.plan {
		if p.decode {
			batch++
			context += float64(p.sequence.context())
			continue
		}
		x, before := float64(p.tokens), float64(p.sequence.computed)
		prompt += x
		squares += x * (x + 2*before)
		if p.sequence.opening {
			opened++
			p.sequence.opening = false
		}
	}
	k := c.profile.Constants
	seconds := max(k.D0, k.B*prompt) + k.C*squares + k.D1*batch + k.D2*context + k.A*opened + c.loading
	c.loading = 0
	return seconds
}

// End settles the planned step: what it computed counts, and every sequence that reached its end gets one token. The
// result is valid until the next Begin.
func (c *Core) End() []Emission {
	clear(c.out)
	c.out = c.out[:0]
	c.counts.Steps += uint64(c.steps)
	c.counts.BusyTime += c.end - c.begun
	if c.steps > 1 {
		c.catchUp(c.steps - 1)
	}
	for i, p := range c.plan {
		c.plan[i].sequence = nil
		s := p.sequence
		if s.state != running {
			continue
		}
		s.computed += p.tokens
		if !p.decode {
			c.counts.PrefilledTokens += uint64(p.tokens)
		}
		if s.computed == s.context() {
			c.emit(s)
		}
	}
	c.planned = false
	return c.out
}

func (c *Core) emit(s *Sequence) {
	e := Emission{Sequence: s, First: s.Generated == 0}
	if e.First {
		s.FirstToken = c.end
		c.counts.PromptTokens += uint64(s.PromptTokens)
		c.counts.CachedTokens += uint64(s.CachedTokens)
	}
	if s.OutputTokens > 0 {
		s.Generated++
		c.counts.GeneratedTokens++
	}
	if s.Generated == s.OutputTokens {
		e.Finished = true
		s.Finished, s.state = c.end, finished
		c.batch = remove(c.batch, s)
		c.free(s)
		c.counts.Finished++
	}
	c.out = append(c.out, e)
}

// Running is the number of sequences in the batch, Waiting of those in the queue.
func (c *Core) Running() int { return len(c.batch) }

// Waiting is the number of sequences in the queue.
func (c *Core) Waiting() int { return len(c.queue) }

// ContextTokens is the sum of the contexts of the sequences in the batch.
func (c *Core) ContextTokens() int {
	n := 0
	for _, s := range c.batch {
		n += s.context()
	}
	return n
}

// KVUsage is the share of blocks held by running sequences, 0..1. Cached blocks that nobody holds count as free.
func (c *Core) KVUsage() float64 {
	return 1 - float64(c.cache.free)/float64(c.cache.total)
}

// Blocks is the number of blocks in the KV cache, of PageTokens each.
func (c *Core) Blocks() int { return c.cache.total }

// Counts returns the totals.
func (c *Core) Counts() Counts {
	n := c.counts
	n.Evictions = c.cache.evictions
	return n
}
