package prefix

import (
	"math/rand/v2"
	"testing"
)

func TestTheTableMatchesAMapOfSets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	var x table
	x.widen(1)
	want := map[Key]map[uint16]bool{}
	keys := make([]Key, 3000)
	for i := range keys {
		keys[i] = Key(r.Uint64() | 1)
		if i%3 == 0 {
			keys[i] = Key(i + 1) // no hash either
		}
	}
	lanes := 1
	for op := range 400_000 {
		if op%10_000 == 0 && lanes < SlotsMax {
			lanes = min(SlotsMax, lanes*2)
			x.widen(lanes)
		}
		key, lane := keys[r.IntN(len(keys))], uint16(r.IntN(lanes))
		if r.IntN(2) == 0 {
			lane %= 7
		}
		if op/50_000%2 == r.IntN(8)/7 { // fills for a while, then empties
			if h := x.hold(key, lane, int32(lane)); h.held != want[key][lane] || h.alone && len(want[key]) > 1 {
				t.Fatalf("operation %d: hold said %+v", op, h)
			}
			if want[key] == nil {
				want[key] = map[uint16]bool{}
			}
			want[key][lane] = true
		} else {
			asked := x.ask(key, lane)
			if h := x.drop(key, lane); h.held != want[key][lane] || h.alone && (h.ref != int32(lane) || len(want[key]) > 1) || h.held && h != asked {
				t.Fatalf("operation %d: drop said %+v, ask before it %+v", op, h, asked)
			}
			delete(want[key], lane)
			if len(want[key]) == 0 {
				delete(want, key)
			}
		}
		if x.blocks != len(want) {
			t.Fatalf("operation %d: %d blocks, want %d", op, x.blocks, len(want))
		}
	}
	var set laneSet
	for _, key := range keys {
		x.holders(key, &set)
		for lane := range uint16(SlotsMax) {
			if got := set[lane>>6]>>(lane&63)&1 == 1; got != want[key][lane] {
				t.Fatalf("block %x held by lane %d: %v, want %v", key, lane, got, want[key][lane])
			}
		}
	}
	for key, lanes := range want {
		for lane := range lanes {
			x.drop(key, lane)
		}
	}
	if x.blocks != 0 || len(x.spare)*x.stride != len(x.wide) {
		t.Errorf("empty, yet %d blocks, and %d of %d wide sets spare", x.blocks, len(x.spare), len(x.wide)/x.stride)
	}
}
