package kvindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/prefix"
)

// told is the naive reference: what one worker told, name by name.
type told struct {
	blocks   map[uint64]*toldBlock
	complete bool
	handle   Handle
	salt     uint64
}

type toldBlock struct {
	key    prefix.Key
	copies [tierCount]int
}

// model drives an index and the reference with the same events.
type model struct {
	t     *testing.T
	r     *rand.Rand
	x     *Index
	slots []*told
	exact bool // nothing is evicted: matches must be equal, not only never too high
}

func keyOf(parent prefix.Key, branch int) prefix.Key {
	return prefix.Key(mix(uint64(parent), uint64(branch)+77) | 1)
}

// path is a random chain from the root: few branches at the top, so that workers share, more below.
func (m *model) path(most int) []prefix.Key {
	var keys []prefix.Key
	parent := prefix.Key(0)
	for i := range 1 + m.r.IntN(most) {
		parent = keyOf(parent, m.r.IntN(1+min(i, 2)))
		keys = append(keys, parent)
	}
	return keys
}

func (s *told) name(key prefix.Key) uint64 { return mix(uint64(key), s.salt) }

func (m *model) open(slot int) {
	m.slots[slot] = &told{blocks: map[uint64]*toldBlock{}, handle: m.x.Open(slot), salt: m.r.Uint64()}
	m.complete(slot, true)
}

func (m *model) complete(slot int, is bool) {
	m.slots[slot].complete = is
	m.x.Complete(m.slots[slot].handle, is)
}

func (m *model) store(s *told) {
	keys := m.path(24)
	from := m.r.IntN(len(keys))
	if m.r.IntN(3) == 0 {
		from = 0
	}
	parent := prefix.Key(0)
	if from > 0 {
		parent = keys[from-1]
	}
	var names []uint64
	tier := Tier(m.r.IntN(8) / 6) // mostly GPU
	confirm := m.r.IntN(10) == 0
	for _, key := range keys[from:] {
		name := s.name(key)
		names = append(names, name)
		b := s.blocks[name]
		if b == nil {
			b = &toldBlock{key: key}
			s.blocks[name] = b
		}
		if !confirm || b.copies[tier] == 0 {
			b.copies[tier] = min(b.copies[tier]+1, int(tier.most()))
		}
	}
	if confirm {
		m.x.Confirm(s.handle, parent, keys[from:], names, tier)
	} else {
		m.x.Store(s.handle, parent, keys[from:], names, tier)
	}
}

func (m *model) remove(s *told) {
	var all []uint64
	for name := range s.blocks {
		all = append(all, name)
	}
	slices.Sort(all)
	m.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	names := append(all[:min(len(all), 1+m.r.IntN(12))], m.r.Uint64())
	tier := Tier(m.r.IntN(8) / 6)
	var left []int
	for _, name := range names {
		b := s.blocks[name]
		remain := 0
		if b != nil && b.copies[tier] > 0 {
			b.copies[tier]--
			if m.r.IntN(4) == 0 {
				b.copies[tier] = 0
			}
			remain = b.copies[tier]
			if b.copies == [tierCount]int{} {
				delete(s.blocks, name)
			}
		}
		left = append(left, remain)
	}
	m.x.Remove(s.handle, names, left, tier)
}

// depth is what the worker holds of keys, by looking at every block; fast the leading ones of it in GPU memory.
func (s *told) depth(keys []prefix.Key) (depth, fast int32) {
	if !s.complete {
		return -1, 0
	}
	for _, key := range keys {
		b := s.blocks[s.name(key)]
		if b == nil {
			break
		}
		if b.copies[GPU] > 0 && fast == depth {
			fast++
		}
		depth++
	}
	return depth, fast
}

func (m *model) check() {
	m.t.Helper()
	keys := m.path(30)
	got, whole := m.x.Match(keys, Match{}), m.x.Holders(keys[len(keys)-1], nil)
	for slot, s := range m.slots {
		want, fast := s.depth(keys)
		all := int8(0)
		if want < 0 || int(want) == len(keys) {
			all = int8(min(want, 1))
		}
		if whole[slot] > all || m.exact && whole[slot] != all {
			m.t.Fatalf("slot %d holds %d of %d leading blocks, and of the last one with all before it the index says %d", slot, want, len(keys), whole[slot])
		}
		if got.Depth[slot] > want || m.exact && got.Depth[slot] != want {
			m.t.Fatalf("slot %d holds %d of %d leading blocks, the index says %d", slot, want, len(keys), got.Depth[slot])
		}
		lower := false
		for _, b := range s.blocks {
			lower = lower || b.copies[GPU] == 0
		}
		if m.exact && !lower && got.Fast[slot] != max(0, want) {
			m.t.Fatalf("slot %d holds %d blocks in GPU memory, the index says %d", slot, fast, got.Fast[slot])
		}
	}
}

