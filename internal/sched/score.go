package sched

import (
	"math"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/tie"
)

const (
	fullShare     = 0.8 // of a prompt held from which it is a full hit
	seenWeight    = 50  // requests over which the mean request is taken
	priceSteepest = 4.0 // phi is at most priceSteepest*B + 1
	// waitPriceMax bounds the price of the wait behind queued prefill. Unpriced, a long prefill under way on an almost idle worker draws
	// followers that wait for it; priced like prefill, near saturation every queue looks longer than any hit is worth, and the hit rate
	// tips over. Hot prefixes want it above 2, a ladder of shared prefixes near its knee below 1.5.
	waitPriceMax = 2.5
	// reuseLittle is the share of recent prompts that was cached below which that bound is lifted in proportion: where hardly anything is
	// reused there is no hit rate to guard. Until seenWeight prompts were seen nobody can tell.
	reuseLittle = 0.1
	// slowerShare is what a token in an engine's host memory costs of one that is computed: 128 KB of keys and values of an 8 billion model
	// take some 5 us over a PCIe 5 bus (25 GB/s), its computing 40 to 60 us on the accelerators at such buses.
	slowerShare = 0.1
)

// candidate is one worker before one request. With hundreds of them a choice waits for their memory, so what is looked at together lies
// together, and each is passed over as few times as can be: filtered, held against the prompt, weighed, and chosen from.
type candidate struct {
	worker   *fleet.Worker
	score    float64
	inFlight float64
	cached   int     // h: leading tokens of the prompt that it holds
	loaded   int     // tokens of cached that come from slower memory
	pressure float64 // what was put into its cache lately for its size, see Scheduler.filled
	burden   float64 // the part of total that is due to others there, 0 on an idle worker
	out      verdict
	soft     uint8
	byEvents bool // cached is told
	full     bool // it has no room at present for a request that may wait

	uncached   int // u
	contextMax int // of the requested model there; 0 unknown
	load       fleet.Load
	sharedKey  uint64  // of the last block it holds
	blocks     int32   // cached in blocks of the prompt's bytes
	told       int     // h by the worker's own word, -1 when it said nothing
	booking    float64 // w without the floor of a step: those that wait share the step
	others     float64 // part of the time to the first token that is neither queued prefill nor its own

	k                                                                               cost.Constants
	queued, waitPrice, toll, prefill, delay, price, decode, batch, displaced, total float64
}

// scored reports whether the candidate passed the hard filters: those that a soft one put out are scored too, to be explained.
func (c *candidate) scored() bool { return c.out == in || c.out > softened }

// slot is what is kept of a worker between decisions.
type slot struct {
	worker *fleet.Worker
	idHash uint64
	turn   uint64  // when it was chosen last; 0 never
	filled float64 // tokens put into its cache, see Scheduler.filled

	expected []expected // the newest at the end, at most expectedMax
}

// means is the mean request, of which other routers' are assumed to be.
type means struct {
	count                     int
	uncached, cached, context float64
}

func (m *means) add(uncached, cached int, output float64) {
	m.count = min(m.count+1, seenWeight)
	step := func(mean *float64, v float64) { *mean += (v - *mean) / float64(m.count) }
	step(&m.uncached, float64(uncached))
	step(&m.cached, float64(cached))
	step(&m.context, float64(uncached+cached)+output/2)
}

// judgement is what all candidates share.
type judgement struct {
	tokens      int     // L
	output      float64 // G
	streamed    bool
	inFlight    float64 // mean per candidate
	running     float64 // foreign requests where telemetry is unknown: the mean of those known
	waiting     float64
	context     float64 // mean context of a request in flight
	reuse       float64 // share of recent prompts that was cached
	unguarded   float64 // how many times as high the bound of the wait's price is: 1 where hits are worth guarding
	gentlest    float64 // the least pressure
	capacity    float64 // tokens that all candidates' caches hold
	bestMatched int
	sum, slow   decoding // of all candidates' steps, and of the slowest
	meanStep    float64  // seconds of a step in the mean batch, on the mean
}

// reuse is the share of recent prompts' tokens that was cached: as likely is what a prompt displaces to be asked for again.
func (m *means) reuse() float64 {
	if m.cached == 0 {
		return 0
	}
	return m.cached / (m.cached + m.uncached)
}

