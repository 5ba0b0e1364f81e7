// Package evict is caches that hold so many blocks and differ in what they put out for others: least recently used, and what is needed last.
//
//	c := evict.NewLRU(blocks, most)     // blocks have numbers below blocks
//	hit := c.Holds(7)
//	c.Use(7, access)
package evict

import "container/heap"

// Cache is one of them. Its calls do not allocate but for what is due, and are not synchronised.
type Cache interface {
	Holds(block int32) bool
	// Use notes that a block is in use at this access, the number of which only grows, and puts out others while there are too many.
	Use(block int32, access int)
}

// lru puts out what was used least recently: a list through newer and older, of which 0 is the sentinel and block n is n+1.
type lru struct {
	newer, older []int32
	in           []bool
	count, most  int
}

// NewLRU puts out what was used least recently.
func NewLRU(blocks, most int) Cache {
	return &lru{newer: make([]int32, blocks+1), older: make([]int32, blocks+1), in: make([]bool, blocks+1), most: most}
}

func (l *lru) Holds(block int32) bool { return l.in[block+1] }

func (l *lru) Use(block int32, _ int) {
	i := block + 1
	if l.in[i] {
		l.unlink(i)
	} else {
		l.in[i] = true
		l.count++
	}
	first := l.older[0]
	l.older[0], l.newer[first] = i, i
	l.older[i], l.newer[i] = first, 0
	for l.count > l.most {
		last := l.newer[0]
		l.unlink(last)
		l.in[last] = false
		l.count--
	}
}

func (l *lru) unlink(i int32) {
	l.older[l.newer[i]], l.newer[l.older[i]] = l.older[i], l.newer[i]
}

// belady puts out what is needed last. A chain's tail is never needed before its head.
type belady struct {
	next        []int // by access: when the same block is used again
	due         []int // by block: when it is used next, -1 when it is out
	count, most int
	latest      dueHeap
}

const never = 1<<63 - 1

// NewBelady puts out what is needed last (Belady 1966), order being the blocks in the order in which they will be used.
func NewBelady(order []int32, blocks, most int) Cache {
	b := &belady{next: make([]int, len(order)), due: make([]int, blocks), most: most}
	for i := range b.due {
		b.due[i] = never
	}
	for i := len(order) - 1; i >= 0; i-- {
		b.next[i] = b.due[order[i]]
		b.due[order[i]] = i
	}
	for i := range b.due {
		b.due[i] = -1
	}
	return b
}

func (b *belady) Holds(block int32) bool { return b.due[block] >= 0 }

func (b *belady) Use(block int32, access int) {
	if b.due[block] < 0 {
		b.count++
	}
	b.due[block] = b.next[access]
	heap.Push(&b.latest, due{b.next[access], block})
	for b.count > b.most {
		out := heap.Pop(&b.latest).(due)
		if b.due[out.block] == out.at { // else it was used since
			b.due[out.block] = -1
			b.count--
		}
	}
}

type due struct {
	at    int
	block int32
}

// dueHeap has on top what is needed last.
type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at > h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
