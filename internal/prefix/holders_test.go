package prefix

import (
	"slices"
	"testing"
)

func TestHoldersAreThoseThatHoldTheBlock(t *testing.T) {
	x := New(Options{})
	c := Chain{Keys: []Key{11, 12, 13}, Ends: []int32{64, 128, 192}}
	if got := x.Holders(11, nil); len(got) > 0 {
		t.Errorf("an empty index has holders %v", got)
	}
	for _, slot := range []int{2, 70, 5} {
		x.Enter(slot, c, 1)
	}
	x.Enter(9, Chain{Keys: c.Keys[:1], Ends: c.Ends[:1]}, 2)
	x.Forget(70)
	for key, want := range map[Key][]int{11: {2, 5, 9}, 13: {2, 5}, 99: nil} {
		got := x.Holders(key, nil)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("block %d is held by %v, want %v", key, got, want)
		}
	}
}