// judge matches the prompt and takes the means that scores refer to.
func (s *Scheduler) judge(req *Request) judgement {
	j := judgement{tokens: max(req.PromptTokens, 0), streamed: req.Streamed}
	if req.Generates {
		j.output = s.expect(req)
	}
	j.reuse, j.unguarded = s.seen.reuse(), 1
	if s.seen.count == seenWeight && j.reuse < reuseLittle {
		j.unguarded = reuseLittle / max(j.reuse, 1e-9)
	}
	j.gentlest = math.Inf(1)
	s.match(req)
	var known, left, flights, contexts float64
	for i := range s.cands {
		c := &s.cands[i]
		if !c.scored() {
			continue
		}
		s.holds(c, req, &j)
		s.presses(c, &j)
		c.k = s.book.Of(c.worker).Constants()
		if c.out != in {
			continue
		}
		left++
		j.sum.add(&c.k)
		j.slow.raise(&c.k)
		flights += float64(c.load.InFlight)
		contexts += float64(c.load.ContextTokens)
		if c.load.ForeignKnown {
			known++
			j.running += float64(c.load.ForeignRunning)
			j.waiting += float64(c.load.ForeignWaiting)
		}
	}
	foreign := j.running + j.waiting
	if known > 0 {
		foreign *= left / known
		j.running /= known
		j.waiting /= known
	}
	j.inFlight = (flights + foreign) / left
	switch {
	case flights > 0:
		j.context = contexts / flights
	case s.seen.count > 0:
		j.context = s.seen.context
	default:
		j.context = float64(j.tokens) + j.output/2
	}
	j.meanStep = j.sum.step(j.meanBatch()) / left
	return j
}

func (s *Scheduler) expect(req *Request) float64 {
	if s.outputs != nil {
		return s.outputs.Expect(req.Model, req.Tenant, req.MaxTokens)
	}
	if req.MaxTokens > 0 {
		return float64(req.MaxTokens)
	}
	return outputTokensDefault
}

// outputTokensDefault is the expected answer where nothing estimates it.
const outputTokensDefault = 256

// match asks which leading blocks of the prompt each worker is assumed to hold.
func (s *Scheduler) match(req *Request) {
	s.depth = s.depth[:0]
	if req.Held != nil {
		s.depth = append(s.depth, req.Held...)
	} else if s.index != nil && len(req.Chain.Keys) > 0 {
		s.depth = s.index.Match(req.Chain, s.depth)
	}
}

// holds says how much of the prompt a candidate holds, in tokens: matched bytes in proportion, whole blocks of its engine, and never the
// last token, which every engine computes anew.
func (s *Scheduler) holds(c *candidate, req *Request, j *judgement) {
	chain := &req.Chain
	whole := max(req.Bytes, chain.Bytes())
	c.cached, c.blocks, c.sharedKey = 0, 0, 0
	if n := c.worker.Slot; n < len(s.depth) && s.depth[n] > 0 && whole > 0 {
		c.blocks = min(s.depth[n], int32(len(chain.Keys)))
		last := int(c.blocks) - 1
		c.sharedKey = uint64(chain.Keys[last])
		c.cached = int(int64(j.tokens) * int64(chain.Ends[last]) / int64(whole))
		c.cached = wholeBlocks(c.cached, j.tokens, c.worker.BlockTokens())
	}
	s.byEvents(c, req, j)
	c.uncached = j.tokens - c.cached
	j.bestMatched = max(j.bestMatched, c.cached)
}

// score works out every term of the default rule for every candidate, whatever the policy, so that rows can be compared.
func (s *Scheduler) score(j judgement) {
	for i := range s.cands {
		if c := &s.cands[i]; c.scored() {
			s.weigh(c, &j)
		}
	}
}

// weigh fills in one candidate's terms, as DESIGN.md "Scoring" has them. Unknown telemetry is neutral: such a worker is taken to have
// as many foreign requests as the others have on the mean.
func (s *Scheduler) weigh(c *candidate, j *judgement) {
	k := &c.k
	running, waiting := j.running, j.waiting
	if c.load.ForeignKnown {
		running, waiting = float64(c.load.ForeignRunning), float64(c.load.ForeignWaiting)
	}
	b := float64(c.load.InFlight) + running + waiting
	tokens := float64(j.tokens)
	kv := float64(c.load.ContextTokens) + (running+waiting)*j.context
	h, u := float64(c.cached), float64(c.uncached)

	c.inFlight = b
	loading := slowerShare * k.B * float64(c.loaded)
	c.prefill = k.Prefill(c.uncached, c.cached) + loading
	c.booking = k.A + k.B*u + k.C*(u*(u+2*h)) + loading
	c.delay = c.lengthens(c.k)
	c.price = s.price(c, j)
	c.displaced = j.reuse * k.B * u * c.youth(j)
	c.decode = j.output * k.Step(b+1, kv+tokens)
	c.batch = j.output * b * (k.D1 + k.D2*tokens)
	room := s.waitForRoom(c, j, 0)
	c.toll = s.tollFor(c, j, kv)
	c.others = room
	if decoding := float64(c.load.InFlight-c.load.Prefilling) + running; decoding > 0 {
		beside := k.D1*decoding + k.D2*kv
		c.others += (k.D0+beside)/2 + math.Ceil(u/cost.ChunkTokens)*beside
	}
	c.queued = c.load.QueuedSeconds + room
	if waiting > 0 {
		mean := c.prefill
		if s.seen.count > 0 {
			mean = k.Prefill(int(s.seen.uncached), int(s.seen.cached))
		}
		c.queued += waiting * mean
	}
	c.waitPrice = c.waitPriced(j)
	decode := c.decode
	if s.without != 0 {
		decode = s.without.leaveOut(c)
	}
	c.total = c.queued + c.waitPrice + c.toll + c.prefill + c.price*c.delay + decode + c.batch + c.displaced
	c.burden = c.queued + c.batch + j.output*(k.D1*b+k.D2*kv)
	if math.IsNaN(c.total) {
		c.total = math.Inf(1)
	}
}

