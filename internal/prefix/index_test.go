package prefix

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

var testSeed = NewSeed([]byte("index tests"))

// chainOf is the chain of a path of words, each a block of as many bytes.
func chainOf(words ...string) Chain {
	var c Chain
	key := testSeed.Root()
	for _, w := range words {
		key = testSeed.Next(key, []byte(w))
		c.Keys = append(c.Keys, key)
		c.Ends = append(c.Ends, int32(c.Bytes()+len(w)))
	}
	return c
}

func words(first, n int) []string {
	var s []string
	for i := range n {
		s = append(s, fmt.Sprintf("block %010d", first+i))
	}
	return s
}

func wantDepth(t *testing.T, x *Index, c Chain, slot int, want int32) {
	t.Helper()
	if got := x.Match(c, nil)[slot]; got != want {
		t.Errorf("slot %d holds %d leading blocks, want %d", slot, got, want)
	}
	check(t, x)
}

// check verifies everything that must always be true inside.
func check(t *testing.T, x *Index) {
	t.Helper()
	pairs := 0
	for n := range x.lanes {
		l := &x.lanes[n]
		seen := map[int32]bool{}
		var newer int32
		bytes, count := int64(0), 0
		for i := l.newest; i != 0; i = x.members.at(i).older {
			e := x.members.at(i)
			if e.newer != newer || int(e.lane) != n || x.find(e.key, e.lane) != i {
				t.Fatalf("lane %d: member %d is broken: %+v", n, i, *e)
			}
			var holders laneSet
			x.table.holders(e.key, &holders)
			if holders[n>>6]>>(n&63)&1 == 0 {
				t.Fatalf("lane %d: member %d is not in the table", n, i)
			}
			seen[i] = true
			newer = i
			bytes += int64(e.size)
			count++
		}
		if l.oldest != newer || l.pairs != count || l.bytes != bytes || bytes > l.capacity {
			t.Fatalf("lane %d says %+v; found %d members, %d bytes, oldest %d", n, *l, count, bytes, newer)
		}
		pairs += count
	}
	if pairs != x.members.count || pairs != holdings(&x.table) {
		t.Fatalf("%d pairs listed, %d counted, %d in the table", pairs, x.members.count, holdings(&x.table))
	}
	if s := x.Stats(); s.Bytes > s.BytesMax {
		t.Fatalf("%d bytes held, %d allowed", s.Bytes, s.BytesMax)
	}
}

func holdings(table *table) int {
	count := 0
	var set laneSet
	for i := range table.shards {
		for _, line := range table.shards[i].lines {
			for _, e := range line[:line.count()] {
				table.holders(e.key, &set)
				for _, word := range set[:table.stride] {
					count += bits.OnesCount64(word)
				}
			}
		}
	}
	return count
}

func TestAChainIsHeldWhereItWasEnteredAndNowhereElse(t *testing.T) {
	x := New(Options{})
	c := chainOf(words(0, 40)...)
	x.Enter(3, chainOf(words(0, 25)...), 0)
	x.Enter(700, c, 1)
	wantDepth(t, x, c, 3, 25)
	wantDepth(t, x, c, 700, 40)
	wantDepth(t, x, c, 4, 0)
	wantDepth(t, x, chainOf("something else"), 3, 0)
	wantDepth(t, x, Chain{}, 3, 0)
}

func TestTheTailOfTheLeastRecentlyUsedChainLeavesFirst(t *testing.T) {
	x := New(Options{})
	x.SetCapacity(0, 16*30)
	a, b := chainOf(words(0, 20)...), chainOf(words(100, 10)...)
	x.Enter(0, a, 0)
	x.Enter(0, b, 1)
	wantDepth(t, x, a, 0, 20)
	x.Enter(0, chainOf(words(200, 5)...), 2)
	wantDepth(t, x, a, 0, 15)
	wantDepth(t, x, b, 0, 10)
	x.Enter(0, chainOf(words(0, 4)...), 3) // the head is used again, the rest stays old
	x.Enter(0, chainOf(words(300, 12)...), 4)
	wantDepth(t, x, a, 0, 4)
	wantDepth(t, x, b, 0, 9)
	x.SetCapacity(0, 16*12)
	wantDepth(t, x, a, 0, 0)
	wantDepth(t, x, chainOf(words(300, 12)...), 0, 12)
}

func TestOfAChainLongerThanTheCapacityTheHeadIsEntered(t *testing.T) {
	x := New(Options{CapacityDefault: 16*10 + 5})
	x.Enter(0, chainOf(words(50, 3)...), 0)
	x.Enter(0, chainOf(words(0, 40)...), 1)
	wantDepth(t, x, chainOf(words(0, 40)...), 0, 10)
	wantDepth(t, x, chainOf(words(50, 3)...), 0, 0)
}

