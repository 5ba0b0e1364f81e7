package ghost

import "math/bits"

// piece is a part of a prompt as caches hold it: a block, or a whole earlier answer, with its tokens.
type piece struct {
	key    uint64
	tokens int32
}

// caches are one ghost's: a lane a worker, each with its own capacity in tokens, least recently used out first. A chain's pieces lie in
// order in the list, its head the newest, so that tails leave before heads and the next piece is mostly found as its neighbour, without
// hashing. Beside the pieces it is one hash table for all lanes.
type caches struct {
	now     uint16 // what is used now was used then, see entry.used
	lanes   []lane
	entries []entry // the first one is nobody's
	unused  int32   // list through older, 0 ends it
	count   int
	most    int     // entries that there may be
	table   []int32 // open addressing, linear probing; 0 is free
}

type lane struct {
	newest, oldest   int32
	tokens, capacity int64
	stale            int64 // of tokens, those that were not used since ageing began
}

type entry struct {
	key          uint64
	older, newer int32
	tokens       int32
	lane         uint16
	used         uint16 // caches.now when it was used last; 0: before ageing began, or nobody counts
}

// pairBytes is the most that one piece in one cache can cost: its entry, and a table that has just doubled to be three eighths full.
const pairBytes = 24 + 11

func newCaches(bytesMax int64) *caches {
	return &caches{entries: make([]entry, 1, 64), table: make([]int32, 64), most: max(64, int(bytesMax/pairBytes))}
}

func (c *caches) bytes() int64 { return int64(cap(c.entries))*24 + int64(len(c.table))*4 }

// full says that there is no room for so many pieces more within the bound of memory.
func (c *caches) full(more int) bool { return c.count+more > c.most }

// lane makes lanes up to n and sets the capacity of that one, in tokens.
func (c *caches) open(n int32, capacity int64) {
	for len(c.lanes) <= int(n) {
		c.lanes = append(c.lanes, lane{})
	}
	l := &c.lanes[n]
	l.capacity = capacity
	for l.tokens > l.capacity {
		c.discard(l.oldest)
	}
}

// forget empties a lane.
func (c *caches) forget(n int32) {
	if int(n) < len(c.lanes) {
		for c.lanes[n].oldest != 0 {
			c.discard(c.lanes[n].oldest)
		}
	}
}

// use places a chain in a lane: it tells how many leading pieces were there, and has all of them be there, at the cost of what was used
// least recently. Of a chain longer than the lane's capacity the head alone is kept.
func (c *caches) use(n int32, chain []piece) (known int) {
	l := &c.lanes[n]
	var last, next int32
	for known < len(chain) {
		at := next
		if at == 0 || c.entries[at].key != chain[known].key {
			if at = c.find(n, chain[known].key); at == 0 {
				break
			}
		}
		next = c.entries[at].older
		c.move(l, at, last)
		c.touch(l, at)
		last = at
		known++
	}
	for _, p := range chain[known:] {
		if last = c.enter(n, l, p, last); last == 0 {
			break
		}
	}
	return known
}

// enter puts a piece behind last. 0: there is no room.
func (c *caches) enter(n int32, l *lane, p piece, last int32) int32 {
	if at := c.find(n, p.key); at != 0 { // although its parent was not
		if at != last {
			c.move(l, at, last)
		}
		c.touch(l, at)
		return at
	}
	for l.tokens+int64(p.tokens) > l.capacity {
		if l.oldest == 0 || l.oldest == last {
			return 0
		}
		c.discard(l.oldest)
	}
	at := c.take()
	c.entries[at] = entry{key: p.key, tokens: p.tokens, lane: uint16(n), used: c.now}
	c.link(l, at, last)
	c.file(at)
	l.tokens += int64(p.tokens)
	return at
}

// touch notes that an entry is used.
func (c *caches) touch(l *lane, at int32) {
	e := &c.entries[at]
	if e.used == 0 && c.now > 0 {
		l.stale -= int64(e.tokens)
	}
	e.used = c.now
}

