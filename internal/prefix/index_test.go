package prefix

import (
	"fmt"
	"math/bits"
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

// checkChildren fails when a member is the parent of more or fewer than it counts. Keys that stand in two places may leave it wrong.
func checkChildren(t *testing.T, x *Index) {
	t.Helper()
	children := map[int32]int{}
	for n := range x.lanes {
		for i := x.lanes[n].newest; i != 0; i = x.members.at(i).older {
			children[x.members.at(i).parent]++
		}
	}
	for n := range x.lanes {
		for i := x.lanes[n].newest; i != 0; i = x.members.at(i).older {
			if counted := int(*x.members.childrenOf(i)); counted != children[i] {
				t.Fatalf("lane %d: member %d counts %d children and has %d", n, i, counted, children[i])
			}
		}
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
	if e := s.Evictions; e.Bound == 0 || e.All() != e.Bound || s.Bytes < bound/2 {
		t.Errorf("%+v: want evictions for the bound alone, and the room used", s)
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

func TestLookupsAndKnownPromptsCostNoMemory(t *testing.T) {
	x := New(Options{})
	c := chainOf(words(0, 500)...)
	var depth []int32
	for slot := range 9 {
		x.Enter(slot, c, 0)
	}
	depth = x.Match(c, depth)
	if n := testing.AllocsPerRun(100, func() {
		x.Enter(3, c, 1)
		depth = x.Match(c, depth[:0])
	}); n > 0 || len(depth) != SlotsMax || depth[8] != 500 {
		t.Errorf("%v allocations; %d slots, %d blocks in slot 8", n, len(depth), depth[8])
	}
}

func TestALongPromptEnteredInStepsIsThereLikeOneEnteredAtOnce(t *testing.T) {
	for _, c := range []struct{ blocks, step, capacity int }{{1, 4, 100}, {4, 4, 100}, {100, 7, 1000}, {100, 7, 50}} {
		steps, once := New(Options{}), New(Options{})
		long := chainOf(words(1000, c.blocks)...)
		for _, x := range []*Index{steps, once} {
			x.SetCapacity(0, int64(c.capacity*16))
			x.Enter(0, chainOf(words(0, 20)...), 1)
		}
		once.Enter(0, long, 2)
		calls := 1
		for at := steps.EnterHead(0, long, 2, c.step); at < c.blocks; calls++ {
			if got := steps.Match(long, nil)[0]; int(got) != at {
				t.Fatalf("%+v: %d blocks are there after %d were entered", c, got, at)
			}
			at = steps.Extend(0, long, 2, at, c.step)
		}
		if got, want := steps.Match(long, nil)[0], once.Match(long, nil)[0]; got != want || got == 0 {
			t.Errorf("%+v: %d blocks, want %d", c, got, want)
		}
		if got, want := steps.Stats(), once.Stats(); got.Blocks != want.Blocks {
			t.Errorf("%+v: %d blocks in all, want %d", c, got.Blocks, want.Blocks)
		}
		check(t, steps)
	}
}

func TestWhatWasForgottenMeanwhileIsNotExtended(t *testing.T) {
	x, long := New(Options{}), chainOf(words(0, 40)...)
	at := x.EnterHead(0, long, 1, 10)
	x.Forget(0)
	if got := x.Extend(0, long, 2, at, 10); got != 40 || x.Match(long, nil)[0] != 0 {
		t.Errorf("extended to %d, %d blocks match", got, x.Match(long, nil)[0])
	}
}
