package kvindex

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/prefix"
)

// keys of a chain of n blocks, and names that an engine might give them.
func chain(n int, salt uint64) (keys []prefix.Key, names []uint64) {
	for i := range n {
		keys = append(keys, prefix.Key(mix(uint64(i), salt)|1))
		names = append(names, mix(uint64(i), salt^99))
	}
	return keys, names
}

func open(x *Index, slot int) Handle {
	h := x.Open(slot)
	x.Complete(h, true)
	return h
}

// depths of the first so many slots.
func depths(x *Index, keys []prefix.Key, slots int) string {
	var depth, fast []int32
	m := x.Match(keys, Match{})
	for slot := range slots {
		d, f := m.Of(slot)
		depth, fast = append(depth, d), append(fast, f)
	}
	return fmt.Sprintf("%v%v", depth, fast)
}

func wantDepths(t *testing.T, x *Index, keys []prefix.Key, want string) {
	t.Helper()
	slots := 1
	for _, c := range want[:slices.Index([]byte(want), ']')] {
		if c == ' ' {
			slots++
		}
	}
	if got := depths(x, keys, slots); got != want {
		t.Fatalf("depth and fast are %s, want %s", got, want)
	}
}

func TestOnlyWhatWasToldCompletelyMatches(t *testing.T) {
	x := New(Options{})
	keys, names := chain(5, 1)
	h := x.Open(1)
	x.Store(h, 0, keys, names, GPU)
	wantDepths(t, x, keys, "[-1 -1][0 0]")
	x.Complete(h, true)
	wantDepths(t, x, keys, "[-1 5][0 5]")
	x.Complete(h, false)
	wantDepths(t, x, keys, "[-1 -1][0 0]")
}

func TestKVE08ABlockStoredTwiceIsThereUntilItIsRemovedTwice(t *testing.T) {
	x := New(Options{})
	keys, names := chain(2, 1)
	h := open(x, 0)
	x.Store(h, 0, keys, names, GPU)
	x.Store(h, keys[0], keys[1:], names[1:], GPU)
	x.Remove(h, names[1:], nil, GPU)
	wantDepths(t, x, keys, "[2][2]")
	x.Remove(h, names[1:], nil, GPU)
	wantDepths(t, x, keys, "[1][1]")
	if known := x.Remove(h, []uint64{12345, names[1]}, nil, GPU); known != 0 {
		t.Errorf("%d removals of unknown blocks were known", known)
	}
	x.Store(h, keys[0], keys[1:], names[1:], GPU)
	wantDepths(t, x, keys, "[2][2]")
}

func TestAReportOfWhatIsThereIsNoCopyAndTheEnginesOwnCountIsBelieved(t *testing.T) {
	x := New(Options{})
	keys, names := chain(2, 1)
	h := open(x, 0)
	x.Store(h, 0, keys, names, GPU)
	x.Confirm(h, 0, keys, names, GPU)
	x.Remove(h, names[1:], nil, GPU)
	wantDepths(t, x, keys, "[1][1]")
	x.Store(h, keys[0], keys[1:], names[1:], GPU)
	x.Store(h, keys[0], keys[1:], names[1:], GPU)
	x.Store(h, keys[0], keys[1:], names[1:], GPU)
	x.Remove(h, names[1:], []int{1}, GPU)
	wantDepths(t, x, keys, "[2][2]")
	x.Remove(h, names[1:], nil, GPU)
	wantDepths(t, x, keys, "[1][1]")
}

