package prefix

import "math"

// Options bound the index. Fields that are 0 are taken from DefaultOptions.
type Options struct {
	BytesMax        int64 // memory of the whole index
	CapacityDefault int64 // assumed cache of a worker whose size nobody told, in prompt bytes
}

// DefaultOptions hold some 3 million (block, worker) pairs, and 400,000 tokens a worker at 4 bytes each.
func DefaultOptions() Options {
	return Options{BytesMax: 256 << 20, CapacityDefault: 1_600_000}
}

const (
	// SlotsMax is the number of workers one index can hold. Higher slots never hold anything.
	SlotsMax = 1024
	// pairBytesMax is the most memory that one (block, worker) pair can cost: 34 for the member, and up to 39 for the
	// block's entry, or half of that or less and up to 16 for a bucket, or a fifth or less, the bucket and a wide set.
	pairBytesMax = 75
	// fixedBytes is what an index costs before the first pair, and the rounding of pages and small tables.
	fixedBytes = 128 << 10
	// sweepPairs is how much of forgotten workers each Enter cleans up, beyond what it adds itself.
	sweepPairs = 256
	// batchPairs is how many blocks are looked up together, see table.warm.
	batchPairs = 32
	// victimPairs is the least that is evicted at once when the bytes bound is reached, so that the search for the
	// worker with the oldest block is paid once for many.
	victimPairs = 64
)

// Index is the assumed caches of all workers. A worker's blocks are prefix-closed at all times: a chain's tail leaves
// before its head, because using a chain puts its blocks in order at the front of the worker's list.
//
// Entries are filed under lanes, not slots. Forget takes the lane from the slot at once, and the lane is emptied bit by
// bit by later calls, so that a slot can be reused at once and the removal of a big worker stalls nobody.
type Index struct {
	o        Options
	pairsMax int
	table    table
	members  members
	lanes    []lane
	slots    [SlotsMax]uint16 // lane + 1
	live     laneSet          // lanes that belong to a slot
	idle     []uint16         // lanes that are empty and belong to nobody
	dying    []uint16         // lanes that belong to nobody and are being emptied
	evicted  Evictions
	scratch  []int32
}

type lane struct {
	list
	slot     int
	pairs    int
	bytes    int64 // prompt bytes held
	capacity int64 // prompt bytes
}

// New makes an empty index. Below 256 KiB BytesMax counts as that.
func New(o Options) *Index {
	d := DefaultOptions()
	if o.BytesMax <= 0 {
		o.BytesMax = d.BytesMax
	}
	if o.CapacityDefault <= 0 {
		o.CapacityDefault = d.CapacityDefault
	}
	o.BytesMax = max(o.BytesMax, 2*fixedBytes)
	return &Index{o: o, pairsMax: pairsMax(o.BytesMax)}
}

// SetCapacity sets the assumed cache size of a worker in prompt bytes; 0 or less means CapacityDefault. A smaller size
// evicts at once.
func (x *Index) SetCapacity(slot int, bytes int64) {
	n, ok := x.laneOf(slot)
	if !ok {
		return
	}
	if bytes <= 0 {
		bytes = x.o.CapacityDefault
	}
	x.lanes[n].capacity = bytes
	x.shrink(n, 0, 0)
}

// Enter notes that a worker was sent c and will cache it, at the cost of what it used least recently. now is in
// nanoseconds and does not run backwards. Of a chain longer than the worker's capacity only the head is entered.
func (x *Index) Enter(slot int, c Chain, now int64) { x.EnterHead(slot, c, now, math.MaxInt) }

// EnterHead is Enter for at most so many blocks that the worker does not hold yet, so that a very long prompt does not keep its
// owner's lock: Extend enters the rest. It returns the number of leading blocks that are there now, all of the chain when no more can be.
func (x *Index) EnterHead(slot int, c Chain, now int64, blocksMax int) (upTo int) {
	n, ok := x.laneOf(slot)
	if !ok {
		return len(c.Keys)
	}
	length := fit(c, x.lanes[n].capacity)
	stamp := stampOf(now)
	known, last := x.touch(n, c.Keys[:length], stamp)
	return x.insertAll(n, c, known, length, last, stamp, blocksMax)
}

// Extend enters up to blocksMax blocks more, behind the first upTo, which EnterHead or Extend returned. It gives up when these are no
// more held, and then too returns the whole chain's number.
func (x *Index) Extend(slot int, c Chain, now int64, upTo, blocksMax int) int {
	n, ok := x.laneOf(slot)
	if !ok || upTo <= 0 || upTo >= len(c.Keys) {
		return len(c.Keys)
	}
	last := x.find(c.Keys[upTo-1], n)
	if last == 0 {
		return len(c.Keys)
	}
	return x.insertAll(n, c, upTo, fit(c, x.lanes[n].capacity), last, stampOf(now), blocksMax)
}

