package prefix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// told are all records of an index, in pieces.
func told(x *Index, places int) (all []Record) {
	for from, first := 0, true; first || from > 0; first = false {
		all, from = x.Records(all, from, places)
	}
	return all
}

func TestAnIndexIsPutBackAsItWas(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	x := New(Options{})
	var chains []Chain
	for i := range 200 {
		c := Chain{}
		if i > 0 && rng.IntN(2) == 0 { // a conversation goes on, or branches off
			old := chains[rng.IntN(len(chains))]
			n := 1 + rng.IntN(len(old.Keys))
			c = Chain{Keys: slices.Clone(old.Keys[:n]), Ends: slices.Clone(old.Ends[:n])}
		}
		end := int32(0)
		if n := len(c.Ends); n > 0 {
			end = c.Ends[n-1]
		}
		for range 1 + rng.IntN(40) {
			end += 64
			c.Keys, c.Ends = append(c.Keys, Key(rng.Uint64()|1)), append(c.Ends, end)
		}
		chains = append(chains, c)
		x.Enter(rng.IntN(4), c, int64(i)<<21)
	}
	x.Forget(3)
	records := told(x, 100)
	rng.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	y := New(Options{})
	for slot := range 4 {
		var own []Record
		for _, r := range records {
			if r.Slot == slot {
				own = append(own, r)
			}
		}
		arranged := Arrange(own)
		if len(arranged) != len(own) {
			t.Errorf("seed %d: of %d records of worker %d %d are arranged", seed, len(own), slot, len(arranged))
		}
		for part := range slices.Chunk(arranged, 7) {
			if came := y.PutBack(slot, part); came != len(part) {
				t.Fatalf("seed %d: %d of %d came back", seed, came, len(part))
			}
		}
	}
	sx, sy := x.Stats(), y.Stats()
	for slot := range 3 {
		if sx.PerSlot[slot] != sy.PerSlot[slot] {
			t.Errorf("seed %d: worker %d had %+v, and has %+v", seed, slot, sx.PerSlot[slot], sy.PerSlot[slot])
		}
	}
	for _, c := range chains {
		for slot := range 4 {
			if a, b := depthOn(x, slot, c), depthOn(y, slot, c); a != b {
				t.Fatalf("seed %d: %d blocks of a chain were held by worker %d, and %d are", seed, a, slot, b)
			}
		}
	}
	check(t, y)
	evictsTails(t, seed, y, chains)
}

// evictsTails says that after an eviction no chain has a hole: tails still go before heads.
func evictsTails(t *testing.T, seed uint64, y *Index, chains []Chain) {
	for slot := range 3 {
		y.SetCapacity(slot, 64*50)
	}
	for _, c := range chains {
		for slot := range 3 {
			b := depthOn(y, slot, c)
			for i, k := range c.Keys {
				if held := y.find(k, y.slots[slot]-1) != 0; held != (i < int(b)) {
					t.Fatalf("seed %d: a chain has a hole at %d of %d after an eviction", seed, i, b)
				}
			}
		}
	}
}

// depthOn is how many leading blocks of a chain a worker holds.
func depthOn(x *Index, slot int, c Chain) (n int) {
	if x.slots[slot] == 0 {
		return 0
	}
	for n < len(c.Keys) && x.find(c.Keys[n], x.slots[slot]-1) != 0 {
		n++
	}
	return n
}

func TestRecordsThatMakeNoSenseAreLeftOut(t *testing.T) {
	for _, c := range []struct {
		what string
		in   []Record
		want int
	}{
		{"nothing", nil, 0},
		{"a block without its parent", []Record{{Key: 2, Parent: 1}}, 0},
		{"a block that is its own parent", []Record{{Key: 2, Parent: 2}}, 0},
		{"a ring", []Record{{Key: 2, Parent: 3}, {Key: 3, Parent: 2}, {Key: 4, Parent: 3}}, 0},
		{"the same block twice", []Record{{Key: 2}, {Key: 2}, {Key: 3, Parent: 2}}, 3},
		{"a chain from its end", []Record{{Key: 4, Parent: 3, Stamp: 9}, {Key: 3, Parent: 2, Stamp: 5}, {Key: 2, Stamp: 1}}, 3},
	} {
		if got := Arrange(c.in); len(got) != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	x := New(Options{CapacityDefault: 100})
	if came := x.PutBack(0, []Record{{Key: 1, Size: 60}, {Key: 2, Parent: 1, Size: 60}, {Key: 3, Parent: 2, Size: 10}, {Key: 1, Size: 10}}); came != 1 {
		t.Errorf("%d blocks came into a cache of 100 bytes", came)
	}
}
