package prefix

// members are the (block, lane) pairs, kept in one list per lane, most recently used first. They live in pages that
// never move and are numbered by int32 (0 is none): half of what pointers cost, and nothing for the garbage collector
// to follow. A block's only holder is found through its entry in the table; the members of shared blocks are filed here
// by key and lane, with chained hashing.
type members struct {
	pages    []*[pageMembers]member
	children []*[pageChildren]uint16 // how many members each one is the parent of; childrenMax stays what it is
	free     int32                   // list through next
	used     int                     // numbers given out so far, 0 included
	count    int                     // members in use
	shards   [shardCount]buckets
	bytes    int64
}

// member is 32 bytes.
type member struct {
	key    Key
	parent int32 // the block before it; always nearer to the front of the list
	newer  int32 // neighbours in the lane's list
	older  int32
	chain  int32  // next in the same hash bucket, when filed
	stamp  uint32 // time of last use, see stampOf
	lane   uint16
	size   uint16 // prompt bytes; longer blocks count as sizeMax
}

// buckets is a power of two of list heads.
type buckets struct {
	heads []int32
	count int
}

const (
	pageBits     = 10
	pageMembers  = 1 << pageBits
	memberBytes  = 32
	childBits    = 12 // pages of 8 KiB, which the allocator hands out whole
	pageChildren = 1 << childBits
	childrenMax  = 1<<16 - 1
	sizeMax      = 1<<16 - 1
	headsLess    = 16
)

func (m *members) at(i int32) *member { return &m.pages[i>>pageBits][i&(pageMembers-1)] }

func (m *members) childrenOf(i int32) *uint16 {
	return &m.children[i>>childBits][i&(pageChildren-1)]
}

// set fills a member in that take returned.
func (m *members) set(i int32, e member) {
	*m.at(i) = e
	if e.parent == 0 {
		return
	}
	if n := m.childrenOf(e.parent); *n < childrenMax {
		*n++
	}
}

func pairHash(key Key, lane uint16) uint64 { return spread(key + Key(lane)*0xd6e8feb86659fd93) }

func (b *buckets) head(h uint64) *int32 { return &b.heads[h>>20&uint64(len(b.heads)-1)] }

// find returns the filed member of that key and lane, or 0.
func (m *members) find(key Key, lane uint16) int32 {
	h := pairHash(key, lane)
	b := &m.shards[h%shardCount]
	if b.count == 0 {
		return 0
	}
	for i := *b.head(h); i != 0; {
		e := m.at(i)
		if e.key == key && e.lane == lane {
			return i
		}
		i = e.chain
	}
	return 0
}

// file makes a member one that find finds.
func (m *members) file(i int32) {
	e := m.at(i)
	h := pairHash(e.key, e.lane)
	number := h % shardCount
	b := &m.shards[number]
	if b.count >= len(b.heads)*(shardCount+int(number))/(2*shardCount) { // loads differ, as in table
		m.grow(b)
	}
	head := b.head(h)
	e.chain, *head = *head, i
	b.count++
}

// unfile undoes file.
func (m *members) unfile(i int32) {
	e := m.at(i)
	h := pairHash(e.key, e.lane)
	b := &m.shards[h%shardCount]
	link := b.head(h)
	for *link != i {
		link = &m.at(*link).chain
	}
	*link = e.chain
	b.count--
}

// take returns a member to be filled in.
func (m *members) take() int32 {
	m.count++
	if i := m.free; i != 0 {
		m.free = m.at(i).older
		return i
	}
	m.used = max(m.used, 1) // number 0 is none
	if m.used >= len(m.pages)<<pageBits {
		m.pages = append(m.pages, new([pageMembers]member))
		m.bytes += pageMembers * memberBytes
	}
	if m.used >= len(m.children)<<childBits {
		m.children = append(m.children, new([pageChildren]uint16))
		m.bytes += pageChildren * 2
	}
	m.used++
	return int32(m.used - 1)
}

// give takes back a member that is neither filed nor in a list.
func (m *members) give(i int32) {
	if parent := m.at(i).parent; parent != 0 {
		if n := m.childrenOf(parent); *n > 0 && *n < childrenMax {
			*n--
		}
	}
	*m.at(i), *m.childrenOf(i) = member{older: m.free}, 0
	m.free = i
	m.count--
}

func (m *members) grow(b *buckets) {
	old := b.heads
	b.heads = make([]int32, max(headsLess, 2*len(old)))
	m.bytes += 4 * int64(len(b.heads)-len(old))
	for _, i := range old {
		for i != 0 {
			e := m.at(i)
			next := e.chain
			head := b.head(pairHash(e.key, e.lane))
			e.chain, *head = *head, i
			i = next
		}
	}
}

// list is one lane's members, most recently used first.
type list struct{ newest, oldest int32 }

// after is the member that follows i, towards the older end; after(0) is the newest.
func (m *members) after(l *list, i int32) int32 {
	if i == 0 {
		return l.newest
	}
	return m.at(i).older
}

// link puts the run from first to last, which is linked inside and in no list, behind i (0: in front of all).
func (m *members) link(l *list, i, first, last int32) {
	next := m.after(l, i)
	m.at(first).newer = i
	m.at(last).older = next
	if i == 0 {
		l.newest = first
	} else {
		m.at(i).older = first
	}
	if next == 0 {
		l.oldest = last
	} else {
		m.at(next).newer = last
	}
}

// unlink takes the run from first to last out of the list.
func (m *members) unlink(l *list, first, last int32) {
	newer, older := m.at(first).newer, m.at(last).older
	if newer == 0 {
		l.newest = older
	} else {
		m.at(newer).older = older
	}
	if older == 0 {
		l.oldest = newer
	} else {
		m.at(older).newer = newer
	}
}

// memory is the bytes allocated for members.
func (m *members) memory() int64 { return m.bytes + 8*int64(cap(m.pages)+cap(m.children)) }
