package ghost

import (
	"math"
	"time"
)

// rise is how the sample gets larger again. Blocks between the sample's threshold and twice it are kept from then on, in lanes of their own
// beside those that are counted, with their own share of each cache's size, and nothing of them is counted: a sample of its own that begins
// cold, while what is counted goes on as if nothing were. They join once they are warm.
//
// When that is, the counted ones tell. A cache that puts out what was used least recently holds what was used last, up to its size, whatever
// it held before: as soon as a counted lane holds nothing that was last used before the rise began, one that had always been there beside it
// would, but for chance, hold nothing older either, and that is what the warm one has seen whole. So the two together are what a sample of
// twice the share would be that never fell, in the order in which it would have it, and figures before and after are of one kind.
type rise struct {
	ceiling uint64 // threshold that it began with and does not get beyond
	to      uint64 // threshold that caches are warmed for; 0: none
	began   int64  // nanoseconds: the last rise
	calm    int64  // since when there is room without a break
	wait    time.Duration
	fell    bool    // since Judge was called last
	pieces  []piece // scratch
}

const (
	// There must have been room for so long: at first, and at most after rises that were not held. It doubles with each of these.
	calmLeast = time.Hour
	calmMost  = 24 * time.Hour
	// A rise is held when nothing falls for so long after it began.
	heldAfter = 48 * time.Hour
	// warmMost ends a rise where caches do not turn over, because there is not enough traffic to fill them or a worker gets none: what nobody
	// asked for in so long a time counts as a miss once if it is asked for after all.
	warmMost = 24 * time.Hour
	// staleMost is the share of what is counted that may be older than the rise; to wait for the very last piece would be for ever.
	staleMost = 1.0 / 64
	// usedStep is the unit of entry.used; warmMost has fewer than 65,536 of them.
	usedStep = 2 * time.Second
)

// Two lanes stand for each cache of a ghost.
func counted(n int32) int32 { return 2 * n }
func warming(n int32) int32 { return 2*n + 1 }

// Judge holds the sample to time: placing took so much of what it may, since it was judged last. It lowers the sample as often as it takes,
// since half of the blocks are about half of the work; and raises it where twice the work and memory would have had ample room all the time
// for an hour, or longer after rises that were not held.
func (g *Ghosts) Judge(now int64, took, may time.Duration) {
	spent := took
	for ; took > may && g.Lower(); took /= 2 {
	}
	r := &g.rise
	switch {
	case r.fell:
		r.fell, r.calm, r.wait = false, now, g.waitAfterFall(now)
	case r.to != 0:
		if g.warm() || now-r.began > int64(warmMost) {
			g.join()
			r.calm = now
		}
	case g.threshold >= r.ceiling || r.calm == 0 || !g.roomy(spent, may):
		r.calm = now
	case now-r.calm >= int64(r.wait):
		g.begin(now)
	}
}

// waitAfterFall is for how long there must be room from now on.
func (g *Ghosts) waitAfterFall(now int64) time.Duration {
	if g.rise.began != 0 && now-g.rise.began < int64(heldAfter) {
		return min(2*g.rise.wait, calmMost)
	}
	return calmLeast
}

// roomy says that twice the blocks would take no more than half of the time that they may, and three quarters of the memory.
func (g *Ghosts) roomy(took, may time.Duration) bool {
	for _, c := range g.caches {
		if 8*c.count > 3*c.most {
			return false
		}
	}
	return 4*took <= may
}

// begin keeps twice the blocks from now on.
func (g *Ghosts) begin(now int64) {
	r := &g.rise
	r.began, r.to = now, r.ceiling
	if t := g.threshold<<1 | 1; g.threshold <= math.MaxUint64>>1 && t < r.ceiling-r.ceiling>>32 { // but for rounding
		r.to = t
	}
	for _, c := range g.caches {
		c.age()
	}
	g.resize()
}

// warm says whether caches have turned over since the rise began.
func (g *Ghosts) warm() bool {
	for _, c := range g.caches {
		if c.stale() > staleMost {
			return false
		}
	}
	return true
}

// join has what was warmed be counted.
func (g *Ghosts) join() {
	g.threshold, g.rise.to = g.rise.to, 0
	for _, c := range g.caches {
		c.now = 0
		for n := int32(0); int(warming(n)) < len(c.lanes); n++ {
			c.join(counted(n), warming(n))
		}
	}
	g.resize()
}

// giveUp forgets what was warmed.
func (g *Ghosts) giveUp() {
	g.rise.to = 0
	for _, c := range g.caches {
		c.now = 0
		for n := int32(0); int(warming(n)) < len(c.lanes); n++ {
			c.forget(warming(n))
		}
	}
	g.resize()
}

// above leaves only what is warmed of a request's pieces, and notes in all caches when it is used.
func (g *Ghosts) above(r *record, pieces []piece) []piece {
	rest := g.rise.pieces[:0]
	if g.rise.to == 0 {
		return rest
	}
	used := uint16(min(1+max(0, r.end-g.rise.began)/int64(usedStep), math.MaxUint16))
	for _, c := range g.caches {
		c.now = max(c.now, used)
	}
	for _, p := range pieces {
		if sampled(p.key, g.rise.to) && !sampled(p.key, g.threshold) {
			rest = append(rest, p)
		}
	}
	g.rise.pieces = rest
	return rest
}