// waitPriced is what the wait behind queued prefill costs besides.
func (c *candidate) waitPriced(j *judgement) float64 {
	return min(c.price, waitPriceMax*j.unguarded) * c.load.QueuedSeconds
}

// lengthens is by how much the prefill makes the engine's steps longer. A step takes the longer of its floor and its prompt tokens, so
// that a short prompt rides along with decoding for nothing, and the second one in the same step does not.
func (c *candidate) lengthens(k cost.Constants) float64 {
	own := k.B * float64(c.uncached)
	pending := min(c.load.QueuedSeconds, k.B*cost.ChunkTokens)
	return c.booking - own + max(k.D0, pending+own) - max(k.D0, pending)
}

func (s *Scheduler) slot(w *fleet.Worker) *slot {
	for w.Slot >= len(s.slots) {
		s.slots = append(s.slots, slot{})
	}
	l := &s.slots[w.Slot]
	if l.worker != w {
		*l = slot{worker: w, idHash: HashID(w.ID)}
	}
	return l
}

// need is what the chosen candidate takes.
func (c *candidate) need(j judgement) fleet.Need {
	return fleet.Need{
		PromptTokens: j.tokens, CachedTokens: c.cached, Streamed: j.streamed, SharedKey: c.sharedKey,
		PrefillSeconds: c.booking, OthersSeconds: c.others, DecodeSeconds: c.decode,
	}
}

// hit names what the choice made of the prefixes that were there.
func (j *judgement) hit(c *candidate) Hit {
	switch {
	case tie.Clearly(j.bestMatched, c.cached, j.tokens):
		return Declined
	case c.cached == 0:
		return Miss
	case float64(c.cached) >= fullShare*float64(j.tokens):
		return Full
	}
	return Partial
}

// explain keeps the best rows: the chosen one, then by the policy's score those that were in, put out softly, put out hard.
func (s *Scheduler) explain(chosen int, reason, relaxed string, j judgement) Decision {
	c := &s.cands[chosen]
	d := Decision{
		Policy: s.policy, Worker: c.worker, Hit: j.hit(c), Relaxed: relaxed, Reason: reason,
		MatchedTokens: c.cached, MatchedBlocks: c.blocks, BestMatchedTokens: j.bestMatched, ByEvents: c.byEvents,
		ToldTokens: c.told, BlockTokens: c.worker.BlockTokens(), OutputTokens: j.output, Tie: s.rule,
	}
	if of := &reasonsCost[s.rule.By]; d.Hit == Declined && reason == of[0] {
		d.Reason = of[1]
	}
	var best [RowsMax]int
	best[0] = chosen
	n := 1
	for i := range s.cands {
		if i == chosen || (n == RowsMax && !s.before(i, best[n-1])) {
			continue
		}
		n = min(n+1, RowsMax)
		at := n - 1
		for at > 1 && s.before(i, best[at-1]) {
			best[at] = best[at-1]
			at--
		}
		best[at] = i
	}
	if d.Rows = s.req.Rows; cap(d.Rows) < n {
		d.Rows = make([]Row, n)
	}
	d.Rows = d.Rows[:n]
	for r, i := range best[:n] {
		d.Rows[r] = s.cands[i].row()
	}
	return d
}

func (s *Scheduler) before(a, b int) bool {
	x, y := &s.cands[a], &s.cands[b]
	if x.out != y.out {
		return x.out == in || (y.out != in && x.scored() && !y.scored())
	}
	return x.score < y.score
}

func (c *candidate) row() Row {
	return Row{
		Worker: c.worker, ID: c.worker.ID,
		MatchedTokens: c.cached, QueuedSeconds: c.queued, WaitPriceSeconds: c.waitPrice, TollSeconds: c.toll, PrefillSeconds: c.prefill, Price: c.price,
		DelaySeconds: c.delay, DecodeSeconds: c.decode, BatchSeconds: c.batch, DisplacedSeconds: c.displaced, TotalSeconds: c.total, Score: c.score,
		InFlight: c.worker.InFlight(), Load: c.inFlight, LoadedTokens: c.loaded, Pressure: c.pressure, BurdenSeconds: c.burden, ByEvents: c.byEvents, Why: c.out.String(),
	}
}