func TestAWorkerThatSawAWholeEarlierPromptAlsoHoldsItsReply(t *testing.T) {
	x := New(Options{})
	x.Enter(0, chainOf("system", "question"), 0)
	x.Enter(1, chainOf("system"), 0)
	x.Enter(2, chainOf("system", "question", "first half"), 0)
	x.Enter(3, chainOf("system", "question", "first half", "second half", "next"), 0)
	c := chainOf("system", "question", "first half", "second half", "next", "reply", "last")
	c.Replies = []Range{{2, 4}, {5, 6}}
	depth := x.Match(c, nil)
	if got, want := depth[:5], []int32{4, 1, 3, 6, 0}; !slices.Equal(got, want) {
		t.Errorf("depths %v, want %v", got, want)
	}
}

func TestTrimForgetsOlderBranchesBehindTheReportedDepthAndKeepsTheRequestItself(t *testing.T) {
	x := New(Options{})
	path := func(head, tail int) Chain { return chainOf(append(words(0, head), words(tail, 5)...)...) }
	short, older, c, newer := path(10, 100), path(20, 200), path(30, 300), path(25, 400)
	for i, chain := range []Chain{short, older, c, newer} {
		x.Enter(0, chain, int64(i))
	}
	x.Enter(1, older, 4)
	x.Trim(0, c, 15)
	wantDepth(t, x, short, 0, 15)
	wantDepth(t, x, older, 0, 20) // what it shares with c was computed for c
	wantDepth(t, x, c, 0, 35)
	wantDepth(t, x, newer, 0, 30)
	wantDepth(t, x, older, 1, 25)
	x.Trim(0, c, 35)
	x.Trim(5, c, 0)
	x.Trim(-1, c, 0)
	wantDepth(t, x, c, 0, 35)
}

func TestAWithdrawnRequestTakesAllThatContinuesItAlong(t *testing.T) {
	x := New(Options{})
	path := func(head, tail int) Chain { return chainOf(append(words(0, head), words(tail, 5)...)...) }
	other, c, newer := path(10, 100), path(30, 300), path(25, 400)
	for i, chain := range []Chain{other, c, newer} {
		x.Enter(0, chain, int64(i))
	}
	x.Withdraw(0, c, 15)
	wantDepth(t, x, other, 0, 15)
	wantDepth(t, x, c, 0, 15)
	wantDepth(t, x, newer, 0, 15)
	if got := x.Stats().PerSlot[0]; got.Blocks != 20 || got.CachedBytes != 20*16 {
		t.Errorf("left %+v, want 20 blocks of 16 bytes", got)
	}
}

func TestAForgottenSlotIsEmptyAtOnceAndItsMemoryComesBack(t *testing.T) {
	x := New(Options{CapacityDefault: 1 << 30})
	c := chainOf(words(0, 5000)...)
	x.Enter(7, c, 0)
	x.Enter(8, c, 0)
	x.SetCapacity(7, 100)
	x.Enter(7, c, 0)
	x.Forget(7)
	wantDepth(t, x, c, 7, 0)
	wantDepth(t, x, c, 8, 5000)
	x.Enter(7, chainOf(words(0, 10)...), 1)
	wantDepth(t, x, c, 7, 10)
	x.Forget(8)
	x.Forget(8)
	for range 40 {
		x.Enter(7, chainOf(words(0, 10)...), 1)
	}
	if s := x.Stats(); s.Pairs != 10 || len(s.PerSlot) != 1 || s.PerSlot[0].CapacityBytes != 1<<30 {
		t.Errorf("left %+v, want 10 pairs in one slot of default capacity", s)
	}
	check(t, x)
}

func TestMemoryStaysFlatOverCyclesOfWorkersThatComeAndGo(t *testing.T) { // IDX-02
	x := New(Options{CapacityDefault: 1 << 30})
	var at50 int64
	for cycle := range 500 {
		slot := cycle * 7 % (SlotsMax - 1)
		c := chainOf(words(cycle*1000, 400)...)
		x.Enter(slot, c, int64(cycle))
		x.Enter(slot+1, c, int64(cycle))
		x.Forget(slot)
		x.Forget(slot + 1)
		if cycle == 50 {
			at50 = x.Stats().Bytes
		}
	}
	check(t, x)
	if got := x.Stats().Bytes; got > at50*11/10 {
		t.Errorf("%d bytes after 500 cycles, %d after 50", got, at50)
	}
}

