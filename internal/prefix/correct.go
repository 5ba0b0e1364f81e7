package prefix

import "math"

// trimWalkMax is how many of a worker's blocks Trim looks at behind the request's own, when it does not find all that hangs off them sooner. What
// hangs off further back was used least recently and goes first in any case.
const trimWalkMax = 4096

// laneMark on a member's lane means that it is about to be forgotten.
const laneMark = 1 << 15

// Trim corrects what was assumed of a worker when it reports that only the first depth blocks of c were cached when
// the request ran. c itself stays: this very request has just computed it. But what continued c behind depth in older
// requests, on other branches, cannot be there either, and is forgotten. Requests entered after this one keep theirs.
func (x *Index) Trim(slot int, c Chain, depth int32) { x.correct(slot, c, depth, true) }

// Withdraw forgets c behind depth and everything that continues it: a request that was entered and never computed.
func (x *Index) Withdraw(slot int, c Chain, depth int32) { x.correct(slot, c, depth, false) }

func (x *Index) correct(slot int, c Chain, depth int32, keep bool) {
	if slot < 0 || slot >= SlotsMax || x.slots[slot] == 0 || depth < 0 || int(depth) >= len(c.Keys) {
		return
	}
	n := x.slots[slot] - 1
	m := &x.members
	own := x.scratch[:0]
	for i, key := range c.Keys[depth:] {
		var at int32
		if i > 0 {
			at = m.at(own[i-1]).older
		}
		if at == 0 || m.at(at).key != key {
			if at = x.find(key, n); at == 0 || m.at(at).lane&laneMark != 0 {
				break
			}
		}
		m.at(at).lane |= laneMark
		own = append(own, at)
	}
	if len(own) == 0 {
		return
	}
	all := x.hanging(own, keep)
	for i := len(all) - 1; i >= 0; i-- {
		m.at(all[i]).lane &^= laneMark
		if i >= len(own) || !keep {
			x.discard(n, all[i])
		}
	}
	x.scratch = all[:0]
}

// hanging appends to a request's marked blocks what continues them, marked too: the walk through what was used longer ago ends where all of it
// is found, which is at once where nothing branches off. With keep, what was entered since the request is passed over.
func (x *Index) hanging(own []int32, keep bool) (all []int32) {
	m := &x.members
	hangs := func(e *member) bool {
		return e.lane&laneMark == 0 && e.parent != 0 && m.at(e.parent).lane&laneMark != 0
	}
	open := 0 // children of marked blocks that were not met yet
	for _, at := range own {
		open += int(*m.childrenOf(at))
		if parent := m.at(at).parent; parent != 0 && m.at(parent).lane&laneMark != 0 {
			open--
		}
	}
	// What hangs off c is older than where it hangs, and if it was entered before c, older than c's last block too.
	from, left := own[0], math.MaxInt // what continues a withdrawn block must go with it, however far back
	if keep {
		from, left = own[len(own)-1], trimWalkMax
		since := trimWalkMax
		for at := own[0]; at != from && at != 0 && open > 0; at = m.at(at).older {
			e := m.at(at)
			if e.lane&laneMark != 0 {
				continue
			}
			if hangs(e) {
				open--
			}
			if since--; since == 0 {
				open = math.MaxInt32 // it is not known how many of them are newer
				break
			}
		}
	}
	all = own
	for at := m.at(from).older; at != 0 && left > 0 && open > 0; at = m.at(at).older {
		left--
		if e := m.at(at); hangs(e) {
			e.lane |= laneMark
			all = append(all, at)
			open += int(*m.childrenOf(at)) - 1
		}
	}
	return all
}
