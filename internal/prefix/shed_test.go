package prefix

import (
	"fmt"
	"testing"
)

func TestWhatIsShedIsTheOlderHalfAndItsMemoryComesBack(t *testing.T) {
	x := New(Options{CapacityDefault: 1 << 40})
	chain := func(i int) Chain { return chainOf(fmt.Sprint("chain ", i), "and", "its", "four blocks") }
	for i := range 10_000 {
		x.Enter(i%2, chain(i), int64(i)<<20)
	}
	before := x.Stats()
	freed := x.Shed()
	after := x.Stats()
	if after.Pairs != before.Pairs/2 || after.Evictions != (Evictions{Shed: uint64(before.Pairs / 2)}) {
		t.Errorf("%d of %d pairs left, evictions %+v; want half, all of them shed", after.Pairs, before.Pairs, after.Evictions)
	}
	if freed != before.Bytes-after.Bytes || after.Bytes > before.Bytes*6/10 {
		t.Errorf("%d bytes of %d left, %d freed", after.Bytes, before.Bytes, freed)
	}
	if depth := x.Match(chain(0), nil); depth[0] != 0 {
		t.Errorf("the oldest chain is still matched, %d blocks", depth[0])
	}
	if depth := x.Match(chain(9_999), nil); depth[1] != 4 {
		t.Errorf("the newest chain matches %d of its 4 blocks", depth[1])
	}
	for i := range 10_000 {
		x.Enter(i%2, chain(20_000+i), int64(20_000+i)<<20)
	}
	if now := x.Stats(); now.Pairs > after.Pairs {
		t.Errorf("%d pairs are held, more than the %d that were left", now.Pairs, after.Pairs)
	}
	x.Restore()
	for i := range 10_000 {
		x.Enter(i%2, chain(40_000+i), int64(40_000+i)<<20)
	}
	if now := x.Stats(); now.Pairs <= after.Pairs {
		t.Errorf("%d pairs are held after Restore", now.Pairs)
	}
	check(t, x)
}

func TestAnIndexThatHoldsLittleShedsNothing(t *testing.T) {
	x := New(Options{})
	x.Enter(0, chainOf("a", "b"), 1)
	if freed := x.Shed(); freed != 0 {
		t.Errorf("%d bytes freed", freed)
	}
	if depth := x.Match(chainOf("a", "b"), nil); depth[0] != 2 {
		t.Errorf("%d blocks are held, want 2", depth[0])
	}
}
