package prefix

import "math/bits"

// laneSet is a set of lanes. A lane is what a slot's entries are filed under; see Index.
type laneSet [SlotsMax / 64]uint64

func (s *laneSet) add(lane uint16)      { s[lane>>6] |= 1 << (lane & 63) }
func (s *laneSet) has(lane uint16) bool { return s[lane>>6]&(1<<(lane&63)) != 0 }
func (s *laneSet) remove(lane uint16)   { s[lane>>6] &^= 1 << (lane & 63) }

func (s *laneSet) empty(words int) bool {
	for _, w := range s[:words] {
		if w != 0 {
			return false
		}
	}
	return true
}

// table says which lanes hold a block: open addressing, 16 bytes an entry, in lines of four that are one cache line
// each: an entry stands in its home line, or, as long as that is full, in the next one. It knows nothing of order or age. Most blocks
// have one holder; for these the entry also keeps a reference of the owner's choosing, which spares it a table of its own.
//
// It is split in shards that grow each on their own, by half and at loads that differ a little from shard to shard: one
// big table would stop everything for many milliseconds when it doubles, under its owner's lock.
type table struct {
	shards [shardCount]shard
	wide   []uint64 // lane sets of blocks with more than four holders, stride words each
	stride int
	spare  []uint32 // freed sets in wide
	blocks int
	bytes  int64  // memory of the shards
	warmed uint64 // see warm
}

const shardCount = 128

type shard struct {
	lines []line
	used  int
}

type line [lineEntries]entry

// entry with key 0 is empty. held is one of
//   - aloneMark, the lane at laneShift, and the reference in the low 32 bits: one holder;
//   - up to four lanes, each as lane+1 in 16 bits, packed from the low end: a block that had several at some time;
//   - wideMark over the number of a set in table.wide.
type entry struct {
	key  Key
	held uint64
}

const (
	lineEntries = 4
	lineBytes   = 64
	aloneMark   = 1 << 63
	laneShift   = 32
	wideMark    = 3 << 62
	inlineMax   = 4
	spreadMul   = 0x9e3779b97f4a7c15 // 2^64 / golden ratio: also spreads keys that are no hashes
	linesMin    = 4                  // size of a shard's first table
)

func isWide(held uint64) bool  { return held >= wideMark }
func isAlone(held uint64) bool { return held>>62 == aloneMark>>62 }

func aloneIn(lane uint16, ref int32) uint64 {
	return aloneMark | uint64(lane)<<laneShift | uint64(uint32(ref))
}

func spread(key Key) uint64 { return uint64(key) * spreadMul }

// home is the line where a key belongs: the product's high half maps onto any number of lines, not only powers of two.
func (s *shard) home(h uint64) int {
	hi, _ := bits.Mul64(h, uint64(len(s.lines)))
	return int(hi)
}

// find returns the key's place, or the free one where it would have to go, and nil only when there are no lines.
func (s *shard) find(key Key, h uint64) (at int, e *entry) {
	if len(s.lines) == 0 {
		return 0, nil
	}
	for i := s.home(h); ; i = s.behind(i) {
		l := &s.lines[i]
		for j := range l {
			if l[j].key == key || l[j].key == 0 {
				return i, &l[j]
			}
		}
	}
}

func (s *shard) behind(i int) int {
	if i++; i < len(s.lines) {
		return i
	}
	return 0
}

// holding is how a block was held by others when a lane came or went, or asked.
type holding struct {
	held  bool  // the lane holds it already, or did
	alone bool  // the lane is, or was, the only holder and ref is in the entry
	ref   int32 // the reference in the entry; in hold: of the one before, which loses its place there
}