func (m *model) step() {
	s := m.slots[m.r.IntN(len(m.slots))]
	switch n := m.r.IntN(1000); {
	case n < 2:
		m.open(slices.Index(m.slots, s))
	case n < 4:
		s.handle, s.blocks = m.x.Clear(s.handle), map[uint64]*toldBlock{}
		m.x.Complete(s.handle, s.complete)
	case n < 8:
		m.complete(slices.Index(m.slots, s), m.r.IntN(4) != 0)
	case n < 500:
		m.store(s)
	case n < 990:
		m.remove(s)
	default:
		m.x.Sweep(50)
	}
}

func TestRandomEventStreamsGiveWhatANaiveIndexGives(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			m := &model{t: t, r: rand.New(rand.NewPCG(seed, 1)), x: New(Options{}), slots: make([]*told, 2+seed*9), exact: true}
			for i := range m.slots {
				m.open(i)
			}
			for i := range 1500 {
				m.step()
				m.check()
				if i%500 == 0 {
					m.x.verify(t)
				}
			}
			m.x.verify(t)
			m.drain()
		})
	}
}

// drain closes everything: nothing may be left.
func (m *model) drain() {
	m.t.Helper()
	for _, s := range m.slots {
		m.x.Close(s.handle)
	}
	for m.x.Sweep(1000) {
	}
	m.x.verify(m.t)
	if s := m.x.Stats(); s.Pairs != 0 || s.Nodes != 0 || m.x.cost != 0 {
		m.t.Fatalf("after closing all: %d pairs, %d nodes, cost %d", s.Pairs, s.Nodes, m.x.cost)
	}
}

func TestUnderTheBoundOfMemoryNothingIsEverPromisedThatIsNotThere(t *testing.T) {
	for seed := range uint64(3) {
		m := &model{t: t, r: rand.New(rand.NewPCG(seed, 2)), x: New(Options{}), slots: make([]*told, 12)}
		m.x.costMax = 60_000 + m.x.lists.bytes
		m.x.tick = 20
		for i := range m.slots {
			m.open(i)
		}
		for range 4000 {
			m.step()
			m.check()
			if m.x.cost > m.x.costMax {
				t.Fatalf("cost %d over the bound %d", m.x.cost, m.x.costMax)
			}
		}
		m.x.verify(t)
		if m.x.Stats().Evicted == 0 {
			t.Fatalf("seed %d: nothing was evicted", seed)
		}
		m.x.costMax = 1 << 40
		m.drain()
	}
}

// verify looks at every count and link.
func (x *Index) verify(t *testing.T) {
	t.Helper()
	kids, nodes, pairs := map[uint32]uint32{}, 0, map[uint16]int{}
	lower := map[uint16]int{}
	next := map[[2]uint64]uint16{} // key and lane
	for i := uint32(1); i < x.nodes.given; i++ {
		n := x.nodes.at(i)
		if n.key == 0 {
			continue
		}
		nodes++
		if x.lookup(n.key, mix(uint64(n.key), 0)) != i {
			t.Fatalf("node %d is not found by its key", i)
		}
		if n.parent != 0 {
			kids[n.parent]++
		}
		var lanes []uint16
		var holders []holder
		switch n.lane {
		case 0:
		case sharedMark:
			lanes, holders = x.shared(n)
		default:
			lanes, holders = []uint16{n.lane}, []holder{n.holder}
		}
		for k, h := range holders {
			lane := lanes[k] - 1
			pairs[lane]++
			if !h.fast() {
				lower[lane]++
			}
			if at, _ := x.byNameOf(lane, h.name()); at != i {
				t.Fatalf("node %d is not found by the name of lane %d", i, lane)
			}
			if n.parent != 0 && !x.lanes[lane].dead {
				next[[2]uint64{uint64(x.nodes.at(n.parent).key), uint64(lane) + 1}]++
			}
		}
	}
	for i := uint32(1); i < x.nodes.given; i++ {
		n := x.nodes.at(i)
		if n.key != 0 && n.kids != kids[i] {
			t.Fatalf("node %d has %d kids, says %d", i, kids[i], n.kids)
		}
		if n.key != 0 && n.kids == 0 && n.lane == 0 {
			t.Fatalf("node %d has neither holders nor kids", i)
		}
	}
	total, holes := 0, 0
	for i := range x.lanes {
		l := &x.lanes[i]
		if l.pairs != pairs[uint16(i)] || !l.dead && l.lower != lower[uint16(i)] {
			t.Fatalf("lane %d: %d pairs (%d slow), says %d (%d)", i, pairs[uint16(i)], lower[uint16(i)], l.pairs, l.lower)
		}
		total += l.pairs
		holes += len(l.holes)
		for key, count := range l.holes {
			if next[[2]uint64{uint64(key), uint64(i) + 1}] != count {
				t.Fatalf("lane %d: hole says %d behind it, there are %d", i, count, next[[2]uint64{uint64(key), uint64(i) + 1}])
			}
		}
	}
	if nodes != x.nodes.count || nodes != x.byKey.used || total != x.byName.used {
		t.Fatalf("%d nodes and %d pairs, counted %d, filed %d and %d", nodes, total, x.nodes.count, x.byKey.used, x.byName.used)
	}
	if want := int64(nodes)*nodeCost + int64(total)*pairCost + int64(holes)*holeCost; want != x.cost {
		t.Fatalf("cost is %d, says %d", want, x.cost)
	}
}
