package kvindex

import (
	"math/bits"

	"github.com/warmpath/warmpath/internal/prefix"
)

// table finds node numbers by a 64-bit hash. It keeps no keys: a line holds eight bits of each entry's hash and its node's number, and
// the caller compares what the node says, which it has to read anyway. That is 5.3 bytes an entry, instead of 12 or 16 with the keys.
//
// Entries stand in their home line, or, as long as that is full, in one of the next; over counts those that went past a line, so that a
// search ends at the first line that nobody passed and nothing marks the dead. It is split in shards that grow each on their own, by a
// quarter: one big table would stop every reader for as long as it takes to fill anew.
//
// Counts of what is filed lie apart from where it is: they change with every entry, and a reader on another core would wait for each
// shard's as for a cache line of its own.
type table struct {
	shards [shardCount]shard
	filed  [shardCount]uint32 // entries of each
	used   int
	bytes  int64
	warmed uint64 // see warm
}

type shard struct{ lines []line }

// line is one cache line. Tag 0 is an empty place; tags are packed low end first, eight in low and four in high.
type line struct {
	low  uint64
	high uint32
	over uint32
	refs [lineEntries]uint32
}

const (
	shardBits   = 12
	shardCount  = 1 << shardBits
	lineEntries = 12
	lineBytes   = 64
	ones        = 0x0101010101010101
	tops        = 0x8080808080808080
)

// mix spreads hashes whose bits may be uneven; the folded product is Wang Yi's wyhash idea.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd6e8feb86659fd93)
	return hi ^ lo
}

func tagOf(h uint64) uint8 { return max(1, uint8(h)) }

func (s *shard) home(h uint64) int {
	return int(uint64(uint32(h>>16)) * uint64(len(s.lines)) >> 32)
}

func (s *shard) behind(i int) int {
	if i++; i < len(s.lines) {
		return i
	}
	return 0
}

// candidates has bit 8*i+7 of the two words set where entry i may have that tag; the lowest set bit is always right.
func (l *line) candidates(tag uint8) (low uint64, high uint32) {
	a := l.low ^ ones*uint64(tag)
	b := l.high ^ uint32(ones&0xffffffff)*uint32(tag)
	return (a - ones) &^ a & tops, (b - uint32(ones&0xffffffff)) &^ b & uint32(tops&0xffffffff)
}

// next takes the first candidate out of the words and returns its place, -1 for none.
func next(low *uint64, high *uint32) int {
	if *low != 0 {
		i := bits.TrailingZeros64(*low) >> 3
		*low &= *low - 1
		return i
	}
	if *high != 0 {
		i := bits.TrailingZeros32(*high)>>3 + 8
		*high &= *high - 1
		return i
	}
	return -1
}

func (l *line) tag(i int) uint8 {
	if i < 8 {
		return uint8(l.low >> (8 * i))
	}
	return uint8(l.high >> (8 * (i - 8)))
}

func (l *line) setTag(i int, tag uint8) {
	if i < 8 {
		l.low = l.low&^(0xff<<(8*i)) | uint64(tag)<<(8*i)
	} else {
		l.high = l.high&^(0xff<<(8*(i-8))) | uint32(tag)<<(8*(i-8))
	}
}

func (t *table) shard(h uint64) *shard { return &t.shards[shardOf(h)] }

func shardOf(h uint64) uint64 { return h >> (64 - shardBits) }

// put files a node. grow must have been asked before.
func (t *table) put(h uint64, ref uint32) {
	t.shard(h).put(h, ref)
	t.filed[shardOf(h)]++
	t.used++
}

func (s *shard) put(h uint64, ref uint32) {
	for i := s.home(h); ; i = s.behind(i) {
		l := &s.lines[i]
		low, high := l.candidates(0)
		if j := next(&low, &high); j >= 0 {
			l.setTag(j, tagOf(h))
			l.refs[j] = ref
			return
		}
		l.over++
	}
}

// take unfiles a node that is there. Entries that are alike in tag and number are one another's equals.
func (t *table) take(h uint64, ref uint32) {
	s := t.shard(h)
	tag := tagOf(h)
	for i := s.home(h); ; i = s.behind(i) {
		l := &s.lines[i]
		low, high := l.candidates(tag)
		for j := next(&low, &high); j >= 0; j = next(&low, &high) {
			if l.refs[j] == ref && l.tag(j) == tag {
				l.setTag(j, 0)
				t.filed[shardOf(h)]--
				t.used--
				return
			}
		}
		l.over--
	}
}

// full says that a shard must grow before the next put: at 0.8 to 0.9 of its places, depending on the shard, so that not all grow at once.
func (t *table) full(h uint64) bool {
	number := shardOf(h)
	places := len(t.shards[number].lines) * lineEntries
	return int(t.filed[number]) >= places*4/5+places*int(number)/(10*shardCount)
}

// grow gives a shard a quarter more lines. refile puts every entry of the old lines into the shard again.
func (t *table) grow(h uint64, refile func(old []line, s *shard)) {
	s := t.shard(h)
	old := s.lines
	n := len(old) + max(1, len(old)/4)
	s.lines = append([]line(nil), make([]line, n)...) // as many as the allocation holds
	s.lines = s.lines[:cap(s.lines)]
	t.bytes += lineBytes * int64(len(s.lines)-len(old))
	refile(old, s)
}

// warm reads a home line before it is worked on. Reads for several entries do not depend on each other, so memory answers them together.
func (t *table) warm(h uint64) {
	if s := t.shard(h); len(s.lines) > 0 {
		t.warmed += s.lines[s.home(h)].low
	}
}

// warm reads what a look at each of the blocks will read first.
func (x *Index) warm(salt uint64, keys []prefix.Key, names []uint64) {
	for _, key := range keys {
		x.byKey.warm(mix(uint64(key), 0))
	}
	for _, name := range names {
		x.byName.warm(mix(name, salt))
	}
}

// warmHeld is warm for blocks that are held: their nodes, which the names lead to, and what those lead to are read too, round by round.
func (x *Index) warmHeld(salt uint64, names []uint64) {
	x.warm(salt, nil, names)
	if len(names) == 1 {
		return
	}
	var refs [warmBlocks]uint32
	for i, name := range names {
		hash := mix(name, salt)
		if s := x.byName.shard(hash); len(s.lines) > 0 {
			l := &s.lines[s.home(hash)]
			low, high := l.candidates(tagOf(hash))
			if j := next(&low, &high); j >= 0 {
				refs[i] = l.refs[j] // most likely
			}
		}
	}
	for _, ref := range refs[:len(names)] {
		if ref != 0 {
			x.byKey.warm(mix(uint64(x.nodes.at(ref).key), 0))
		}
	}
}