func TestKVE07TiersAreKeptApart(t *testing.T) {
	x := New(Options{})
	keys, names := chain(4, 1)
	slow, both := open(x, 0), open(x, 1)
	x.Store(slow, 0, keys, names, CPU)
	x.Store(both, 0, keys, names, GPU)
	x.Store(both, 0, keys, names, CPU)
	wantDepths(t, x, keys, "[4 4][0 4]")
	x.Remove(both, names[2:], nil, GPU)
	wantDepths(t, x, keys, "[4 4][0 2]")
	x.Remove(both, names[:2], nil, GPU)
	wantDepths(t, x, keys, "[4 4][0 0]")
	x.Store(both, 0, keys, names, GPU)
	x.Remove(both, names, nil, CPU)
	x.Remove(both, names, nil, CPU)
	wantDepths(t, x, keys, "[4 4][0 4]")
}

func TestAHoleCutsTheMatchWhereverItIs(t *testing.T) {
	const blocks = 200
	for hole := range blocks {
		x := New(Options{})
		keys, names := chain(blocks, 1)
		a, b := open(x, 0), open(x, 1)
		x.Store(a, 0, keys, names, GPU)
		x.Store(b, 0, keys, names, GPU)
		x.Remove(a, names[hole/2:hole+1], nil, GPU)
		wantDepths(t, x, keys, fmt.Sprintf("[%d %d][%d %d]", hole/2, blocks, hole/2, blocks))
		before := prefix.Key(0)
		if hole/2 > 0 {
			before = keys[hole/2-1]
		}
		x.Store(a, before, keys[hole/2:hole+1], names[hole/2:hole+1], GPU)
		wantDepths(t, x, keys, fmt.Sprintf("[%d %d][%d %d]", blocks, blocks, blocks, blocks))
		if holes := x.Stats().PerSlot[0].Holes; holes != 0 {
			t.Fatalf("%d holes are left after they were filled", holes)
		}
		x.verify(t)
	}
}

func TestABlockWhoseFrontIsNotThereCountsOnceItIs(t *testing.T) {
	x := New(Options{})
	keys, names := chain(6, 1)
	h := open(x, 0)
	x.Store(h, keys[2], keys[3:], names[3:], GPU)
	wantDepths(t, x, keys, "[0][0]")
	x.Store(h, 0, keys[:3], names[:3], GPU)
	wantDepths(t, x, keys, "[6][6]")
	x.verify(t)
}

func TestKVE09IDX03AWorkerThatIsGoneTakesAllWithItAndHoldsUpNobody(t *testing.T) {
	x := New(Options{})
	handles := []Handle{open(x, 0), open(x, 1)}
	for c := range uint64(300) {
		keys, names := chain(50, c)
		for _, h := range handles {
			x.Store(h, 0, keys, names, GPU)
		}
	}
	x.Close(handles[0])
	late, names := chain(3, 5000)
	if news := x.Store(handles[0], 0, late, names, GPU); news != 0 {
		t.Errorf("a closed handle stored %d blocks", news)
	}
	successor := open(x, 0)
	keys, names := chain(50, 7)
	wantDepths(t, x, keys, "[0 50][0 50]")
	x.Store(successor, 0, keys[:2], names[:2], GPU)
	x.Remove(handles[0], names, nil, GPU)
	wantDepths(t, x, keys, "[2 50][2 50]")
	for x.Sweep(64) {
	}
	x.verify(t)
	if s := x.Stats(); s.Pairs != 300*50+2 || s.Dying != 0 {
		t.Errorf("%d pairs are left, %d holdings dying", s.Pairs, s.Dying)
	}
}

func TestKVE09AnUnknownBlockAmongThoseRemovedStopsNothing(t *testing.T) {
	x := New(Options{})
	keys, names := chain(50, 1)
	h := open(x, 0)
	x.Store(h, 0, keys, names, GPU)
	if known := x.Remove(h, slices.Insert(slices.Clone(names), 10, 4711), nil, GPU); known != 50 {
		t.Errorf("%d of 50 were removed", known)
	}
	if s := x.Stats(); s.Pairs != 0 || s.Unknown != 1 {
		t.Errorf("%d pairs are left, %d removals unknown", s.Pairs, s.Unknown)
	}
}

