package prefix

import "math"

// shedLeast is how many pairs are not worth giving up: some 300 KiB.
const shedLeast = 4096

// Shed gives up half of what each worker is assumed to hold, what was used longest ago, and returns the bytes of memory that came free.
// Until Restore no more is held than that. Pages are shared by blocks of every age and would stay for the last of them: so what stays is
// entered anew, which takes about a second for 3 million pairs.
func (x *Index) Shed() (freed int64) {
	x.sweep(math.MaxInt)
	if x.members.count <= shedLeast {
		return 0
	}
	before := x.memory()
	x.shed()
	return before - x.memory()
}

func (x *Index) shed() {
	old := x.members
	x.pairsMax = max(old.count/2, shedLeast)
	x.members, x.table = members{}, table{}
	x.table.widen(len(x.lanes))
	moved := make([]int32, max(old.used, 1)) // what each member's number became
	for n := range x.lanes {
		x.evicted.Shed += uint64(x.enterAnew(uint16(n), &old, moved))
	}
}

// enterAnew enters the more recently used half of a lane, which is in old, and returns how much was left out. A block's parent is nearer to
// the front, so it comes first.
func (x *Index) enterAnew(n uint16, old *members, moved []int32) (left int) {
	l := &x.lanes[n]
	from, keep := l.newest, (l.pairs+1)/2
	left = l.pairs - keep
	l.list, l.pairs, l.bytes = list{}, 0, 0
	for last := int32(0); keep > 0; keep-- {
		was := old.at(from)
		i := x.members.take()
		h := x.table.hold(was.key, n, i)
		x.members.set(i, member{key: was.key, lane: n, parent: moved[was.parent], size: was.size, stamp: was.stamp})
		if !h.alone {
			x.members.file(i)
		}
		if h.ref != 0 {
			x.members.file(h.ref)
		}
		x.members.link(&l.list, last, i, i)
		l.pairs++
		l.bytes += int64(was.size)
		moved[from], last, from = i, i, was.older
	}
	return left
}

// Restore has the index hold as much as its Options say again.
func (x *Index) Restore() { x.pairsMax = pairsMax(x.o.BytesMax) }

func (x *Index) memory() int64 { return x.table.memory() + x.members.memory() + fixedBytes/2 }

// pairsMax is how many pairs so much memory holds at the least.
func pairsMax(bytes int64) int { return int(min((bytes-fixedBytes)/pairBytesMax, math.MaxInt32-1)) }
