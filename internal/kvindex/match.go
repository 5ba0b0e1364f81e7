package kvindex

import "github.com/warmpath/warmpath/internal/prefix"

// Match is what the workers hold of one prompt. Both are indexed by slot, and as long as the highest slot that was ever opened asks for.
type Match struct {
	Depth []int32 // leading blocks in any tier; -1 where it is not known
	Fast  []int32 // those of Depth that are in GPU memory: what is behind them must be loaded
}

// Of is what the worker in a slot holds; -1 and 0 where it is not known.
func (m Match) Of(slot int) (depth, fast int32) {
	if slot < 0 || slot >= len(m.Depth) {
		return -1, 0
	}
	return m.Depth[slot], m.Fast[slot]
}

// Match answers how many leading blocks each worker holds, for all workers at once; m's memory is used again. It gallops along the keys
// and bisects where the set of holders shrinks, unless a guess says where. A worker that has a hole on the way is cut there: what is behind a hole is of no use.
// The bound between fast and slower blocks is bisected, supposing that a worker's fast memory gives up tails first.
func (x *Index) Match(keys []prefix.Key, m Match) Match {
	if cap(m.Depth) < SlotsMax || cap(m.Fast) < SlotsMax {
		m = Match{make([]int32, SlotsMax), make([]int32, SlotsMax)}
	}
	x.reading()
	defer x.mu.Unlock()
	m.Depth, m.Fast = append(m.Depth[:0], x.nothing...), m.Fast[:len(x.nothing)]
	clear(m.Fast)
	if len(keys) == 0 || len(x.lanes) == 0 {
		return m
	}
	w := walk{x: x, keys: keys, words: (len(x.lanes) + 63) / 64, m: m}
	w.gallop()
	return m
}

// walk is one Match.
type walk struct {
	x     *Index
	keys  []prefix.Key
	words int
	m     Match
	found [foundMax]place
	hint  hint // what is found out for the next guess
	ends  int  // of it
}

// place is a block that was looked up: where it is in the prompt, counted from 1, and its node.
type place struct {
	at   int32
	node uint32
}

// foundMax is how many places are remembered, each where its number says.
const foundMax = 128

// node is that of block i, 0 for none.
func (w *walk) node(i int32) uint32 {
	p := &w.found[i%foundMax]
	if p.at != i+1 {
		key := w.keys[i]
		*p = place{i + 1, w.x.lookup(key, mix(uint64(key), 0))}
	}
	return p.node
}

// gallop looks where holdings ended last time, or at block 0, 1, 3, 7 and so on, and between two where the holders differ.
func (w *walk) gallop() {
	var now laneSet
	var guessed [readyMax]int32
	guesses := w.guess(&guessed)
	if guesses > 0 {
		w.ready(guessed[:guesses])
	} else {
		w.readyAhead()
	}
	w.holders(0, &now)
	intersect(&now, &w.x.live, w.words)
	at, last := 0, len(w.keys)-1
	for i, step := 1, 1; at < last && !now.empty(w.words); i++ {
		var ahead laneSet
		to := min(at+step, last)
		if i < guesses {
			to = int(guessed[i])
		} else {
			step *= 2
		}
		w.holders(to, &ahead)
		if !intersect(&ahead, &now, w.words) {
			w.between(at, to, &now, &ahead, 0)
		}
		at, now = to, ahead
	}
	w.report(&now, &laneSet{}, at+1)
	w.remember()
}

// between finds where the lanes end that hold block from and not block to. levels is how many halvings ahead have been made ready.
func (w *walk) between(from, to int, atFrom, atTo *laneSet, levels int) {
	if to-from == 1 {
		w.report(atFrom, atTo, to)
		return
	}
	if levels == 0 {
		levels = w.readyBetween(from, to)
	}
	middle := from + (to-from)/2
	var here laneSet
	w.holders(middle, &here)
	if !intersect(&here, atFrom, w.words) {
		w.between(from, middle, atFrom, &here, levels-1)
	}
	rest := *atTo
	intersect(&rest, &here, w.words) // a lane with a hole in the middle ended before
	for i := range w.words {
		if here[i] != rest[i] {
			w.between(middle, to, &here, &rest, levels-1)
			return
		}
	}
}

// Look-ups wait for memory and for little else, one place after the other. So places that will or may be looked at are read beforehand, all
// at once: those of the gallop, or all of a short chain; and those of the next halvings, fewer when there is less between.
const (
	readyMax = 32
	halvings = 5
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

func (w *walk) readyBetween(from, to int) (levels int) {
	if len(w.keys) <= readyMax {
		return halvings
	}
	levels = halvings
	if to-from < 512 {
		levels = 3
	}
	var at [readyMax]int32
	w.ready(at[:middles(at[:], 0, from, to, levels)])
	return levels
}

// middles writes the places at which so many halvings between from and to look.
func middles(at []int32, n, from, to, levels int) int {
	if levels == 0 || to-from <= 1 {
		return n
	}
	middle := from + (to-from)/2
	at[n] = int32(middle)
	return middles(at, middles(at, n+1, from, middle, levels-1), middle, to, levels-1)
}

// ready reads what a look at each of the places will read, in three rounds: what one round finds is where the next one reads.
func (w *walk) ready(at []int32) {
	var refs [readyMax]uint32
	x, sum := w.x, uint16(0)
	for _, i := range at {
		x.byKey.warm(mix(uint64(w.keys[i]), 0))
	}
	for j, i := range at {
		refs[j] = w.node(i)
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
	ref := w.node(int32(i))
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
	if !ended.empty(w.words) {
		w.ended(blocks)
	}
	ended.each(w.words, func(lane uint16) {
		depth, fast := blocks, blocks
		if w.x.odd.has(lane) {
			l := &w.x.lanes[lane]
			if len(l.holes) > 0 {
				depth = w.untilHole(lane, blocks)
			}
			if fast = depth; l.lower > 0 {
				fast = w.fast(lane, depth)
			}
		}
		slot := w.x.slotOf[lane]
		w.m.Depth[slot], w.m.Fast[slot] = int32(depth), int32(fast)
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
