package prefix

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// randomKeys is a chain of n blocks of 64 bytes under keys that nobody else has.
func randomKeys(r *rand.Rand, n int) Chain {
	c := Chain{Keys: make([]Key, n), Ends: make([]int32, n)}
	for i := range n {
		c.Keys[i], c.Ends[i] = Key(r.Uint64()), int32(64*(i+1))
	}
	return c
}

// filled is an index of that many workers, each holding chains of 1,000 blocks up to total pairs in all.
func filled(r *rand.Rand, workers, total int) *Index {
	x := New(Options{BytesMax: 4 << 30, CapacityDefault: int64(total/workers) * 64})
	for i := range total / 1000 {
		x.Enter(i%workers, randomKeys(r, 1000), int64(i)<<20)
	}
	return x
}

func BenchmarkExtend(b *testing.B) {
	text := make([]byte, 431_000)
	seed := NewSeed([]byte("bench"))
	var c Chain
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c, _, _ = seed.Extend(c.Reset(), 1, text, 64)
	}
}

// BenchmarkEnterNew6700 enters a long new prompt, into caches that have room and into caches that must evict for it.
func BenchmarkEnterNew6700(b *testing.B) {
	for _, resident := range []int{100_000, 1_000_000} {
		for _, full := range []bool{false, true} {
			b.Run(fmt.Sprintf("resident=%d/full=%v", resident, full), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 1))
				x := filled(r, 16, resident)
				chains := make([]Chain, 400)
				for i := range chains {
					chains[i] = randomKeys(r, 6700)
				}
				i := 0
				for b.Loop() {
					if !full {
						b.StopTimer()
						x.Withdraw(15, chains[(i+399)%400], 0)
						x.SetCapacity(15, 1<<40)
						b.StartTimer()
						x.Enter(15, chains[i%400], int64(i)<<20)
					} else {
						x.Enter(i%16, chains[i%400], int64(i)<<20)
					}
					i++
				}
				s := x.Stats()
				b.ReportMetric(float64(s.Bytes)/float64(s.Pairs), "B/pair")
			})
		}
	}
}

func BenchmarkEnterKnown6700(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x := filled(r, 16, 1_000_000)
	chains := [4]Chain{}
	for i := range chains {
		chains[i] = randomKeys(r, 6700)
	}
	i := 0
	for b.Loop() {
		x.Enter(0, chains[i%4], int64(i)<<20)
		i++
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, shape := range []struct{ blocks, workers, holders int }{
		{30, 16, 3}, {6700, 16, 3}, {30, 512, 20}, {6700, 512, 20}, {6700, 512, 400},
	} {
		b.Run(fmt.Sprintf("blocks=%d/workers=%d/holders=%d", shape.blocks, shape.workers, shape.holders), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			x := filled(r, shape.workers, 1_000_000)
			chains := make([]Chain, 64)
			for i := range chains {
				c := randomKeys(r, shape.blocks)
				chains[i] = c
				for h := range shape.holders {
					n := shape.blocks
					if h%4 != 0 {
						n = 1 + r.IntN(shape.blocks)
					}
					x.SetCapacity(h, 1<<40)
					x.Enter(h, Chain{Keys: c.Keys[:n], Ends: c.Ends[:n]}, 1<<40)
				}
			}
			var depth []int32
			i := 0
			for b.Loop() {
				depth = x.Match(chains[i%64], depth)
				i++
			}
		})
	}
}

// BenchmarkTrim is reports of an engine that has nothing cached of what was assumed: of a chain that nothing branches off, and of one whose head
// others use too.
func BenchmarkTrim(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	b.Run("alone", func(b *testing.B) {
		x := filled(r, 1, 100_000)
		c := randomKeys(r, 1000)
		x.Enter(0, c, 1<<40)
		for b.Loop() {
			x.Trim(0, c, 500)
		}
	})
	b.Run("shared", func(b *testing.B) {
		x := filled(r, 1, 100_000)
		head := randomKeys(r, 30)
		now := int64(1 << 40)
		for b.Loop() {
			tail := randomKeys(r, 20)
			c := Chain{Keys: append(append([]Key{}, head.Keys...), tail.Keys...), Ends: append([]int32{}, head.Ends...)}
			for i := range tail.Keys {
				c.Ends = append(c.Ends, head.Ends[29]+tail.Ends[i])
			}
			now++
			x.Enter(0, c, now)
			x.Trim(0, c, 0)
		}
	})
}
