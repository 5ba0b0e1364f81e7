package ghost

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// plain is one lane as simply as it can be written: pieces, the newest first.
type plain struct {
	all      []piece
	capacity int64
}

func (p *plain) use(chain []piece) (known int) {
	for known < len(chain) && slices.Contains(p.all, chain[known]) {
		known++
	}
	rest := slices.DeleteFunc(slices.Clone(p.all), func(x piece) bool { return slices.Contains(chain, x) })
	sum := int64(0)
	p.all = p.all[:0]
	for _, x := range append(slices.Clone(chain), rest...) {
		if sum += int64(x.tokens); sum > p.capacity {
			break
		}
		p.all = append(p.all, x)
	}
	return known
}

func TestCachesHoldWhatWasUsedLast(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	c := newCaches(1 << 20)
	lanes := make([]plain, 3)
	for n := range lanes {
		lanes[n].capacity = 300
		c.open(int32(n), 300)
	}
	for step := range 1500 {
		n := chance.IntN(len(lanes))
		var chain []piece
		key := uint64(chance.IntN(6))
		for range 1 + chance.IntN(12) {
			key = key*8 + uint64(chance.IntN(2)) + 1
			chain = append(chain, piece{key, 10})
		}
		if got, want := c.use(int32(n), chain), lanes[n].use(chain); got != want {
			t.Fatalf("step %d, lane %d: %d pieces were known, want %d of %v", step, n, got, want, chain)
		}
		if step%500 == 499 {
			c.keep(func(key uint64) bool { return key%3 > 0 })
			for i := range lanes {
				lanes[i].all = slices.DeleteFunc(lanes[i].all, func(p piece) bool { return p.key%3 == 0 })
			}
		}
		checkLists(t, c)
	}
	c.forget(0)
	c.open(1, 50)
	if len(c.lanes) != 3 || c.lanes[0].tokens != 0 || c.lanes[1].tokens > 50 {
		t.Errorf("%+v", c.lanes)
	}
}

// checkLists fails when a list, a sum or the table is not what the entries say.
func checkLists(t *testing.T, c *caches) {
	t.Helper()
	count := 0
	for n := range c.lanes {
		l := &c.lanes[n]
		sum, newer := int64(0), int32(0)
		for at := l.newest; at != 0; newer, at = at, c.entries[at].older {
			e := &c.entries[at]
			if sum += int64(e.tokens); e.newer != newer || c.find(int32(n), e.key) != at {
				t.Fatalf("lane %d is not linked well, or key %d is not found", n, e.key)
			}
			count++
		}
		if sum != l.tokens || l.oldest != newer || sum > l.capacity {
			t.Fatalf("lane %d holds %d tokens of %d and says %d", n, sum, l.capacity, l.tokens)
		}
	}
	if count != c.count {
		t.Fatalf("%d entries, counted as %d", count, c.count)
	}
}
