package ghost

import (
	"math"

	"github.com/warmpath/warmpath/internal/sched"
)

// Note places the requests of a batch in every ghost. It lowers the sample where the caches would outgrow their memory.
func (g *Ghosts) Note(b *Batch) {
	for i := range b.records {
		r := &b.records[i]
		g.note(r, b.pieces[r.from:r.to], b.groups[r.group])
	}
	g.counts.dropped += b.dropped
}

func (g *Ghosts) note(r *record, pieces []piece, of group) {
	slots := g.among(of)
	if len(slots) == 0 {
		g.counts.unplaced++
		return
	}
	for g.tight(len(pieces)) && g.Lower() {
	}
	rest := g.above(r, pieces)
	pieces, last := g.still(r, pieces)
	s := g.counts.at(r.end)
	g.real(r, s, int(slots[0]))
	for rule := RoundRobin; rule < Reachable; rule++ {
		slot := g.choose(rule, r, slots)
		miss := g.enter(g.caches[rule], slot, r, pieces, last)
		g.warmed(g.caches[rule], slot, rest)
		s.miss(rule, miss, g.seconds(int(slot), r, miss))
	}
	lane, known := int32(0), false
	if w := &g.workers[slots[0]]; len(w.Models) > 0 {
		lane, known = g.models[w.Models[0]]
	}
	if known {
		miss := g.enter(g.caches[Reachable], lane, r, pieces, last)
		g.warmed(g.caches[Reachable], lane, rest)
		s.miss(Reachable, miss, g.seconds(int(slots[0]), r, miss))
	}
	g.counts.add(s)
}

func (g *Ghosts) tight(more int) bool {
	for _, c := range g.caches {
		if c.full(more) {
			return true
		}
	}
	return false
}

// still leaves out what is not in the sample any more since the request was taken in, or not yet. last says that the last piece of the prompt is there,
// which is computed whatever is cached.
func (g *Ghosts) still(r *record, pieces []piece) (kept []piece, last bool) {
	if r.threshold == g.threshold {
		return pieces, r.last
	}
	own, answered := r.own(pieces), false
	kept = pieces[:0]
	for i, p := range pieces {
		if sampled(p.key, g.threshold) {
			kept = append(kept, p)
			last, answered = last || r.last && i == own-1, answered || i == own
		}
	}
	r.answered = answered
	return kept, last
}

// enter places a request in a cache, its answer behind it, and estimates how many tokens of its prompt were not there.
func (g *Ghosts) enter(c *caches, n int32, r *record, pieces []piece, last bool) (missing float64) {
	own := r.own(pieces)
	known := min(c.use(counted(n), pieces), own)
	if last && known == own {
		known--
	}
	miss := 0
	for _, p := range pieces[known:own] {
		miss += int(p.tokens)
	}
	return float64(miss)/g.Rate() + float64(r.tail)
}

// warmed places in a cache what is not counted as yet.
func (g *Ghosts) warmed(c *caches, n int32, rest []piece) {
	if len(rest) > 0 {
		c.use(warming(n), rest)
	}
}

// seconds are what computing so many tokens of the prompt behind the others takes on a worker, beyond what each prefill costs once:
// b*u + c*((h+u)^2 - h^2).
func (g *Ghosts) seconds(slot int, r *record, missing float64) float64 {
	w, prompt := &g.workers[slot], float64(r.prompt)
	return missing * (w.B + w.C*(2*prompt-min(missing, prompt)))
}

// real counts what became of the request in the fleet. Where its worker is gone, others' speed is taken.
func (g *Ghosts) real(r *record, s *Sums, other int) {
	cached := r.predicted
	s.Requests, s.PromptTokens, s.PredictedTokens = 1, float64(r.prompt), float64(r.predicted)
	if r.reported {
		cached = r.cached
		s.ReportedPromptTokens, s.ReportedTokens, s.PredictedReportedTokens = float64(r.prompt), float64(r.cached), float64(r.predicted)
	}
	slot := int(r.slot)
	if slot < 0 || slot >= len(g.workers) || g.workers[slot].ID == "" {
		slot = other
	}
	s.Real.PrefillTokens = float64(r.prompt - cached)
	s.Real.PrefillSeconds = g.seconds(slot, r, s.Real.PrefillTokens)
}

// choose is the worker that a rule takes.
func (g *Ghosts) choose(rule Rule, r *record, slots []int32) int32 {
	switch {
	case rule == RoundRobin:
		return g.inTurn(slots)
	case rule == SessionHash && r.session != 0:
		return g.owner(r, slots)
	}
	slot := slots[g.chance.IntN(len(slots))]
	if rule == SessionHash {
		g.flights.land(r)
		g.flights.add(r, slot)
	}
	return slot
}

// inTurn takes the worker that was chosen longest ago, as the policy does.
func (g *Ghosts) inTurn(slots []int32) int32 {
	best := slots[0]
	for _, slot := range slots {
		if g.turns[slot] < g.turns[best] {
			best = slot
		}
	}
	g.turn++
	g.turns[best] = g.turn
	return best
}

// owner takes the session's owner, or the next one in its order while that has more than its share in flight, as the policy does. A request
// counts as in flight there for as long as it really took: over many requests that is as many at one time.
func (g *Ghosts) owner(r *record, slots []int32) int32 {
	g.flights.land(r)
	total := 1
	for _, slot := range slots {
		total += g.flights.of(slot)
	}
	most := int(math.Ceil(sched.BoundedLoad * float64(total) / float64(len(slots))))
	owner, first := int32(-1), 0.0
	for _, slot := range slots {
		if score := sched.Ownership(r.session, g.idHash[slot]); g.flights.of(slot) < most && (owner < 0 || score < first) {
			owner, first = slot, score
		}
	}
	if owner < 0 { // there is always one below the mean
		owner = slots[0]
	}
	g.flights.add(r, owner)
	return owner
}
