package kvindex

import "github.com/warmpath/warmpath/internal/prefix"

// node is one block: its key, the block before it, and who holds it. It exists while somebody holds it or a block behind it. Nodes lie in
// pages that never move and are numbered from 1, so that 32 bits name one and the garbage collector has nothing to follow.
type node struct {
	key    prefix.Key
	holder        // the only one; of a shared block: its list's number, and next the length of it
	lane   uint16 // of the only holder, its number + 1; 0 nobody, sharedMark several
	stamp  uint16 // the clock when the block was last stored or matched
	parent uint32 // 0: a first block
	kids   uint32 // nodes right behind this one
}

// holder says how one lane holds a block.
type holder struct {
	low, high uint32 // what the engine calls the block; apart, so that lists need 12 bytes for one
	next      uint16 // blocks right behind this one that the same lane holds; nextMax stays so
	copies    uint16 // by tier, see shift
}

func (h *holder) name() uint64 { return uint64(h.high)<<32 | uint64(h.low) }

func (h *holder) setName(name uint64) { h.low, h.high = uint32(name), uint32(name>>32) }

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
	ahead uint32 // of no meaning, see take
}

func (n *nodes) at(i uint32) *node { return &n.pages[i>>pageBits][i&(pageNodes-1)] }

func (n *nodes) take() uint32 {
	n.count++
	if i := n.free; i != 0 {
		n.free = n.at(i).parent
		if n.free != 0 {
			n.ahead += n.at(n.free).parent // the next one is on its way from memory while this one is worked on
		}
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

// lists keep the holders of blocks that several lanes hold: runs in a few sizes, each size with chunks of its own. A run's lanes lie
// together, since a search looks at them alone.
type lists struct {
	classes [listClasses]listClass
	bytes   int64
}

type listClass struct {
	chunks []chunk
	free   []uint32
	given  uint32
}

type chunk struct {
	lanes   []uint16 // number + 1
	holders []holder
}

const (
	listClasses = 22 // up to 3,072 holders
	holderBytes = 12 + 2
)

// listSize is 2, 3, 4, 6, 8, 12, 16, ...
func listSize(class int) int { return (2 + class%2) << (class / 2) }

// chunkBits is the logarithm of how many lists of that size a chunk has: 1,024 or 1,536 holders in all, until one list has more. Matches look
// for hundreds of lists, and would divide as often by any other number.
func chunkBits(class int) uint32 { return uint32(max(0, 9-class/2)) }

func listNumber(class int, i uint32) uint64 { return uint64(class)<<32 | uint64(i) }

// run returns the whole list of that number, used places first.
func (l *lists) run(number uint64) ([]uint16, []holder) {
	class, i := int(number>>32), uint32(number)
	size, bits := listSize(class), chunkBits(class)
	c, at := &l.classes[class].chunks[i>>bits], int(i&(1<<bits-1))*size
	return c.lanes[at : at+size : at+size], c.holders[at : at+size : at+size]
}

func (l *lists) take(class int) uint64 {
	c := &l.classes[class]
	if n := len(c.free); n > 0 {
		i := c.free[n-1]
		c.free = c.free[:n-1]
		return listNumber(class, i)
	}
	if bits := chunkBits(class); int(c.given) >= len(c.chunks)<<bits {
		n := listSize(class) << bits
		c.chunks = append(c.chunks, chunk{make([]uint16, n), make([]holder, n)})
		l.bytes += int64(n * holderBytes)
	}
	c.given++
	return listNumber(class, c.given-1)
}

func (l *lists) give(number uint64) {
	c := &l.classes[number>>32]
	c.free = append(c.free, uint32(number))
}

// move copies a list's first n holders into one of another class, and gives the old one back.
func (l *lists) move(number uint64, class, n int) uint64 {
	to := l.take(class)
	lanes, holders := l.run(number)
	newLanes, newHolders := l.run(to)
	copy(newLanes, lanes[:n])
	copy(newHolders, holders[:n])
	l.give(number)
	return to
}

// shared returns the lanes (number + 1) and holders of a node that several have. The slices are valid until one comes or goes.
func (x *Index) shared(n *node) ([]uint16, []holder) {
	lanes, holders := x.lists.run(n.name())
	return lanes[:n.next], holders[:n.next]
}

// find returns how lane holds the node, or nil.
func (x *Index) find(n *node, lane uint16) *holder {
	if n.lane == lane+1 {
		return &n.holder
	}
	if n.lane != sharedMark {
		return nil
	}
	lanes, holders := x.shared(n)
	for i, l := range lanes {
		if l == lane+1 {
			return &holders[i]
		}
	}
	return nil
}

// add makes a lane that does not hold the node one of its holders.
func (x *Index) add(n *node, lane uint16, h holder) {
	if n.lane == 0 {
		n.holder, n.lane = h, lane+1
		return
	}
	if n.lane != sharedMark {
		number := x.lists.take(0)
		lanes, holders := x.lists.run(number)
		lanes[0], holders[0] = n.lane, n.holder
		lanes[1], holders[1] = lane+1, h
		n.holder, n.lane = holder{next: 2}, sharedMark
		n.setName(number)
		return
	}
	number := n.name()
	lanes, holders := x.lists.run(number)
	if int(n.next) == len(lanes) {
		number = x.lists.move(number, int(number>>32)+1, len(lanes))
		lanes, holders = x.lists.run(number)
		n.setName(number)
	}
	lanes[n.next], holders[n.next] = lane+1, h
	n.next++
}

// remove takes a lane that holds the node out of its holders. One that is left moves back into the node; a list that is down to what the
// second smaller size holds moves there.
func (x *Index) remove(n *node, lane uint16) {
	if n.lane != sharedMark {
		n.holder, n.lane = holder{}, 0
		return
	}
	lanes, holders := x.shared(n)
	last := len(lanes) - 1
	for i, l := range lanes {
		if l == lane+1 {
			lanes[i], holders[i] = lanes[last], holders[last]
			break
		}
	}
	n.next--
	number := n.name()
	switch class := int(number >> 32); {
	case last == 1:
		n.holder, n.lane = holders[0], lanes[0]
		x.lists.give(number)
	case class > 1 && last <= listSize(class-2):
		n.setName(x.lists.move(number, class-2, last))
	}
}
