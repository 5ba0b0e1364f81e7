// Package joins is byte pair encoding at its core: which neighbouring tokens of a word join, in what order, and what they become.
//
//	var t joins.Table
//	t.Fill([]uint64{joins.Key(0, 1)}, []uint32{2})
//	ids := t.Join(nil, []uint32{0, 1, 0}, &joins.Queue{}) // 2, 0
package joins

import "math/bits"

// Table of which neighbours join: a slot holds both ids (21 bits each) and the rank + 1 (22 bits) in eight bytes, so that a look-up touches
// one cache line. Low ranks go first. Any number of goroutines may use it once it is filled.
type Table struct {
	slots  []uint64 // open addressing, at most half full; 0 is empty
	shift  int
	result []uint32          // by rank: the id that the two become; none where several pairs share the rank,
	tied   map[uint64]uint32 // and then by pair
}

// Bounds: ids are below 1<<IDBits, and there are at most PairsMax pairs.
const (
	IDBits   = 21
	PairsMax = 1<<rankBits - 1
	rankBits = 22
)

// none stands for "no token" and for "no merge".
const none = ^uint32(0)

// NoPair in the place of a pair leaves its rank empty.
const NoPair = ^uint64(0)

// Key is both ids.
func Key(left, right uint32) uint64 { return uint64(left)<<IDBits | uint64(right) }

// Pair are the ids of a key.
func Pair(key uint64) (left, right uint32) {
	return uint32(key >> IDBits), uint32(key & (1<<IDBits - 1))
}

// Fill makes pairs findable whose rank is their place. Of pairs that repeat the last one counts, as in tokenizer.json.
func (t *Table) Fill(pairs []uint64, results []uint32) {
	t.result = results
	t.index(pairs, nil, false)
}

// FillFirst is Fill, but of pairs that repeat the first one counts, as in .gguf files.
func (t *Table) FillFirst(pairs []uint64, results []uint32) {
	t.result = results
	t.index(pairs, nil, true)
}

// FillRanked makes pairs findable that are given with their ranks, which never fall from one to the next and start with 0. Pairs of the
// same rank may become different tokens; the leftmost in a word goes first.
func (t *Table) FillRanked(pairs []uint64, results, ranks []uint32) {
	t.tied = map[uint64]uint32{}
	for from, to := 0, 0; from < len(pairs); from = to {
		for to = from; to < len(pairs) && ranks[to] == ranks[from]; to++ {
		}
		id := results[from]
		for _, other := range results[from:to] {
			if other != id {
				id = none
				break
			}
		}
		for i := from; id == none && i < to; i++ {
			t.tied[pairs[i]] = results[i]
		}
		t.result = append(t.result, id)
	}
	t.index(pairs, ranks, true)
}

// Len is the number of ranks.
func (t *Table) Len() int { return len(t.result) }

// index enters the pairs. ranks has that of each; nil: its place.
func (t *Table) index(pairs []uint64, ranks []uint32, first bool) {
	power := bits.Len(uint(len(pairs)*2 + 1))
	t.slots, t.shift = make([]uint64, 1<<power), 64-power
	mask := uint64(len(t.slots) - 1)
	for i, key := range pairs {
		if key == NoPair {
			continue
		}
		rank := uint32(i)
		if ranks != nil {
			rank = ranks[i]
		}
		slot := hashPair(key) >> t.shift
		for t.slots[slot] != 0 && t.slots[slot]>>rankBits != key {
			slot = (slot + 1) & mask
		}
		if t.slots[slot] == 0 || !first {
			t.slots[slot] = key<<rankBits | uint64(rank+1)
		}
	}
}

// rank of joining left and right, or none. Both are tokens.
func (t *Table) rank(left, right uint32) uint32 {
	key := Key(left, right)
	mask := uint64(len(t.slots) - 1)
	for slot := hashPair(key) >> t.shift; ; slot = (slot + 1) & mask {
		if v := t.slots[slot]; v == 0 || v>>rankBits == key {
			return uint32(v&(1<<rankBits-1)) - 1
		}
	}
}

// joined is what left and right become, whose rank this is.
func (t *Table) joined(rank, left, right uint32) uint32 {
	if id := t.result[rank]; id != none {
		return id
	}
	return t.tied[Key(left, right)]
}

func hashPair(key uint64) uint64 {
	key *= 0x9e3779b97f4a7c15
	return (key ^ key>>32) * 0xd6e8feb86659fd93
}

// scanMax is up to how many symbols the least rank is found by looking at all: shorter than that, a heap costs more than it saves.
const scanMax = 40

// Join merges the symbols as byte pair encoding does (lowest rank first, of equals the leftmost) and appends what remains to ids.
func (t *Table) Join(ids []uint32, symbols []uint32, q *Queue) []uint32 {
	if len(symbols) > scanMax {
		return t.joinLong(ids, symbols, q)
	}
	var ranks [scanMax]uint32
	n := len(symbols)
	for i := 0; i+1 < n; i++ {
		ranks[i] = t.rank(symbols[i], symbols[i+1])
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
		symbols[at] = t.joined(best, symbols[at], symbols[at+1])
		copy(symbols[at+1:n-1], symbols[at+2:n])
		copy(ranks[at:n-2], ranks[at+1:n-1])
		n--
		if at > 0 {
			ranks[at-1] = t.rank(symbols[at-1], symbols[at])
		}
		if at+1 < n {
			ranks[at] = t.rank(symbols[at], symbols[at+1])
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

// Queue is the room that joining a long word takes; it is kept from word to word.
type Queue struct {
	chain []link
	heap  []uint64 // rank in the upper half, place in the lower
}

// joinLong is join in n log n: a heap of the pairs that may join. Entries that a merge made stale stay in it and are found out when they come up.
func (t *Table) joinLong(ids []uint32, symbols []uint32, q *Queue) []uint32 {
	q.chain, q.heap = q.chain[:0], q.heap[:0]
	for i, id := range symbols {
		q.chain = append(q.chain, link{id: id, prev: int32(i - 1), next: int32(i + 1)})
	}
	q.chain[len(symbols)-1].next = -1
	for i := range len(symbols) - 1 {
		q.offer(t, int32(i))
	}
	for len(q.heap) > 0 {
		top := q.pop()
		at := int32(uint32(top))
		left := &q.chain[at]
		if left.gone || left.next < 0 {
			continue
		}
		right := &q.chain[left.next]
		rank := t.rank(left.id, right.id)
		if rank != uint32(top>>32) {
			continue
		}
		left.id = t.joined(rank, left.id, right.id)
		right.gone = true
		if left.next = right.next; left.next >= 0 {
			q.chain[left.next].prev = at
			q.offer(t, at)
		}
		if left.prev >= 0 {
			q.offer(t, left.prev)
		}
	}
	for at := int32(0); at >= 0; at = q.chain[at].next {
		ids = append(ids, q.chain[at].id)
	}
	return ids
}

// offer puts the pair that begins at a place on the heap, if it may join.
func (q *Queue) offer(t *Table, at int32) {
	rank := t.rank(q.chain[at].id, q.chain[q.chain[at].next].id)
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
func (q *Queue) pop() uint64 {
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
