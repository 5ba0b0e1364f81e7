package kvindex

import "github.com/warmpath/warmpath/internal/prefix"

// Match is what the workers hold of one prompt. Both are indexed by slot.
type Match struct {
	Depth []int32 // leading blocks in any tier; -1 where it is not known
	Fast  []int32 // those of Depth that are in GPU memory: what is behind them must be loaded
}

// Match answers how many leading blocks each worker holds, for all workers at once; m's memory is used again. It gallops along the keys
// and bisects where the set of holders shrinks. A worker that has a hole on the way is cut there: what is behind a hole is of no use.
// The bound between fast and slower blocks is bisected, supposing that a worker's fast memory gives up tails first.
func (x *Index) Match(keys []prefix.Key, m Match) Match {
	if cap(m.Depth) < SlotsMax || cap(m.Fast) < SlotsMax {
		m = Match{make([]int32, SlotsMax), make([]int32, SlotsMax)}
	}
	m.Depth, m.Fast = m.Depth[:SlotsMax], m.Fast[:SlotsMax]
	clear(m.Fast)
	x.reading()
	defer x.mu.Unlock()
	copy(m.Depth, x.nothing[:])
	words := (len(x.lanes) + 63) / 64
	w := walk{x: x, keys: keys, words: words, m: m}
	if len(keys) == 0 || words == 0 {
		return m
	}
	w.gallop()
	return m
}

// walk is one Match.
type walk struct {
	x     *Index
	keys  []prefix.Key
	words int
	m     Match
}

func (w *walk) gallop() {
	var now, ahead laneSet // holders of block at; of the block looked at
	w.holders(0, &now)
	intersect(&now, &w.x.live, w.words)
	at, step, last := 0, 1, len(w.keys)-1
	w.readyAhead()
	for at < last && !now.empty(w.words) {
		to := min(at+step, last)
		w.holders(to, &ahead)
		if intersect(&ahead, &now, w.words) {
			at, step = to, 2*step
			continue
		}
		for left := 0; to-at > 1; left-- {
			if left == 0 {
				w.readyBetween(at, to)
				left = halvings
			}
			var middle laneSet
			i := at + (to-at)/2
			w.holders(i, &middle)
			if intersect(&middle, &now, w.words) {
				at = i
			} else {
				to, ahead = i, middle
			}
		}
		w.report(&now, &ahead, at+1)
		at, step, now = to, 1, ahead
	}
	w.report(&now, &laneSet{}, at+1)
}

// Look-ups wait for memory and for little else, one place after the other. So places that will or may be looked at are read beforehand, all
// at once: those of the gallop, or all of a short chain; and of a bisection those of its next three steps.
const (
	readyMax = 32
	halvings = 3
)

func (w *walk) readyAhead() {
	var at [readyMax]int32
	n := 0
	if len(w.keys) <= readyMax {
		for n < len(w.keys) {
			at[n] = int32(n)
			n++
		}
	} else {
		for i, step := 0, 1; i < len(w.keys) && n < readyMax; i, step = i+step, 2*step {
			at[n] = int32(i)
			n++
		}
	}
	w.ready(at[:n])
}

func (w *walk) readyBetween(from, to int) {
	if len(w.keys) <= readyMax || to-from <= 2 {
		return
	}
	var at [1<<halvings - 1]int32
	w.ready(at[:middles(at[:], 0, from, to, halvings)])
}

// middles writes the places at which a bisection between from and to may look within so many steps.
func middles(at []int32, n, from, to, steps int) int {
	if steps == 0 || to-from <= 1 {
		return n
	}
	middle := from + (to-from)/2
	at[n] = int32(middle)
	return middles(at, middles(at, n+1, from, middle, steps-1), middle, to, steps-1)
}

// ready reads what a look at each of the places will read, in three rounds: what one round finds is where the next one reads.
func (w *walk) ready(at []int32) {
	var refs [readyMax]uint32
	x, sum := w.x, uint16(0)
	for _, i := range at {
		x.byKey.warm(mix(uint64(w.keys[i]), 0))
	}
	for j, i := range at {
		refs[j] = x.lookup(w.keys[i], mix(uint64(w.keys[i]), 0))
	}
	for _, ref := range refs[:len(at)] {
		if ref != 0 {
			if n := x.nodes.at(ref); n.lane == sharedMark {
				lanes, _ := x.shared(n)
				sum += lanes[0]
			}
		}
	}
	x.byKey.warmed += uint64(sum)
}

// holders sets into to the lanes that hold block i.
func (w *walk) holders(i int, into *laneSet) {
	clear(into[:w.words])
	key := w.keys[i]
	ref := w.x.lookup(key, mix(uint64(key), 0))
	if ref == 0 {
		return
	}
	n := w.x.nodes.at(ref)
	if n.lane == 0 {
		return
	}
	n.stamp = w.x.clock
	if n.lane != sharedMark {
		into.add(n.lane - 1)
		return
	}
	lanes, _ := w.x.shared(n)
	for _, lane := range lanes {
		into.add(lane - 1)
	}
}

// report writes down the lanes that are in now and no more in next: they hold the leading blocks, but for holes.
func (w *walk) report(now, next *laneSet, blocks int) {
	var ended laneSet
	for i := range w.words {
		ended[i] = now[i] &^ next[i]
	}
	ended.each(w.words, func(lane uint16) {
		l := &w.x.lanes[lane]
		depth := blocks
		if len(l.holes) > 0 {
			depth = w.untilHole(lane, blocks)
		}
		fast := depth
		if l.lower > 0 {
			fast = w.fast(lane, depth)
		}
		w.m.Depth[l.slot], w.m.Fast[l.slot] = int32(depth), int32(fast)
	})
}

// untilHole is how many of the first blocks a lane with holes holds without a break. A hole that is noted has a block behind it that is
// held; between the break and the first such hole nothing is held, and before the break everything.
func (w *walk) untilHole(lane uint16, blocks int) int {
	holes := w.x.lanes[lane].holes
	for i, key := range w.keys[:blocks] {
		if _, hole := holes[key]; hole {
			return w.bisect(lane, i, func(*holder) bool { return true })
		}
	}
	return blocks
}

// fast is the number of the first blocks, of depth that the lane holds, that are in GPU memory.
func (w *walk) fast(lane uint16, depth int) int { return w.bisect(lane, depth, (*holder).fast) }

// bisect returns how many of the first blocks the lane holds in such a way.
func (w *walk) bisect(lane uint16, blocks int, so func(*holder) bool) int {
	low, high := 0, blocks
	for low < high {
		middle := low + (high-low)/2
		key := w.keys[middle]
		var h *holder
		if ref := w.x.lookup(key, mix(uint64(key), 0)); ref != 0 {
			h = w.x.find(w.x.nodes.at(ref), lane)
		}
		if h != nil && so(h) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}
