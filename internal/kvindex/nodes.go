package kvindex

import "github.com/warmpath/warmpath/internal/prefix"

// node is one block: its key, the block before it, and who holds it. It exists while somebody holds it or a block behind it. Nodes lie in
// pages that never move and are numbered from 1, so that 32 bits name one and the garbage collector has nothing to follow.
type node struct {
	key    prefix.Key
	holder        // the only one; of a shared block: lane is sharedMark, hash the number of its list, next the length of it
	parent uint32 // 0: a first block
	kids   uint32 // nodes right behind this one
}

// holder says that one lane holds a block. In a node it has 24 bytes with the node's stamp, in a list the stamp is not used.
type holder struct {
	hash   uint64 // what the engine calls the block
	lane   uint16 // number + 1; 0 nobody
	next   uint16 // blocks right behind this one that the same lane holds; nextMax stays so
	copies uint16 // by tier, see shift
	stamp  uint16 // the clock when the block was last stored or matched
}

const (
	nodeBytes  = 32
	pageBits   = 12
	pageNodes  = 1 << pageBits
	sharedMark = 1<<16 - 1
	nextMax    = 1<<16 - 1
)

// Tier is where an engine keeps a block. A slower tier's blocks must be loaded before they are of use.
type Tier uint8

// The tiers, fastest first.
const (
	GPU Tier = iota
	CPU
	Disk
	tierCount
)

// Eight bits of copies for GPU memory, four each for the others. A count that is full stays full until a removal: it then errs towards
// forgetting early.
func (t Tier) shift() int     { return [...]int{0, 8, 12}[t] }
func (t Tier) most() uint16   { return [...]uint16{255, 15, 15}[t] }
func (t Tier) mask() uint16   { return t.most() << t.shift() }
func (t Tier) valid() bool    { return t < tierCount }
func (t Tier) String() string { return [...]string{"gpu", "cpu", "disk"}[t] }

func (h *holder) count(t Tier) uint16 { return h.copies >> t.shift() & t.most() }

func (h *holder) set(t Tier, n uint16) {
	h.copies = h.copies&^t.mask() | min(n, t.most())<<t.shift()
}

// fast says that the block is in GPU memory.
func (h *holder) fast() bool { return h.copies&GPU.mask() != 0 }

// nodes is the pages.
type nodes struct {
	pages []*[pageNodes]node
	free  uint32 // list through parent
	given uint32 // numbers given out so far, 0 included
	count int
}

func (n *nodes) at(i uint32) *node { return &n.pages[i>>pageBits][i&(pageNodes-1)] }

func (n *nodes) take() uint32 {
	n.count++
	if i := n.free; i != 0 {
		n.free = n.at(i).parent
		return i
	}
	n.given = max(n.given, 1)
	if int(n.given) >= len(n.pages)<<pageBits {
		n.pages = append(n.pages, new([pageNodes]node))
	}
	n.given++
	return n.given - 1
}

func (n *nodes) give(i uint32) {
	*n.at(i) = node{parent: n.free}
	n.free = i
	n.count--
}

func (n *nodes) bytes() int64 { return int64(len(n.pages)) * (pageNodes*nodeBytes + 8) }

// lists keep the holders of blocks that several lanes hold: runs of holders in a few sizes, each size with chunks of its own.
type lists struct {
	classes [listClasses]listClass
	bytes   int64
}

type listClass struct {
	chunks [][]holder
	free   []uint32
	given  uint32
}

const (
	listClasses  = 22 // up to 3,072 holders
	holderBytes  = 16
	chunkHolders = 1024
)

// listSize is 2, 3, 4, 6, 8, 12, 16, ...
func listSize(class int) int { return (2 + class%2) << (class / 2) }

// chunkRuns is how many lists of that size a chunk has.
func chunkRuns(class int) uint32 { return uint32(max(1, chunkHolders/listSize(class))) }

func listNumber(class int, i uint32) uint64 { return uint64(class)<<32 | uint64(i) }

// run returns the whole list of that number, used places first.
func (l *lists) run(number uint64) []holder {
	class, i := int(number>>32), uint32(number)
	size := listSize(class)
	runs := chunkRuns(class)
	at := int(i%runs) * size
	return l.classes[class].chunks[i/runs][at : at+size : at+size]
}

func (l *lists) take(class int) uint64 {
	c := &l.classes[class]
	if n := len(c.free); n > 0 {
		i := c.free[n-1]
		c.free = c.free[:n-1]
		return listNumber(class, i)
	}
	if runs := int(chunkRuns(class)); int(c.given) >= len(c.chunks)*runs {
		c.chunks = append(c.chunks, make([]holder, runs*listSize(class)))
		l.bytes += int64(runs * listSize(class) * holderBytes)
	}
	c.given++
	return listNumber(class, c.given-1)
}

func (l *lists) give(number uint64) {
	c := &l.classes[number>>32]
	c.free = append(c.free, uint32(number))
}

// holders of a node, in no order. The slice is valid until a holder of the node comes or goes.
func (x *Index) holders(n *node) []holder {
	if n.lane == sharedMark {
		return x.lists.run(n.hash)[:n.next]
	}
	return nil
}

// find returns how lane holds the node, or nil.
func (x *Index) find(n *node, lane uint16) *holder {
	if n.lane == lane+1 {
		return &n.holder
	}
	if n.lane != sharedMark {
		return nil
	}
	list := x.lists.run(n.hash)[:n.next]
	for i := range list {
		if list[i].lane == lane+1 {
			return &list[i]
		}
	}
	return nil
}

// add makes a lane that does not hold the node one of its holders.
func (x *Index) add(n *node, h holder) *holder {
	if n.lane == 0 {
		h.stamp = n.stamp
		n.holder = h
		return &n.holder
	}
	if n.lane != sharedMark {
		number := x.lists.take(0)
		list := x.lists.run(number)
		list[0], list[1] = n.holder, h
		n.holder = holder{hash: number, lane: sharedMark, next: 2, stamp: n.stamp}
		return &list[1]
	}
	list := x.lists.run(n.hash)
	if int(n.next) == len(list) {
		number := x.lists.take(int(n.hash>>32) + 1)
		longer := x.lists.run(number)
		copy(longer, list)
		x.lists.give(n.hash)
		n.hash, list = number, longer
	}
	at := &list[n.next]
	*at = h
	n.next++
	return at
}

// remove takes a lane that holds the node out of its holders. One that is left moves back into the node; a list that is down to half of
// the next smaller size moves there.
func (x *Index) remove(n *node, lane uint16) {
	if n.lane != sharedMark {
		n.holder = holder{stamp: n.stamp}
		return
	}
	list := x.lists.run(n.hash)
	last := int(n.next) - 1
	for i := range list[:last] {
		if list[i].lane == lane+1 {
			list[i] = list[last]
			break
		}
	}
	n.next--
	class := int(n.hash >> 32)
	switch {
	case n.next == 1:
		only := list[0]
		only.stamp = n.stamp
		x.lists.give(n.hash)
		n.holder = only
	case class > 1 && int(n.next) <= listSize(class-2):
		number := x.lists.take(class - 2)
		copy(x.lists.run(number), list[:n.next])
		x.lists.give(n.hash)
		n.hash = number
	}
}
