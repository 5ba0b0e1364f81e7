package prefix

import (
	"math/bits"
	"sort"
)

// Match answers how many leading blocks of c each worker holds, replies included: depth[slot], in a slice of SlotsMax
// that reuses depth's memory. It gallops along the chain and bisects where the set of holders shrinks: one probe
// answers for all workers, and a chain of n blocks that ends at k different depths takes about k * log n of them.
func (x *Index) Match(c Chain, depth []int32) []int32 {
	if cap(depth) < SlotsMax {
		depth = make([]int32, SlotsMax)
	}
	depth = depth[:SlotsMax]
	clear(depth)
	if len(c.Keys) == 0 || len(x.lanes) == 0 {
		return depth
	}
	words := x.table.stride
	var now, next laneSet // holders of block at; of the block looked at
	x.table.holders(c.Keys[0], &now)
	intersect(&now, &x.live, words)
	at, step, last := 0, 1, len(c.Keys)-1
	for at < last && !now.empty(words) {
		ahead := min(at+step, last)
		x.table.holders(c.Keys[ahead], &next)
		if intersect(&next, &now, words) {
			at, step = ahead, 2*step
			continue
		}
		for ahead-at > 1 {
			var middle laneSet
			i := at + (ahead-at)/2
			x.table.holders(c.Keys[i], &middle)
			if intersect(&middle, &now, words) {
				at = i
			} else {
				ahead, next = i, middle
			}
		}
		x.report(c, &now, &next, words, at+1, depth)
		at, step, now = ahead, 1, next
	}
	x.report(c, &now, &laneSet{}, words, at+1, depth)
	return depth
}

// intersect narrows s to what is also in other, and tells whether s and other are equal then.
func intersect(s, other *laneSet, words int) bool {
	var lost uint64
	for i := range words {
		s[i] &= other[i]
		lost |= s[i] ^ other[i]
	}
	return lost == 0
}

// report writes the depth of the lanes that are in now and no more in next.
func (x *Index) report(c Chain, now, next *laneSet, words, blocks int, depth []int32) {
	for i := range words {
		ended := now[i] &^ next[i]
		if ended == 0 {
			continue
		}
		reached := withReply(c.Replies, int32(blocks))
		for ; ended != 0; ended &= ended - 1 {
			depth[x.lanes[i*64+bits.TrailingZeros64(ended)].slot] = reached
		}
	}
}

// withReply extends a depth that ends just before an assistant message to that message's end: see Range.
func withReply(replies []Range, depth int32) int32 {
	i := sort.Search(len(replies), func(i int) bool { return replies[i].First >= depth })
	if i < len(replies) && replies[i].First == depth {
		return replies[i].Last
	}
	return depth
}