// move puts an entry behind last, 0 being the front.
func (c *caches) move(l *lane, at, last int32) {
	if at == last || last == 0 && l.newest == at || last != 0 && c.entries[last].older == at {
		return
	}
	c.unlink(l, at)
	c.link(l, at, last)
}

func (c *caches) link(l *lane, at, last int32) {
	e := &c.entries[at]
	if e.newer = last; last == 0 {
		e.older = l.newest
		l.newest = at
	} else {
		e.older = c.entries[last].older
		c.entries[last].older = at
	}
	if e.older == 0 {
		l.oldest = at
	} else {
		c.entries[e.older].newer = at
	}
}

func (c *caches) unlink(l *lane, at int32) {
	e := &c.entries[at]
	if e.newer == 0 {
		l.newest = e.older
	} else {
		c.entries[e.newer].older = e.older
	}
	if e.older == 0 {
		l.oldest = e.newer
	} else {
		c.entries[e.older].newer = e.newer
	}
}

// take makes an entry. The caller has looked whether caches are full; beyond the bound they only grow for one chain.
func (c *caches) take() int32 {
	if at := c.unused; at != 0 {
		c.unused = c.entries[at].older
		c.count++
		return at
	}
	if n := len(c.entries); n == cap(c.entries) {
		grown := make([]entry, n, max(n+1, min(2*n, c.most+1)))
		copy(grown, c.entries)
		c.entries = grown
	}
	c.entries = append(c.entries, entry{})
	c.count++
	return int32(len(c.entries) - 1)
}

func (c *caches) discard(at int32) {
	e := &c.entries[at]
	l := &c.lanes[e.lane]
	c.unfile(at)
	c.unlink(l, at)
	l.tokens -= int64(e.tokens)
	if e.used == 0 {
		l.stale -= int64(e.tokens)
	}
	*e = entry{older: c.unused}
	c.unused = at
	c.count--
}

// keep takes out what is not to be kept.
func (c *caches) keep(kept func(key uint64) bool) {
	for n := range c.lanes {
		for at := c.lanes[n].oldest; at != 0; {
			newer := c.entries[at].newer
			if !kept(c.entries[at].key) {
				c.discard(at)
			}
			at = newer
		}
	}
}

// place is where a key of a lane is looked for first.
func (c *caches) place(n int32, key uint64) int {
	return int((key ^ uint64(n+1)*0xd6e8feb86659fd93) * golden >> (64 - uint(bits.Len(uint(len(c.table)-1)))))
}

func (c *caches) find(n int32, key uint64) int32 {
	for i := c.place(n, key); ; i = (i + 1) & (len(c.table) - 1) {
		at := c.table[i]
		if at == 0 {
			return 0
		}
		if e := &c.entries[at]; e.key == key && e.lane == uint16(n) {
			return at
		}
	}
}

func (c *caches) file(at int32) {
	if c.count*4 > len(c.table)*3 {
		old := c.table
		c.table = make([]int32, 2*len(old))
		for _, other := range old {
			if other != 0 && other != at {
				c.put(other)
			}
		}
	}
	c.put(at)
}

func (c *caches) put(at int32) {
	e := &c.entries[at]
	i := c.place(int32(e.lane), e.key)
	for c.table[i] != 0 {
		i = (i + 1) & (len(c.table) - 1)
	}
	c.table[i] = at
}

// unfile takes an entry out of the table and moves those behind it that would not be found any more (Knuth, volume 3, algorithm R).
func (c *caches) unfile(at int32) {
	e, mask := &c.entries[at], len(c.table)-1
	i := c.place(int32(e.lane), e.key)
	for c.table[i] != at {
		i = (i + 1) & mask
	}
	for j := i; ; {
		j = (j + 1) & mask
		if c.table[j] == 0 {
			break
		}
		other := &c.entries[c.table[j]]
		if home := c.place(int32(other.lane), other.key); (j-home)&mask >= (j-i)&mask {
			c.table[i] = c.table[j]
			i = j
		}
	}
	c.table[i] = 0
}