// ask tells whether lane holds the block.
func (t *table) ask(key Key, lane uint16) holding {
	h := spread(key)
	_, e := t.shards[h%shardCount].find(key, h)
	switch {
	case e == nil || e.key == 0:
		return holding{}
	case isAlone(e.held):
		held := uint16(e.held>>laneShift) == lane
		return holding{held: held, alone: held, ref: int32(uint32(e.held))}
	case isWide(e.held):
		return holding{held: t.set(e.held)[lane>>6]>>(lane&63)&1 == 1}
	}
	for held := e.held; held != 0; held >>= 16 {
		if uint16(held) == lane+1 {
			return holding{held: true}
		}
	}
	return holding{}
}

// hold notes that lane holds the block, with a reference that is kept while it is the only one.
func (t *table) hold(key Key, lane uint16, ref int32) holding {
	h := spread(key)
	number := h % shardCount
	s := &t.shards[number]
	if s.used >= loadMax(len(s.lines), int(number)) {
		t.grow(s)
	}
	_, e := s.find(key, h)
	if e.key == 0 {
		*e = entry{key, aloneIn(lane, ref)}
		s.used++
		t.blocks++
		return holding{alone: true}
	}
	if !isAlone(e.held) {
		return holding{held: !t.addHolder(e, lane)}
	}
	first, ref := uint16(e.held>>laneShift), int32(uint32(e.held))
	if first == lane {
		return holding{held: true, alone: true, ref: ref}
	}
	e.held = uint64(first) + 1 | (uint64(lane)+1)<<16
	return holding{ref: ref}
}

// loadMax is the number of entries at which so many lines grow: 5/8 to 3/4 of what they hold, depending on the shard.
func loadMax(lines, number int) int { return lines*5/2 + lines*number/(2*shardCount) }

func (t *table) grow(s *shard) {
	old := s.lines
	s.lines = make([]line, max(linesMin, len(old)*3/2))
	t.bytes += lineBytes * int64(len(s.lines)-len(old))
	for i := range old {
		for _, e := range old[i] {
			if e.key != 0 {
				_, free := s.find(e.key, spread(e.key))
				*free = e
			}
		}
	}
}

func (t *table) addHolder(e *entry, lane uint16) bool {
	if isWide(e.held) {
		word := &t.set(e.held)[lane>>6]
		bit := uint64(1) << (lane & 63)
		news := *word&bit == 0
		*word |= bit
		return news
	}
	for shift := 0; shift < 16*inlineMax; shift += 16 {
		switch e.held >> shift & 0xffff {
		case uint64(lane) + 1:
			return false
		case 0:
			e.held |= (uint64(lane) + 1) << shift
			return true
		}
	}
	inline := e.held
	e.held = t.newSet()
	set := t.set(e.held)
	for ; inline != 0; inline >>= 16 {
		holder := inline&0xffff - 1
		set[holder>>6] |= 1 << (holder & 63)
	}
	set[lane>>6] |= 1 << (lane & 63)
	return true
}

// drop notes that lane no longer holds the block.
func (t *table) drop(key Key, lane uint16) holding {
	h := spread(key)
	s := &t.shards[h%shardCount]
	i, e := s.find(key, h)
	switch {
	case e == nil || e.key == 0:
		return holding{}
	case isAlone(e.held):
		if uint16(e.held>>laneShift) != lane {
			return holding{}
		}
		ref := int32(uint32(e.held))
		t.delete(s, i, e)
		return holding{held: true, alone: true, ref: ref}
	case isWide(e.held):
		set := t.set(e.held)
		bit := uint64(1) << (lane & 63)
		if set[lane>>6]&bit == 0 {
			return holding{}
		}
		set[lane>>6] &^= bit
		t.narrow(e, set)
		return holding{held: true}
	}
	for shift := 0; shift < 16*inlineMax; shift += 16 {
		if e.held>>shift&0xffff == uint64(lane)+1 {
			e.held = e.held&(1<<shift-1) | e.held>>(shift+16)<<shift
			if e.held == 0 {
				t.delete(s, i, e)
			}
			return holding{held: true}
		}
	}
	return holding{}
}