// insertAll inserts the blocks [from, length) of c behind last, up to blocksMax of them. It returns the first one that is left to do,
// len(c.Keys) for none.
func (x *Index) insertAll(n uint16, c Chain, from, length int, last int32, stamp uint32, blocksMax int) int {
	end := length
	if length-from > blocksMax {
		end = from + blocksMax
	}
	x.sweep(sweepPairs + max(0, end-from))
	ok := true
	for i := from; i < end; i++ {
		if (i-from)%batchPairs == 0 {
			batch := min(i+batchPairs, end)
			x.shrink(n, int64(c.Ends[batch-1]-c.before(i)), last)
			x.table.warm(c.Keys[i:batch])
		}
		if last, ok = x.insert(n, c.Keys[i], c.Ends[i]-c.before(i), last, stamp); !ok {
			return len(c.Keys)
		}
	}
	if end < length {
		return end
	}
	return len(c.Keys)
}

// stampOf keeps time to about a millisecond; it wraps after 52 days, so stamps are compared by their difference.
func stampOf(now int64) uint32 { return uint32(now >> 20) }

// fit is the number of leading blocks that capacity can hold.
func fit(c Chain, capacity int64) int {
	length := len(c.Keys)
	for length > 0 && int64(c.Ends[length-1]) > capacity {
		length--
	}
	return length
}

// touch moves the leading blocks that the lane holds to the front, in order, and returns their number and the last of
// them. Blocks that were used together lie together, so most are found as their predecessor's neighbour, without
// hashing, and move as one run.
func (x *Index) touch(n uint16, keys []Key, stamp uint32) (known int, last int32) {
	m, l := &x.members, &x.lanes[n]
	for known < len(keys) {
		first := m.after(&l.list, last)
		moved := first == 0 || m.at(first).key != keys[known]
		if moved {
			first = x.find(keys[known], n)
			if first == 0 {
				return known, last
			}
		}
		if first == last { // the same key twice in a row: no hash makes that, a caller might
			known++
			continue
		}
		end, count := x.run(first, last, keys[known:], stamp)
		if moved {
			m.unlink(&l.list, first, end)
			m.link(&l.list, last, first, end)
		}
		known += count
		last = end
	}
	return known, last
}

// run follows keys through neighbours from first, stops before stop, and returns the last neighbour and the count.
func (x *Index) run(first, stop int32, keys []Key, stamp uint32) (end int32, count int) {
	end, count = first, 1
	e := x.members.at(first)
	e.stamp = stamp
	for count < len(keys) && e.older != 0 && e.older != stop {
		next := x.members.at(e.older)
		if next.key != keys[count] {
			break
		}
		end, e = e.older, next
		e.stamp = stamp
		count++
	}
	return end, count
}

// find returns the lane's member of that key, or 0.
func (x *Index) find(key Key, n uint16) int32 {
	switch h := x.table.ask(key, n); {
	case !h.held:
		return 0
	case h.alone:
		return h.ref
	}
	return x.members.find(key, n)
}

// insert adds a block behind parent. It fails when the lane or the index is full and only the chain's own head is left
// to evict: in the lane, that takes a block that was longer when it was entered.
func (x *Index) insert(n uint16, key Key, size, parent int32, stamp uint32) (int32, bool) {
	m, l := &x.members, &x.lanes[n]
	size = min(max(size, 0), sizeMax)
	if l.bytes+int64(size) > l.capacity || m.count >= x.pairsMax && !x.makeRoom(n, parent) {
		return parent, false
	}
	i := m.take()
	h := x.table.hold(key, n, i)
	if h.held { // although its parent was not: a key that stands in two places
		m.give(i)
		if i = x.find(key, n); i != parent {
			m.unlink(&l.list, i, i)
			m.link(&l.list, parent, i, i)
		}
		m.at(i).stamp = stamp
		return i, true
	}
	m.set(i, member{key: key, lane: n, parent: parent, size: uint16(size), stamp: stamp})
	if !h.alone {
		m.file(i)
	}
	if h.ref != 0 {
		m.file(h.ref)
	}
	m.link(&l.list, parent, i, i)
	l.pairs++
	l.bytes += int64(size)
	return i, true
}