func TestIDX01MemoryStaysUnderItsBoundAndTheUsedStays(t *testing.T) {
	x := New(Options{BytesMax: 8 << 20})
	hot, hotNames := chain(40, 424242)
	handles := []Handle{open(x, 0), open(x, 1), open(x, 2)}
	x.Store(handles[1], 0, hot, hotNames, GPU)
	for c := range uint64(20_000) {
		keys, names := chain(40, c)
		x.Store(handles[c%3], 0, keys, names, GPU)
		if c%50 == 0 {
			x.Match(hot, Match{})
			if s := x.Stats(); s.Bytes > s.BytesMax {
				t.Fatalf("%d bytes after %d chains, more than %d", s.Bytes, c, s.BytesMax)
			}
		}
	}
	if x.Stats().Evicted == 0 {
		t.Error("nothing was evicted")
	}
	wantDepths(t, x, hot, "[0 40 0][0 40 0]")
	x.verify(t)
}

func TestAnIndexThatIsHeldGrowsNoFurtherUntilItIsLetGo(t *testing.T) {
	x := New(Options{})
	h := open(x, 0)
	store := func(from, to int) {
		for i := from; i < to; i++ {
			keys, names := chain(10, uint64(1000+i))
			x.Store(h, 0, keys, names, GPU)
		}
	}
	store(0, 1000)
	x.Hold(true)
	before := x.Stats()
	store(1000, 3000)
	if now := x.Stats(); now.Pairs > before.Pairs+100 || now.Bytes > before.Bytes+before.Bytes/10 || now.Evicted == 0 {
		t.Errorf("held at %d pairs and %d bytes, it grew to %d and %d", before.Pairs, before.Bytes, now.Pairs, now.Bytes)
	}
	x.Hold(false)
	store(3000, 5000)
	if now := x.Stats(); now.Pairs < before.Pairs+15_000 {
		t.Errorf("let go, it holds %d pairs", now.Pairs)
	}
}

func TestReadersAndWritersShareTheIndex(t *testing.T) {
	x := New(Options{BytesMax: 4 << 20})
	var all sync.WaitGroup
	for slot := range 4 {
		h := open(x, slot)
		all.Go(func() {
			for c := range uint64(400) {
				keys, names := chain(30, c%37)
				x.Store(h, 0, keys, names, GPU)
				x.Remove(h, names[15:], nil, GPU)
				if c%100 == 99 {
					h = x.Clear(h)
					x.Complete(h, true)
				}
			}
		})
	}
	all.Go(func() {
		m := Match{}
		for c := range uint64(2000) {
			keys, names := chain(30, c%37)
			m = x.Match(keys, m)
			x.Resolve(Handle{}, names[0])
			if slices.Max(m.Depth) > 30 {
				t.Error("more than there is")
			}
		}
	})
	all.Wait()
	x.verify(t)
}

func TestIDX02WorkersThatComeAndGoLeaveMemoryAsItWas(t *testing.T) {
	x := New(Options{})
	stays := open(x, 0)
	keys, names := chain(100, 1)
	x.Store(stays, 0, keys, names, GPU)
	var early Stats
	for cycle := range uint64(500) {
		h := open(x, 1+int(cycle%7))
		for c := range uint64(20) {
			keys, names := chain(100, 1000*cycle+c+2)
			x.Store(h, 0, keys, names, GPU)
			x.Remove(h, names[40:41], nil, GPU) // a hole
		}
		x.Close(h)
		if cycle == 50 {
			early = x.Stats()
		}
	}
	for x.Sweep(1 << 20) {
	}
	late := x.Stats()
	if late.Bytes > early.Bytes*11/10 || late.Pairs != 100 || late.Nodes != 100 || len(late.PerSlot) != 1 {
		t.Errorf("after 50 cycles %d bytes, after 500 %+v", early.Bytes, late)
	}
	wantDepths(t, x, keys, "[100][100]")
	x.verify(t)
}
