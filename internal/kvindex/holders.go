package kvindex

import "github.com/warmpath/warmpath/internal/prefix"

// Holders says which workers hold a block with everything before it, in any tier, by slot: 1 that one does, 0 that it does not, -1 that it is
// not known. It is as long as a Match's answers, and uses into's memory. Unlike Match it is no use of the block: who looks keeps nothing from
// being forgotten.
func (x *Index) Holders(key prefix.Key, into []int8) []int8 {
	x.reading()
	defer x.mu.Unlock()
	into = into[:0]
	for _, unknown := range x.nothing {
		into = append(into, int8(unknown))
	}
	ref := x.lookup(key, mix(uint64(key), 0))
	if ref == 0 {
		return into
	}
	n := x.nodes.at(ref)
	lanes := []uint16{n.lane}
	switch n.lane {
	case 0:
		return into
	case sharedMark:
		lanes, _ = x.shared(n)
	}
	for _, number := range lanes {
		if lane := number - 1; x.live.has(lane) && !x.broken(ref, lane) {
			into[x.slotOf[lane]] = 1
		}
	}
	return into
}

// broken says whether a lane has a hole before a block that it holds.
func (x *Index) broken(ref uint32, lane uint16) bool {
	holes := x.lanes[lane].holes
	for ; len(holes) > 0 && ref != 0; ref = x.nodes.at(ref).parent {
		if _, hole := holes[x.nodes.at(ref).key]; hole {
			return true
		}
	}
	return false
}