// shrink evicts until the lane has room for so many more bytes, or only keep and what is in front of it is left.
func (x *Index) shrink(n uint16, more int64, keep int32) {
	l := &x.lanes[n]
	for l.bytes+more > l.capacity {
		count := x.evict(n, l.bytes+more-l.capacity, batchPairs, keep)
		if count == 0 {
			return
		}
		x.evicted.Capacity += uint64(count)
	}
}

// evict takes out the lane's least recently used blocks, always tails of chains: up to pairs of them, batchPairs at
// most, as long as their bytes are less than excess, and not keep. It returns how many.
func (x *Index) evict(n uint16, excess int64, pairs int, keep int32) int {
	var keys [batchPairs]Key
	count := 0
	for i := x.lanes[n].oldest; i != 0 && i != keep && count < min(pairs, batchPairs) && excess > 0; count++ {
		e := x.members.at(i)
		keys[count] = e.key
		excess -= int64(e.size)
		i = e.newer
	}
	x.table.warm(keys[:count])
	for range count {
		x.discard(n, x.lanes[n].oldest)
	}
	return count
}

// makeRoom evicts what was used least recently by any worker, a batch at a time, but never keep or what is in front of
// it in lane n. False when nothing else is left.
func (x *Index) makeRoom(n uint16, keep int32) bool {
	if x.sweep(victimPairs); x.members.count < x.pairsMax {
		return true
	}
	victim, oldest := -1, uint32(0)
	for i := range x.lanes {
		l := &x.lanes[i]
		if l.oldest == 0 || uint16(i) == n && l.oldest == keep {
			continue
		}
		stamp := x.members.at(l.oldest).stamp
		if victim < 0 || int32(stamp-oldest) < 0 {
			victim, oldest = i, stamp
		}
	}
	if victim < 0 {
		return false
	}
	if uint16(victim) != n {
		keep = 0
	}
	for left := max(victimPairs, x.pairsMax/2048); left > 0; {
		count := x.evict(uint16(victim), math.MaxInt64, left, keep)
		if count == 0 {
			break
		}
		if x.pairsMax < pairsMax(x.o.BytesMax) { // since Shed
			x.evicted.Shed += uint64(count)
		} else {
			x.evicted.Bound += uint64(count)
		}
		left -= count
	}
	return true
}

func (x *Index) discard(n uint16, i int32) {
	l := &x.lanes[n]
	e := x.members.at(i)
	l.bytes -= int64(e.size)
	l.pairs--
	if h := x.table.drop(e.key, n); !h.alone {
		x.members.unfile(i)
	}
	x.members.unlink(&l.list, i, i)
	x.members.give(i)
}

// laneOf returns the slot's lane and gives it one when it has none.
func (x *Index) laneOf(slot int) (uint16, bool) {
	if slot < 0 || slot >= SlotsMax {
		return 0, false
	}
	if n := x.slots[slot]; n != 0 {
		return n - 1, true
	}
	if len(x.idle) == 0 && len(x.lanes) == SlotsMax {
		x.sweep(math.MaxInt) // every lane that no slot has is a dying one
	}
	if k := len(x.idle); k > 0 {
		x.slots[slot] = x.idle[k-1] + 1
		x.idle = x.idle[:k-1]
	} else {
		x.lanes = append(x.lanes, lane{})
		x.slots[slot] = uint16(len(x.lanes))
		x.table.widen(len(x.lanes))
	}
	n := x.slots[slot] - 1
	x.lanes[n] = lane{slot: slot, capacity: x.o.CapacityDefault}
	x.live.add(n)
	return n, true
}

// Forget empties a slot, because its worker is gone or has restarted. From now on it matches nothing and its capacity
// is the default; the memory comes back with the next calls of Enter.
func (x *Index) Forget(slot int) {
	if slot < 0 || slot >= SlotsMax || x.slots[slot] == 0 {
		return
	}
	n := x.slots[slot] - 1
	x.slots[slot] = 0
	x.live.remove(n)
	x.dying = append(x.dying, n)
}

// sweep takes up to pairs blocks out of forgotten lanes.
func (x *Index) sweep(pairs int) {
	for len(x.dying) > 0 && pairs > 0 {
		n := x.dying[len(x.dying)-1]
		for pairs > 0 && x.lanes[n].oldest != 0 {
			pairs -= x.evict(n, math.MaxInt64, pairs, 0)
		}
		if x.lanes[n].oldest == 0 {
			x.dying = x.dying[:len(x.dying)-1]
			x.idle = append(x.idle, n)
		}
	}
}
