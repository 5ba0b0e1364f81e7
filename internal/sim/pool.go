package sim

import "container/heap"

// pool is one cache of the size of the fleet's together.
type pool interface {
	holds(block int32) bool
	// use notes that a block is in use at this access, the number of which only grows, and puts out others while there are too many.
	use(block int32, access int)
}

// pooled is the hit rate of one cache, requests in order. A request's blocks are used the last first, so that its head is newer than its
// tail.
func (s *study) pooled(p pool) float64 {
	block := s.config.Trace.BlockTokens
	hits, prompts, access := 0, 0, 0
	for i := range s.all {
		a := &s.all[i]
		blocks := s.blocks[a.from:a.to]
		n := 0
		for n < len(blocks) && n < (a.prompt-1)/block && p.holds(blocks[n]) {
			n++
		}
		for j := len(blocks) - 1; j >= 0; j-- {
			p.use(blocks[j], access)
			access++
		}
		hits += n * block
		prompts += a.prompt
	}
	return float64(hits) / float64(prompts)
}

// inOrder is the blocks in the order in which pooled uses them.
func (s *study) inOrder() []int32 {
	order := make([]int32, 0, len(s.blocks))
	for i := range s.all {
		a := &s.all[i]
		for j := a.to - 1; j >= a.from; j-- {
			order = append(order, s.blocks[j])
		}
	}
	return order
}

// lru puts out what was used least recently: a list through newer and older, of which 0 is the sentinel and block n is n+1.
type lru struct {
	newer, older []int32
	in           []bool
	count, most  int
}

func newLRU(blocks, most int) *lru {
	return &lru{newer: make([]int32, blocks+1), older: make([]int32, blocks+1), in: make([]bool, blocks+1), most: most}
}

func (l *lru) holds(block int32) bool { return l.in[block+1] }

func (l *lru) use(block int32, _ int) {
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

func newBelady(order []int32, blocks, most int) *belady {
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

func (b *belady) holds(block int32) bool { return b.due[block] >= 0 }

func (b *belady) use(block int32, access int) {
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