func TestEverySlotCanBeInUseWhileOthersAreStillBeingForgotten(t *testing.T) {
	x := New(Options{CapacityDefault: 1 << 30})
	c := chainOf(words(0, 3)...)
	for round := range 3 {
		for slot := range SlotsMax {
			x.SetCapacity(slot, 0)
		}
		x.Enter(SlotsMax-1, c, int64(round))
		x.Enter(SlotsMax, c, int64(round))
		x.Enter(-1, c, int64(round))
		wantDepth(t, x, c, SlotsMax-1, 3)
		for slot := range SlotsMax {
			x.Forget(slot)
		}
	}
}

func TestTheBytesBoundHoldsAndTheOldestPromptsGiveWay(t *testing.T) { // IDX-01
	const bound = 1 << 20
	x := New(Options{BytesMax: bound, CapacityDefault: 1 << 40})
	for i := range 400 {
		x.Enter(i%5, chainOf(words(i*1000, 100)...), int64(i)<<21)
		if s := x.Stats(); s.Bytes > bound {
			t.Fatalf("%d bytes held after %d prompts, %d allowed", s.Bytes, i, bound)
		}
	}
	check(t, x)
	s := x.Stats()
	if s.Evictions == 0 || s.Bytes < bound/2 {
		t.Errorf("%+v: want evictions, and the room used", s)
	}
	for i := 350; i < 400; i++ {
		wantDepth(t, x, chainOf(words(i*1000, 100)...), i%5, 100)
	}
	wantDepth(t, x, chainOf(words(0, 100)...), 0, 0)

	long := chainOf(words(900000, 20000)...) // more than the whole index holds
	x.Enter(0, long, 400<<21)
	if got := x.Match(long, nil)[0]; got < 8000 || int(got) != x.Stats().Pairs {
		t.Errorf("of a prompt too long for the index %d blocks are held, of %d", got, x.Stats().Pairs)
	}
	check(t, x)
}

func TestAPromptThatIsUsedAgainIsSparedWhenMemoryIsShort(t *testing.T) {
	x := New(Options{BytesMax: 1 << 20, CapacityDefault: 1 << 40})
	again := []Chain{chainOf("one block"), chainOf(words(0, 30)...)}
	for i := range 400 {
		now := int64(i) << 21
		for slot, c := range again {
			if got := x.Match(c, nil)[slot]; i > 0 && int(got) != len(c.Keys) {
				t.Fatalf("prompt %d: %d of %d blocks left in slot %d", i, got, len(c.Keys), slot)
			}
			x.Enter(slot, c, now)
		}
		x.Enter(2+i%3, chainOf(words(i*1000, 100)...), now)
	}
	check(t, x)
}

// naive is the index as slow and plain as can be: per slot, blocks from the most to the least recently used.
type naive struct {
	fallback int64 // capacity of a slot that nobody set
	slots    map[int]*naiveSlot
}

type naiveSlot struct {
	capacity int64
	blocks   []naiveBlock
}

type naiveBlock struct {
	key, parent Key
	size        int64
}

func (v *naive) slot(i int) *naiveSlot {
	if v.slots[i] == nil {
		v.slots[i] = &naiveSlot{capacity: v.fallback}
	}
	return v.slots[i]
}

func (s *naiveSlot) index(key Key) int {
	return slices.IndexFunc(s.blocks, func(b naiveBlock) bool { return b.key == key })
}

func (s *naiveSlot) shrink() {
	total := int64(0)
	for i, b := range s.blocks {
		if total += b.size; total > s.capacity {
			s.blocks = s.blocks[:i]
			return
		}
	}
}

func (s *naiveSlot) enter(c Chain) {
	var front []naiveBlock
	var parent Key
	for i, key := range c.Keys[:fit(c, s.capacity)] {
		size := int64(c.Ends[i])
		if i > 0 {
			size -= int64(c.Ends[i-1])
		}
		front = append(front, naiveBlock{key, parent, size})
		if at := s.index(key); at >= 0 {
			s.blocks = slices.Delete(s.blocks, at, at+1)
		}
		parent = key
	}
	s.blocks = append(front, s.blocks...)
	s.shrink()
}

func (s *naiveSlot) correct(c Chain, depth int32, keep bool) {
	doomed := map[Key]bool{}
	own := map[Key]bool{}
	from := 0
	for _, key := range c.Keys[depth:] {
		if at := s.index(key); at >= 0 {
			doomed[key], own[key] = true, true
			if keep || len(own) == 1 {
				from = at
			}
		}
	}
	left := slices.Clone(s.blocks[:min(from, len(s.blocks))])
	for _, b := range s.blocks[len(left):] {
		if doomed[b.parent] && !own[b.key] {
			doomed[b.key] = true
		}
		if !doomed[b.key] || keep && own[b.key] {
			left = append(left, b)
		}
	}
	s.blocks = left
}

