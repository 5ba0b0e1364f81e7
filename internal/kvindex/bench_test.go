package kvindex

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/warmpath/warmpath/internal/prefix"
)

// stream is what 128 workers tell: chains of 32 blocks, one in ten stored by several workers, the oldest taken out block by block.
type stream struct {
	x       *Index
	handles []Handle
	held    [][]uint64 // numbers of chains, by worker
	next    uint64
	keys    []prefix.Key
	names   []uint64
}

const chainBlocks = 32

func newStream(x *Index) *stream {
	s := &stream{x: x, held: make([][]uint64, 128)}
	for i := range s.held {
		s.handles = append(s.handles, x.Open(i))
		x.Complete(s.handles[i], true)
	}
	return s
}

func (s *stream) chain(number uint64, worker int) {
	s.keys, s.names = s.keys[:0], s.names[:0]
	for i := range uint64(chainBlocks) {
		key := mix(number*chainBlocks+i, 5)
		s.keys = append(s.keys, prefix.Key(key))
		s.names = append(s.names, mix(key, uint64(worker)))
	}
}

func (s *stream) store(worker int) {
	number := s.next
	s.next++
	if s.next%10 == 0 && s.next > 200 { // a chain that another worker stored a while ago
		number = s.next - 100 + s.next%7
	}
	s.chain(number, worker)
	s.x.Store(s.handles[worker], 0, s.keys, s.names, GPU)
	s.held[worker] = append(s.held[worker], number)
}

func (s *stream) remove(worker int) {
	number := s.held[worker][0]
	s.held[worker] = s.held[worker][1:]
	s.chain(number, worker)
	for i := chainBlocks - 1; i >= 0; i-- {
		s.x.Remove(s.handles[worker], s.names[i:i+1], nil, GPU)
	}
}

func BenchmarkApply(b *testing.B) {
	for _, resident := range []int{1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("resident=%d", resident), func(b *testing.B) {
			s := newStream(New(Options{BytesMax: 4 << 30}))
			for i := range resident / chainBlocks {
				s.store(i % 128)
			}
			stats := s.x.Stats()
			debug.FreeOSMemory()
			r := rand.New(rand.NewPCG(1, 1))
			i := 0
			for b.Loop() {
				if worker := r.IntN(128); i%2 == 0 {
					s.store(worker)
				} else {
					s.remove(worker)
				}
				i++
			}
			b.ReportMetric(float64(b.N*chainBlocks)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
			b.ReportMetric(float64(stats.Bytes)/float64(stats.Pairs), "B/pair")
			runtime.KeepAlive(s)
		})
	}
}

// BenchmarkMatch looks up chains that 3 to 42 workers hold to seven depths: all in the processor's caches.
func BenchmarkMatch(b *testing.B) {
	for _, blocks := range []int{30, 6000} {
		b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
			s := newStream(New(Options{}))
			var chains [][]prefix.Key
			for c := range 16 {
				keys, names := chain(blocks, uint64(c))
				for w := range 3 + c%40 {
					depth := blocks - w%7*blocks/30
					s.x.Store(s.handles[w], 0, keys[:depth], names[:depth], GPU)
				}
				chains = append(chains, keys)
			}
			m, i := Match{}, 0
			for b.Loop() {
				m = s.x.Match(chains[i%len(chains)], m)
				i++
			}
		})
	}
}
