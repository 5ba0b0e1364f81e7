package flow

// heap is a binary heap whose members know where they are, so that any of them can leave. container/heap was rejected: it allocates for
// each member that is no pointer, and calls through an interface.
type heap[T any] struct {
	members []T
	before  func(a, b T) bool
	at      func(T) *int // where the member notes its place; -1 when it is in no heap
}

func (h *heap[T]) len() int { return len(h.members) }

func (h *heap[T]) add(m T) {
	h.members = append(h.members, m)
	h.rise(len(h.members) - 1)
}

// remove takes out a member that is in.
func (h *heap[T]) remove(m T) {
	i, last := *h.at(m), len(h.members)-1
	moved := h.members[last]
	var none T
	h.members[last] = none
	h.members = h.members[:last]
	*h.at(m) = -1
	if i != last {
		h.members[i] = moved
		*h.at(moved) = i
		h.fix(moved)
	}
	h.shrink()
}

// fix restores the order after a member's rank has changed.
func (h *heap[T]) fix(m T) {
	i := *h.at(m)
	if h.rise(i) == i {
		h.sink(i)
	}
}

// shrinkFrom is the room below which a heap keeps what it has.
const shrinkFrom = 64

// shrink gives back what a burst has left behind.
func (h *heap[T]) shrink() {
	if n := cap(h.members); n > shrinkFrom && len(h.members) < n/4 {
		h.members = append(make([]T, 0, n/2), h.members...)
	}
}

func (h *heap[T]) rise(i int) int {
	m := h.members[i]
	for i > 0 {
		up := (i - 1) / 2
		if !h.before(m, h.members[up]) {
			break
		}
		h.put(i, h.members[up])
		i = up
	}
	h.put(i, m)
	return i
}

func (h *heap[T]) sink(i int) {
	m := h.members[i]
	for {
		down := 2*i + 1
		if down >= len(h.members) {
			break
		}
		if down+1 < len(h.members) && h.before(h.members[down+1], h.members[down]) {
			down++
		}
		if !h.before(h.members[down], m) {
			break
		}
		h.put(i, h.members[down])
		i = down
	}
	h.put(i, m)
}

func (h *heap[T]) put(i int, m T) {
	h.members[i] = m
	*h.at(m) = i
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
