package kvindex

import "github.com/warmpath/warmpath/internal/prefix"

// follow notes that lane n holds a block right behind parent.
func (x *Index) follow(n uint16, parent *node) {
	if h := x.find(parent, n); h != nil {
		h.next = more(h.next)
		return
	}
	x.setHole(n, parent.key, more(x.lanes[n].holes[parent.key]))
}

// unfollow takes back one follow.
func (x *Index) unfollow(n uint16, parent *node) {
	if h := x.find(parent, n); h != nil {
		h.next = fewer(h.next)
		return
	}
	x.setHole(n, parent.key, fewer(x.lanes[n].holes[parent.key]))
}

// more and fewer count blocks behind one. A count that was full is not known any more and stays full: a hole too many costs a deeper
// look, one too few would promise blocks that are not there.
func more(count uint16) uint16 { return min(count, nextMax-1) + 1 }

func fewer(count uint16) uint16 {
	if count == 0 || count == nextMax {
		return count
	}
	return count - 1
}

// setHole notes that a lane holds so many blocks right behind one that it does not hold.
func (x *Index) setHole(n uint16, key prefix.Key, count uint16) {
	l := &x.lanes[n]
	before := len(l.holes)
	if count == 0 {
		delete(l.holes, key)
	} else {
		if l.holes == nil {
			l.holes = make(map[prefix.Key]uint16)
		}
		l.holes[key] = count
	}
	x.cost += holeCost * int64(len(l.holes)-before)
	x.judge(n)
}

// fillHole returns how many blocks the lane holds behind one that it begins to hold now.
func (x *Index) fillHole(n uint16, key prefix.Key) uint16 {
	count := x.lanes[n].holes[key]
	x.setHole(n, key, 0)
	return count
}

// drop ends lane n's hold on node i.
func (x *Index) drop(n uint16, i uint32, h *holder) {
	l, at := &x.lanes[n], x.nodes.at(i)
	x.byName.take(mix(h.name(), l.salt), i)
	behind := h.next
	if !h.fast() {
		l.lower--
		x.judge(n)
	}
	x.remove(at, n)
	x.cost -= pairCost
	l.pairs--
	if l.dead {
		if l.pairs == 0 {
			x.dying--
			x.idle = append(x.idle, n)
		}
	} else {
		if behind > 0 {
			x.counts.HolesMade++
			x.setHole(n, at.key, behind)
		}
		if at.parent != 0 {
			parent := x.nodes.at(at.parent)
			x.unfollow(n, parent)
			if parent.lane == n+1 && parent.next == 0 { // engines give chains up from their ends: this one is probably next
				x.byKey.warm(mix(uint64(parent.key), 0))
				x.byName.warm(mix(parent.name(), l.salt))
			}
		}
	}
	x.release(i)
}

// release frees node i if nobody holds it or a block behind it, and then those in front of it for which that is so.
func (x *Index) release(i uint32) {
	for i != 0 {
		n := x.nodes.at(i)
		if n.lane != 0 || n.kids > 0 || n.key == 0 {
			return
		}
		parent := n.parent
		x.byKey.take(mix(uint64(n.key), 0), i)
		x.nodes.give(i)
		x.cost -= nodeCost
		if parent != 0 {
			x.nodes.at(parent).kids--
		}
		i = parent
	}
}

// Sweep takes out what closed handles still hold, looking at so many nodes, and says whether there is more to do. Every Store and Remove
// does a little of it too.
func (x *Index) Sweep(nodes int) (more bool) {
	x.writing()
	defer x.written()
	for ; nodes > 0 && x.dying > 0; nodes -= sweepNodes {
		x.giveWay()
		x.sweepSome(sweepNodes)
	}
	return x.dying > 0
}

func (x *Index) sweepSome(nodes int) {
	if x.dying > 0 {
		x.sweep(nodes)
	}
}

func (x *Index) sweep(nodes int) {
	for range nodes {
		if x.hand++; x.hand >= x.nodes.given {
			x.hand = 1
		}
		if x.hand >= x.nodes.given {
			return
		}
		n := x.nodes.at(x.hand)
		switch {
		case n.lane == 0:
		case n.lane != sharedMark:
			if x.lanes[n.lane-1].dead {
				x.drop(n.lane-1, x.hand, &n.holder)
			}
		default:
			x.sweepShared(n)
		}
	}
}

func (x *Index) sweepShared(n *node) {
	for j := 0; n.lane == sharedMark && j < int(n.next); {
		lanes, holders := x.shared(n)
		if lane := lanes[j] - 1; x.lanes[lane].dead {
			x.drop(lane, x.hand, &holders[j])
		} else {
			j++
		}
	}
	if n.lane != 0 && n.lane != sharedMark && x.lanes[n.lane-1].dead {
		x.drop(n.lane-1, x.hand, &n.holder)
	}
}

// evictor finds what was used least recently: a hand goes round the nodes and takes leaves, and then what they leave without children,
// that have not been stored or matched for at least age ticks of the clock. The age follows what is found, so that a round is never made
// in vain for long.
type evictor struct {
	hand uint32
	age  uint16
}

const (
	evictWindow  = 256 // nodes the hand passes before it lowers its demands
	evictAtLeast = 32  // pairs taken at once, so that the search is paid once for many
	ageMax       = 1 << 15
)

func (x *Index) over() bool {
	cost := x.cost + x.lists.bytes
	return cost > x.costMax || x.held > 0 && cost > x.held
}

// Hold keeps the index from growing until it is let go again: what comes takes the place of what was used longest ago. Its pages do not come
// back, and what it holds took the engines' own word to know, so no less is held than now.
func (x *Index) Hold(on bool) {
	x.writing()
	defer x.written()
	if x.held = 0; on {
		x.held = min(x.costMax, x.cost+x.lists.bytes)
	}
}

// makeRoom evicts until the bound is kept and a little more, but never node keep.
func (x *Index) makeRoom(keep uint32) {
	taken, idle := 0, 0
	for (x.over() || taken < evictAtLeast) && idle < int(x.nodes.given)/evictWindow+16 {
		got := 0
		for range evictWindow {
			if x.evict.hand++; x.evict.hand >= x.nodes.given {
				x.evict.hand = 1
			}
			got += x.evictFrom(x.evict.hand, keep)
		}
		taken += got
		switch {
		case got == 0 && x.evict.age == 0:
			idle++
		case got < evictWindow/32:
			x.evict.age -= min(x.evict.age, 1+x.evict.age/8)
		case got > evictWindow/8 && x.evict.age < ageMax:
			x.evict.age++
		}
	}
}

// evictFrom takes out node i and those in front of it as long as they are old leaves. It returns how many pairs went.
func (x *Index) evictFrom(i, keep uint32) (pairs int) {
	for i != 0 && i != keep {
		n := x.nodes.at(i)
		if n.lane == 0 || n.kids > 0 || x.clock-n.stamp < x.evict.age {
			return pairs
		}
		parent, last := n.parent, false
		for !last {
			if last = n.lane != sharedMark; last {
				x.drop(n.lane-1, i, &n.holder)
			} else {
				lanes, holders := x.shared(n)
				x.drop(lanes[n.next-1]-1, i, &holders[n.next-1])
			}
			x.counts.Evicted++
			pairs++
		}
		i = parent
	}
	return pairs
}
