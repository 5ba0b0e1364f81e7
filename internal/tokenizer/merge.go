package tokenizer

import "math/bits"

// merges is the table of which neighbours join: a slot holds both ids (21 bits each) and the rank + 1 (22 bits) in eight bytes, so that a
// look-up touches one cache line. Low ranks go first.
type merges struct {
	slots  []uint64 // open addressing, at most half full; 0 is empty
	shift  int
	result []uint32 // by rank: the id that the two become
}

const rankBits = 22

// pairKey is both ids.
func pairKey(left, right uint32) uint64 { return uint64(left)<<idBits | uint64(right) }

// index makes the pairs findable, given by rank; noPair leaves a rank empty. The same pair again takes the later rank, as the reference does.
func (m *merges) index(pairs []uint64) {
	power := bits.Len(uint(len(pairs)*2 + 1))
	m.slots, m.shift = make([]uint64, 1<<power), 64-power
	mask := uint64(len(m.slots) - 1)
	for rank, key := range pairs {
		if key == noPair {
			continue
		}
		slot := hashPair(key) >> m.shift
		for m.slots[slot] != 0 && m.slots[slot]>>rankBits != key {
			slot = (slot + 1) & mask
		}
		m.slots[slot] = key<<rankBits | uint64(rank+1)
	}
}

const noPair = ^uint64(0)

// rank of joining left and right, or none. Both are tokens.
func (m *merges) rank(left, right uint32) uint32 {
	key := pairKey(left, right)
	mask := uint64(len(m.slots) - 1)
	for slot := hashPair(key) >> m.shift; ; slot = (slot + 1) & mask {
		if v := m.slots[slot]; v == 0 || v>>rankBits == key {
			return uint32(v&(1<<rankBits-1)) - 1
		}
	}
}

func hashPair(key uint64) uint64 {
	key *= 0x9e3779b97f4a7c15
	return (key ^ key>>32) * 0xd6e8feb86659fd93
}

// scanMax is up to how many symbols the least rank is found by looking at all: shorter than that, a heap costs more than it saves.
const scanMax = 40

// join merges the symbols as byte pair encoding does (lowest rank first, of equals the leftmost) and appends what remains to ids.
func (m *merges) join(ids []uint32, symbols []uint32, q *queue) []uint32 {
	if len(symbols) > scanMax {
		return m.joinLong(ids, symbols, q)
	}
	var ranks [scanMax]uint32
	n := len(symbols)
	for i := 0; i+1 < n; i++ {
		ranks[i] = m.rank(symbols[i], symbols[i+1])
	}
	for n > 1 {
		best, at := none, 0
		for i, r := range ranks[:n-1] {
			if r < best {
				best, at = r, i
			}
		}
		if best == none {
			break
		}
		symbols[at] = m.result[best]
		copy(symbols[at+1:n-1], symbols[at+2:n])
		copy(ranks[at:n-2], ranks[at+1:n-1])
		n--
		if at > 0 {
			ranks[at-1] = m.rank(symbols[at-1], symbols[at])
		}
		if at+1 < n {
			ranks[at] = m.rank(symbols[at], symbols[at+1])
		}
	}
	return append(ids, symbols[:n]...)
}

// link chains the symbols that are left of a long word.
type link struct {
	id         uint32
	prev, next int32 // -1 at the ends
	gone       bool
}

// queue is the room that joining a long word takes; it is kept from word to word.
type queue struct {
	chain []link
	heap  []uint64 // rank in the upper half, place in the lower
}

// joinLong is join in n log n: a heap of the pairs that may join. Entries that a merge made stale stay in it and are found out when they come up.
func (m *merges) joinLong(ids []uint32, symbols []uint32, q *queue) []uint32 {
	q.chain, q.heap = q.chain[:0], q.heap[:0]
	for i, id := range symbols {
		q.chain = append(q.chain, link{id: id, prev: int32(i - 1), next: int32(i + 1)})
	}
	q.chain[len(symbols)-1].next = -1
	for i := range len(symbols) - 1 {
		q.offer(m, int32(i))
	}
	for len(q.heap) > 0 {
		top := q.pop()
		at := int32(uint32(top))
		left := &q.chain[at]
		if left.gone || left.next < 0 {
			continue
		}
		right := &q.chain[left.next]
		rank := m.rank(left.id, right.id)
		if rank != uint32(top>>32) {
			continue
		}
		left.id = m.result[rank]
		right.gone = true
		if left.next = right.next; left.next >= 0 {
			q.chain[left.next].prev = at
			q.offer(m, at)
		}
		if left.prev >= 0 {
			q.offer(m, left.prev)
		}
	}
	for at := int32(0); at >= 0; at = q.chain[at].next {
		ids = append(ids, q.chain[at].id)
	}
	return ids
}

// offer puts the pair that begins at a place on the heap, if it may join.
func (q *queue) offer(m *merges, at int32) {
	rank := m.rank(q.chain[at].id, q.chain[q.chain[at].next].id)
	if rank == none {
		return
	}
	entry := uint64(rank)<<32 | uint64(at)
	i := len(q.heap)
	q.heap = append(q.heap, entry)
	for i > 0 {
		parent := (i - 1) / 2
		if q.heap[parent] <= entry {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = entry
}

// pop takes the least entry.
func (q *queue) pop() uint64 {
	h := q.heap
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	q.heap = h
	i := 0
	for child := 1; child < len(h); child = 2*i + 1 {
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= last {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	return top
}