func (v *naive) match(c Chain, slot int) int32 {
	depth := int32(0)
	for depth < int32(len(c.Keys)) && v.slots[slot] != nil && v.slots[slot].index(c.Keys[depth]) >= 0 {
		depth++
	}
	for _, r := range c.Replies {
		if depth > 0 && r.First == depth {
			return r.Last
		}
	}
	return depth
}

// randomChain walks a random tree, so that chains share heads of every length.
func randomChain(r *rand.Rand, length int) Chain {
	var path []string
	for range r.IntN(length) {
		path = append(path, "block of some length"[:1+min(r.IntN(12), r.IntN(20))])
	}
	c := chainOf(path...)
	for at := int32(0); at < int32(len(path))-2; {
		first := at + 1 + r.Int32N(3)
		at = first + 1 + r.Int32N(3)
		if at <= int32(len(path)) && r.IntN(3) == 0 {
			c.Replies = append(c.Replies, Range{first, at})
		}
	}
	return c
}

func TestRandomOperationsMatchTheNaiveIndex(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	x := New(Options{CapacityDefault: 200})
	v := &naive{fallback: 200, slots: map[int]*naiveSlot{}}
	slotOf := func() int { return []int{0, 1, 2, 3, 64, 200, 511, 800}[r.IntN(8)] }
	var depth []int32
	for op := range 120_000 {
		slot := slotOf()
		c := randomChain(r, 24)
		switch k := r.IntN(100); {
		case k < 60:
			x.Enter(slot, c, int64(op)<<20)
			v.slot(slot).enter(c)
		case k < 75:
			if len(c.Keys) > 0 && v.slots[slot] != nil {
				at, keep := r.Int32N(int32(len(c.Keys))), r.IntN(2) == 0
				x.correct(slot, c, at, keep)
				v.slots[slot].correct(c, at, keep)
			}
		case k < 77:
			x.Forget(slot)
			delete(v.slots, slot)
		case k < 80:
			s := v.slot(slot)
			s.capacity = 1 + r.Int64N(500)
			x.SetCapacity(slot, s.capacity)
			s.shrink()
		}
		depth = x.Match(c, depth)
		for _, s := range []int{slot, slotOf()} {
			if want := v.match(c, s); depth[s] != want {
				t.Fatalf("operation %d: slot %d holds %d of %d blocks, want %d", op, s, depth[s], len(c.Keys), want)
			}
		}
		if op%2000 == 0 {
			check(t, x)
		}
	}
	check(t, x)
}

func TestGallopingAgreesWithWalkingForFiveHundredWorkers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	x := New(Options{CapacityDefault: 1 << 40})
	whole := chainOf(words(0, 700)...)
	want := make([]int32, SlotsMax)
	for slot := range 512 {
		want[slot] = r.Int32N(701) * r.Int32N(2)
		n := want[slot]
		x.Enter(slot, Chain{Keys: whole.Keys[:n], Ends: whole.Ends[:n]}, 0)
	}
	if got := x.Match(whole, nil); !slices.Equal(got, want) {
		t.Errorf("depths\n%v, want\n%v", got, want)
	}
	check(t, x)
}

// FuzzIndex runs operations from bytes, with keys that no hash would make: small, repeated, at several depths.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("0abc1abd0abcabc3abc4aab"))
	f.Add([]byte{16, 17, 0, 16, 17, 16, 17, 0})
	f.Add([]byte{16, 16, 0, 16, 16, 17, 0})
	f.Add([]byte{0, 1, 1, 2, 1, 2, 0xff, 0, 9, 3, 1, 2, 0xff, 5, 1, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		x := New(Options{CapacityDefault: 40})
		var c Chain
		for i, b := range data {
			if b >= 16 && b < 250 {
				c.Keys = append(c.Keys, Key(b%16+1))
				c.Ends = append(c.Ends, int32(c.Bytes()+int(b/16)))
				continue
			}
			slot := int(b / 2 % 4)
			switch b % 5 {
			case 0, 1:
				x.Enter(slot, c, int64(i))
				c = Chain{}
			case 2:
				x.correct(slot, c, int32(len(c.Keys)/2), b%2 == 0)
			case 3:
				x.SetCapacity(slot, int64(len(data)-i))
			case 4:
				x.Forget(slot)
			}
			check(t, x)
			x.Match(c, nil)
		}
	})
}
