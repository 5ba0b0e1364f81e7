package flow

import "cmp"

// heap is a heap of four children a node, the least key first and of equal ones the least number, whose members know where they are, so
// that any of them can leave. Keys stand in the heap itself: members lie all over the memory, and to look at each on the way down would cost
// more than all the rest. container/heap was rejected for that, and because it calls through an interface.
type heap[K cmp.Ordered, T any] struct {
	nodes []node[K, T]
	at    func(T) *int // where the member notes its place; -1 when it is in no heap
}

type node[K cmp.Ordered, T any] struct {
	key    K
	seq    uint64
	member T
}

const children = 4

func (n *node[K, T]) before(other *node[K, T]) bool {
	return n.key < other.key || n.key == other.key && n.seq < other.seq
}

func (h *heap[K, T]) len() int { return len(h.nodes) }

// first is the least member of a heap that is not empty.
func (h *heap[K, T]) first() T { return h.nodes[0].member }

func (h *heap[K, T]) add(key K, seq uint64, m T) {
	h.nodes = append(h.nodes, node[K, T]{})
	h.rise(len(h.nodes)-1, node[K, T]{key, seq, m})
}

// remove takes out a member that is in.
func (h *heap[K, T]) remove(m T) {
	i, last := *h.at(m), len(h.nodes)-1
	moved := h.nodes[last]
	h.nodes[last] = node[K, T]{}
	h.nodes = h.nodes[:last]
	*h.at(m) = -1
	if i != last {
		h.settle(i, moved)
	}
	h.shrink()
}

// fix gives a member that is in another key.
func (h *heap[K, T]) fix(m T, key K) {
	i := *h.at(m)
	n := h.nodes[i]
	n.key = key
	h.settle(i, n)
}

// settle puts a node at i or where it belongs above or below.
func (h *heap[K, T]) settle(i int, n node[K, T]) {
	if i > 0 && n.before(&h.nodes[(i-1)/children]) {
		h.rise(i, n)
	} else {
		h.sink(i, n)
	}
}

// shrinkFrom is the room below which a heap or a map keeps what it has.
const shrinkFrom = 64

// shrink gives back what a burst has left behind.
func (h *heap[K, T]) shrink() {
	if n := cap(h.nodes); n > shrinkFrom && len(h.nodes) < n/4 {
		h.nodes = append(make([]node[K, T], 0, n/2), h.nodes...)
	}
}

func (h *heap[K, T]) rise(i int, n node[K, T]) {
	for i > 0 {
		up := (i - 1) / children
		if !n.before(&h.nodes[up]) {
			break
		}
		h.put(i, h.nodes[up])
		i = up
	}
	h.put(i, n)
}

func (h *heap[K, T]) sink(i int, n node[K, T]) {
	for {
		least := children*i + 1
		if least >= len(h.nodes) {
			break
		}
		for c := least + 1; c < min(children*i+1+children, len(h.nodes)); c++ {
			if h.nodes[c].before(&h.nodes[least]) {
				least = c
			}
		}
		if !h.nodes[least].before(&n) {
			break
		}
		h.put(i, h.nodes[least])
		i = least
	}
	h.put(i, n)
}

func (h *heap[K, T]) put(i int, n node[K, T]) {
	h.nodes[i] = n
	*h.at(n.member) = i
}

// grown remembers how large a map became. Maps keep the room they once had, so that one which is empty after a burst is made anew.
type grown int

// entered notes n members.
func (g *grown) entered(n int) { *g = max(*g, grown(n)) }

// emptied says, once, that a map with n members has room to give back.
func (g *grown) emptied(n int) bool {
	if n > 0 || *g <= shrinkFrom {
		return false
	}
	*g = 0
	return true
}
