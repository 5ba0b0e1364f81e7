package prefix

import "math/bits"

// Holders appends the slots that hold the block of a key, in no particular order.
func (x *Index) Holders(key Key, into []int) []int {
	if len(x.lanes) == 0 {
		return into
	}
	var held laneSet
	x.table.holders(key, &held)
	intersect(&held, &x.live, x.table.stride)
	for i := range x.table.stride {
		for left := held[i]; left != 0; left &= left - 1 {
			into = append(into, x.lanes[i*64+bits.TrailingZeros64(left)].slot)
		}
	}
	return into
}
