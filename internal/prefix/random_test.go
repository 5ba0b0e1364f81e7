package prefix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

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
		if op%4_001 == 4_000 {
			x.shed()
			x.Restore()
			for _, s := range v.slots {
				s.blocks = s.blocks[:(len(s.blocks)+1)/2]
			}
		}
		depth = x.Match(c, depth)
		for _, s := range []int{slot, slotOf()} {
			if want := v.match(c, s); depth[s] != want {
				t.Fatalf("operation %d: slot %d holds %d of %d blocks, want %d", op, s, depth[s], len(c.Keys), want)
			}
		}
		if op%2000 == 0 {
			check(t, x)
			checkChildren(t, x)
		}
	}
	check(t, x)
	checkChildren(t, x)
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
