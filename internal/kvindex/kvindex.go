// Package kvindex knows which blocks engines say they hold. Where prefix.Index assumes what a worker has cached from what it was sent,
// this one is told, block by block, and forgets a block only when the engine says so.
//
//	x := kvindex.New(kvindex.Options{})
//	h := x.Open(3)                                          // the worker in slot 3 begins to tell
//	x.Store(h, 0, []prefix.Key{k1, k2}, []uint64{e1, e2}, kvindex.GPU)
//	x.Complete(h, true)                                     // what it told is all that it holds
//	x.Remove(h, []uint64{e2}, nil, kvindex.GPU)
//	m := x.Match([]prefix.Key{k1, k2}, nil)                 // m.Depth[3] == 1
//
// It is a type and a room of its own, beside prefix: that one orders each worker's blocks by use and takes the oldest out, this one must
// find a block by the engine's name for it, count copies, keep tiers apart and notice holes. A block is a node of a tree with 32 bytes;
// two hash tables without keys find it by our key and by each holder's name.
//
// Methods may be called from any goroutine. One lock guards all, but whoever changes the index gives way between two blocks, so that a
// reader waits for one block's work and not for a batch of thousands. No goroutine and no clock: the owner calls Sweep when it has time.
package kvindex

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/prefix"
)

// Options bound the index; 0 is the default.
type Options struct {
	BytesMax int64 // memory of the whole index; default 512 MiB, at least 4 MiB
	Guesses  int   // prompts of which Match remembers where to look first; default and most 1024, below 0 none
}

// DefaultOptions hold some 11 million (block, worker) pairs: what 400 workers of 400,000 tokens each have, in blocks of 16.
func DefaultOptions() Options { return Options{BytesMax: 512 << 20} }

const (
	// SlotsMax is the number of workers of one index, as in prefix. Higher slots never hold anything.
	SlotsMax = prefix.SlotsMax
	// lanesMax leaves room for lanes that were given up and are not swept yet.
	lanesMax = 2 * SlotsMax
	bytesMin = 4 << 20

	// What counts against BytesMax for each node, (block, worker) pair and noted hole: the places in tables at their emptiest included.
	// Lists are counted as allocated, and the shards' headers as fixed.
	nodeCost   = nodeBytes + 8
	pairCost   = 8
	holeCost   = 64
	fixedBytes = 2*shardCount*(32+lineBytes) + pageNodes*nodeBytes + hintsMax*hintBytes
)

// Index is the exact holdings of all workers.
type Index struct {
	turn    sync.Mutex   // of writers; taken before mu
	mu      sync.Mutex   // guards all below; held for one block's work, or one Match
	waiting atomic.Int32 // readers that want mu

	nodes   nodes
	lists   lists
	byKey   table
	byName  table // by lane and the engine's name
	lanes   []lane
	slots   [SlotsMax]uint16 // lane + 1
	slotOf  [lanesMax]uint16 // of each lane
	odd     laneSet          // lanes with holes or blocks in slower memory
	live    laneSet          // lanes that are complete
	nothing []int32          // what Match says when no block is found: 0 for complete holdings, else -1
	idle    []uint16
	dying   int // lanes that nobody has and that still hold something
	opened  uint64
	cost    int64 // beyond lists, see nodeCost
	costMax int64
	held    int64  // the most that it may cost for a while, 0 no less than costMax
	hand    uint32 // node at which the next sweep begins
	evict   evictor
	hints   []hint
	clock   uint16
	ticks   int
	blocks  uint // worked on, see giveWay
	tick    int  // stores in one tick of the clock
	counts  Counts
}

// lane is what one worker holds, from Open or Clear until the next of either. It changes with every block; what matches read of most lanes
// is in Index.slotOf, live and odd, which seldom do.
type lane struct {
	slot     int
	salt     uint64 // tells this lane's names from others'; new with each Open
	pairs    int
	lower    int // blocks that are not in GPU memory
	complete bool
	dead     bool
	holes    map[prefix.Key]uint16 // blocks that the lane does not hold, and how many behind each it does
}

// Handle names what one worker tells. One that was closed, or replaced by Clear or a later Open of the slot, does nothing.
type Handle struct {
	lane uint16 // number + 1
	salt uint64
}

// Counts are totals since the start.
type Counts struct {
	Stored     uint64 // blocks stored, copies included
	Removed    uint64 // blocks removed
	Unknown    uint64 // removals of blocks that were not known
	Conflicts  uint64 // names that stand for another block already; not stored
	Evicted    uint64 // pairs that gave way to the bound of memory
	HolesMade  uint64 // removals of a block with blocks behind it
	LanesGiven uint64 // holdings forgotten as a whole
}

