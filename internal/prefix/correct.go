package prefix

import "math"

// trimWalkMax is how many of a worker's blocks Trim looks at behind the request's own. Looking at all of a big cache would take half a
// millisecond for every report that is lower than assumed, and an engine may report 0 for ever. What hangs off further back was used
// least recently and goes first in any case.
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
	// What hangs off c is older than where it hangs, and if it was entered before c, older than c's last block too.
	from := own[0]
	if keep {
		from = own[len(own)-1]
	}
	all := own
	left := math.MaxInt // what continues a withdrawn block must go with it, however far back
	if keep {
		left = trimWalkMax
	}
	for at := m.at(from).older; at != 0 && left > 0; at = m.at(at).older {
		left--
		e := m.at(at)
		if e.lane&laneMark == 0 && e.parent != 0 && m.at(e.parent).lane&laneMark != 0 {
			e.lane |= laneMark
			all = append(all, at)
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		m.at(all[i]).lane &^= laneMark
		if i >= len(own) || !keep {
			x.discard(n, all[i])
		}
	}
	x.scratch = all[:0]
}