// narrow turns a wide set back into the inline form one holder below the point where it became wide, so that a block
// at the edge does not flip with every change.
func (t *table) narrow(e *entry, set []uint64) {
	count := 0
	for _, w := range set {
		count += bits.OnesCount64(w)
	}
	if count >= inlineMax {
		return
	}
	t.spare = append(t.spare, uint32(e.held))
	e.held = 0
	for i, w := range set {
		for ; w != 0; w &= w - 1 {
			e.held = e.held<<16 | uint64(i*64+bits.TrailingZeros64(w)+1)
		}
		set[i] = 0
	}
}

// delete frees e, which is in line i. Lines fill from the low end. When the line was full, entries of lines behind it
// may stand there only because of that, and one of them moves up, which may free a place in a full line again.
func (t *table) delete(s *shard, i int, e *entry) {
	s.used--
	t.blocks--
	for at := i; s.lines[at].full(); {
		at = s.behind(at)
		for j := range s.lines[at] {
			next := &s.lines[at][j]
			if next.key != 0 && distance(s.home(spread(next.key)), at, len(s.lines)) >= distance(i, at, len(s.lines)) {
				*e, e, i = *next, next, at
				break
			}
		}
	}
	l := &s.lines[i]
	last := l.count() - 1
	*e = l[last]
	l[last] = entry{}
}

func (l *line) full() bool { return l[lineEntries-1].key != 0 }

func (l *line) count() int {
	n := 0
	for n < lineEntries && l[n].key != 0 {
		n++
	}
	return n
}

func distance(from, to, size int) int {
	if to < from {
		return to - from + size
	}
	return to - from
}

// holders sets the first stride words of into to the lanes that hold the block.
func (t *table) holders(key Key, into *laneSet) {
	clear(into[:t.stride])
	h := spread(key)
	_, e := t.shards[h%shardCount].find(key, h)
	if e == nil || e.key == 0 {
		return
	}
	if isWide(e.held) {
		copy(into[:t.stride], t.set(e.held))
		return
	}
	if isAlone(e.held) {
		into.add(uint16(e.held >> laneShift))
		return
	}
	for held := e.held; held != 0; held >>= 16 {
		into.add(uint16(held) - 1)
	}
}

// warm reads where the keys are, or will be, before they are worked on one after the other. The reads do not depend on
// each other, so memory answers them together: with millions of blocks, waiting for it is nearly all of the cost. The
// sum is kept so that the compiler keeps the reads.
func (t *table) warm(keys []Key) {
	sum := uint64(0)
	for _, key := range keys {
		h := spread(key)
		if s := &t.shards[h%shardCount]; len(s.lines) > 0 {
			sum += uint64(s.lines[s.home(h)][0].key)
		}
	}
	t.warmed += sum
}

func (t *table) set(held uint64) []uint64 {
	at := int(uint32(held)) * t.stride
	return t.wide[at : at+t.stride]
}

func (t *table) newSet() uint64 {
	if n := len(t.spare); n > 0 {
		number := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return wideMark | uint64(number)
	}
	number := len(t.wide) / t.stride
	if need := len(t.wide) + t.stride; need > cap(t.wide) {
		t.wide = append(make([]uint64, 0, need+need/4), t.wide...) // a quarter, so that the bytes bound holds
	}
	t.wide = t.wide[:len(t.wide)+t.stride]
	return wideMark | uint64(number)
}

// widen makes room for lanes in every set.
func (t *table) widen(lanes int) {
	stride := (lanes + 63) / 64
	if stride <= t.stride {
		return
	}
	if t.stride > 0 {
		count := len(t.wide) / t.stride
		wide := make([]uint64, count*stride)
		for i := range count {
			copy(wide[i*stride:], t.wide[i*t.stride:(i+1)*t.stride])
		}
		t.wide = wide
	}
	t.stride = stride
}

// memory is the bytes allocated for the table.
func (t *table) memory() int64 {
	return t.bytes + 8*int64(cap(t.wide)) + 4*int64(cap(t.spare))
}