// New makes an empty index.
func New(o Options) *Index {
	if o.BytesMax <= 0 {
		o = DefaultOptions()
	}
	o.BytesMax = max(o.BytesMax, bytesMin)
	x := &Index{costMax: o.BytesMax - fixedBytes}
	if o.Guesses == 0 || o.Guesses > hintsMax {
		o.Guesses = hintsMax
	}
	x.hints = make([]hint, max(0, o.Guesses))
	x.tick = int(max(256, x.costMax/(nodeCost+pairCost)/256))
	x.evict.age = 128 // what half of all that fits has been stored after
	return x
}

// Open gives a slot an empty holding and a handle to tell it with. What the slot held before is forgotten. It fails, with the zero
// Handle, only for a slot out of range.
func (x *Index) Open(slot int) Handle {
	x.writing()
	defer x.written()
	if slot < 0 || slot >= SlotsMax {
		return Handle{}
	}
	if n := x.slots[slot]; n != 0 {
		x.kill(n - 1)
	}
	for len(x.idle) == 0 && len(x.lanes) == lanesMax {
		x.sweep(pageNodes)
	}
	x.opened++
	l := lane{slot: slot, salt: mix(x.opened, uint64(slot))}
	var n uint16
	if k := len(x.idle); k > 0 {
		n = x.idle[k-1]
		x.idle = x.idle[:k-1]
		x.lanes[n] = l
	} else {
		n = uint16(len(x.lanes))
		x.lanes = append(x.lanes, l)
	}
	x.slots[slot], x.slotOf[n] = n+1, uint16(slot)
	x.judge(n)
	for len(x.nothing) <= slot {
		x.nothing = append(x.nothing, -1)
	}
	return Handle{n + 1, l.salt}
}

// Close forgets what the handle's worker holds. Matches stop at once, memory comes back with later calls, and the slot can be opened
// again at any time: nothing of the old holding can come back in it.
func (x *Index) Close(h Handle) {
	x.writing()
	defer x.written()
	if n, ok := x.lane(h); ok {
		x.kill(n)
	}
}

// Clear forgets what the worker holds and returns the handle that tells from now on. The new holding is not complete.
func (x *Index) Clear(h Handle) Handle {
	x.writing()
	n, ok := x.lane(h)
	slot := 0
	if ok {
		slot = x.lanes[n].slot
	}
	x.written()
	if !ok {
		return Handle{}
	}
	return x.Open(slot)
}

// Complete says whether what was told is all that the worker holds. Only complete holdings match.
func (x *Index) Complete(h Handle, complete bool) {
	x.writing()
	defer x.written()
	if n, ok := x.lane(h); ok {
		x.lanes[n].complete = complete
		if complete {
			x.live.add(n)
			x.nothing[x.lanes[n].slot] = 0
		} else {
			x.live.remove(n)
			x.nothing[x.lanes[n].slot] = -1
		}
	}
}

func (x *Index) lane(h Handle) (uint16, bool) {
	n := h.lane - 1
	return n, h.lane != 0 && x.lanes[n].salt == h.salt && !x.lanes[n].dead
}

// kill takes a lane from its slot. Its blocks go with the sweeps.
func (x *Index) kill(n uint16) {
	l := &x.lanes[n]
	x.slots[l.slot] = 0
	x.live.remove(n)
	x.nothing[l.slot] = -1
	x.cost -= holeCost * int64(len(l.holes))
	l.holes, l.dead, l.complete = nil, true, false
	x.judge(n)
	x.counts.LanesGiven++
	if l.pairs == 0 {
		x.idle = append(x.idle, n)
	} else {
		x.dying++
	}
}

// judge notes whether matches must look at lane n itself.
func (x *Index) judge(n uint16) {
	l := &x.lanes[n]
	if odd := len(l.holes) > 0 || l.lower > 0; odd == x.odd.has(n) {
		return
	} else if odd {
		x.odd.add(n)
	} else {
		x.odd.remove(n)
	}
}

// laneSet is a set of lanes.
type laneSet [lanesMax / 64]uint64

func (s *laneSet) add(lane uint16)    { s[lane>>6] |= 1 << (lane & 63) }
func (s *laneSet) remove(lane uint16) { s[lane>>6] &^= 1 << (lane & 63) }

func (s *laneSet) has(lane uint16) bool { return s[lane>>6]&(1<<(lane&63)) != 0 }

func (s *laneSet) empty(words int) bool {
	for _, w := range s[:words] {
		if w != 0 {
			return false
		}
	}
	return true
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

// each calls f for every lane in s.
func (s *laneSet) each(words int, f func(lane uint16)) {
	for i, w := range s[:words] {
		for ; w != 0; w &= w - 1 {
			f(uint16(i*64 + bits.TrailingZeros64(w)))
		}
	}
}
