package kvbench

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
)

const (
	chainBlocks = 32
	blockTokens = 16
)

// scatter is a cheap hash: keys and names of blocks are made from their numbers, so that nothing has to be kept of them.
func scatter(n uint64) uint64 {
	n = (n ^ n>>32) * 0xd6e8feb86659fd93
	n = (n ^ n>>29) * 0x9e3779b97f4a7c15
	return n ^ n>>32
}

// stream is what the workers tell.
type stream struct {
	x       *kvindex.Index
	handles [workers]kvindex.Handle
	held    [workers][]uint32 // numbers of chains, oldest first from head
	head    [workers]int
	next    uint32
	pairs   int
	r       *rand.Rand
	keys    []prefix.Key
	names   []uint64
}

func newStream(x *kvindex.Index) *stream {
	s := &stream{x: x, r: rand.New(rand.NewPCG(1, 1))}
	for i := range s.handles {
		s.handles[i] = x.Open(i)
		x.Complete(s.handles[i], true)
	}
	return s
}

// chain makes the keys of a chain, and the names that a worker's engine gives them.
func (s *stream) chain(number uint32, worker int) {
	s.keys, s.names = s.keys[:0], s.names[:0]
	for i := range uint64(chainBlocks) {
		key := scatter(uint64(number)*chainBlocks + i + 1)
		s.keys = append(s.keys, prefix.Key(key))
		s.names = append(s.names, scatter(key+uint64(worker)))
	}
}

// store has a worker store a chain. Every ninth is one that another worker stored a while ago: then one block in ten is held by several.
func (s *stream) store(worker int) {
	s.next++
	number := s.next
	if s.next%9 == 0 && s.next > 2*workers {
		number = s.next - workers - s.next%7
		number -= number % 9 // one of those that are shared
		number++
	}
	if slices.Contains(s.held[worker][max(s.head[worker], len(s.held[worker])-8):], number) {
		number = s.next
	}
	s.chain(number, worker)
	s.x.Store(s.handles[worker], 0, s.keys, s.names, kvindex.GPU)
	s.held[worker] = append(s.held[worker], number)
	s.pairs += chainBlocks
}

// remove has a worker give up its oldest chain, block by block from its end.
func (s *stream) remove(worker int) {
	number := s.held[worker][s.head[worker]]
	if s.head[worker]++; s.head[worker] == 4096 {
		s.held[worker] = append(s.held[worker][:0], s.held[worker][4096:]...)
		s.head[worker] = 0
	}
	s.chain(number, worker)
	for i := chainBlocks - 1; i >= 0; i-- {
		s.x.Remove(s.handles[worker], s.names[i:i+1], nil, kvindex.GPU)
	}
	s.pairs -= chainBlocks
}

func (s *stream) fill(pairs int) (ops int) {
	for i := 0; s.pairs < pairs; i++ {
		s.store(i % workers)
		ops += chainBlocks
	}
	return ops
}

// message is one worker's step: a chain stored and one given up.
func (s *stream) message() {
	worker := s.r.IntN(workers)
	s.store(worker)
	s.remove(worker)
}

// turn sends messages for a while and returns the number of block operations.
func (s *stream) turn(ctx context.Context, window time.Duration) (ops int) {
	for over := time.Now().Add(window); ctx.Err() == nil && time.Now().Before(over); {
		for range 16 {
			s.message()
			ops += 2 * chainBlocks
		}
	}
	return ops
}

// bytes is what the stream itself has in memory.
func (s *stream) bytes() float64 {
	n := 0
	for i := range s.held {
		n += 4 * cap(s.held[i])
	}
	return float64(n)
}

// lookups are chains that 3 to 42 workers hold to different depths.
func (s *stream) lookups(blocks, count int) (chains [][]prefix.Key) {
	for c := range count {
		var keys []prefix.Key
		var names []uint64
		for i := range blocks {
			keys = append(keys, prefix.Key(scatter(uint64(c*blocks+i)<<32|uint64(blocks))))
		}
		for w := range 3 + c%40 {
			depth := blocks - w%7*blocks/30
			names = names[:0]
			for _, key := range keys[:depth] {
				names = append(names, scatter(uint64(key)+uint64(w)))
			}
			s.x.Store(s.handles[w], 0, keys[:depth], names, kvindex.GPU)
		}
		chains = append(chains, keys)
	}
	return chains
}

// lookUp times look-ups at their pace while messages come in at theirs, so many operations a second.
func (s *stream) lookUp(ctx context.Context, chains [][]prefix.Key, opsPerSecond float64, window time.Duration) latency {
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		begun, sent := time.Now(), 0
		gap := time.Duration(2 * chainBlocks / opsPerSecond * float64(time.Second))
		for !stop.Load() {
			due := begun.Add(time.Duration(sent) * gap)
			if wait := time.Until(due); wait > 0 {
				sleep(wait)
				continue
			}
			s.message()
			sent++
		}
	})
	var took []time.Duration
	m := kvindex.Match{}
	begun := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		due := begun.Add(time.Duration(i) * lookupPace)
		if due.Sub(begun) > window {
			break
		}
		start := time.Now()
		for start.Before(due) {
			start = time.Now()
		}
		m = s.x.Match(chains[i%len(chains)], m)
		took = append(took, time.Since(start))
	}
	stop.Store(true)
	writer.Wait()
	slices.Sort(took)
	return quantiles(took)
}

// quantiles are of what is sorted.
func quantiles(took []time.Duration) latency {
	at := func(q float64) float64 {
		if len(took) == 0 {
			return 0
		}
		return float64(took[int(q*float64(len(took)-1))]) / float64(time.Microsecond)
	}
	return latency{at(.5), at(.99)}
}

func sleep(d time.Duration) {
	if d > 0 {
		timer := time.NewTimer(d)
		<-timer.C
	}
}

// wire measures the whole way of an event: msgpack, order, token hashing, index. Messages are made beforehand.
func wire(ctx context.Context, pairs int, o bench.Options) float64 {
	x, seed := kvindex.New(kvindex.Options{BytesMax: indexBytes}), prefix.NewSeed([]byte("bench"))
	s := &stream{r: rand.New(rand.NewPCG(2, 2))}
	var trackers [workers]*kvevent.Tracker
	var seqs [workers]uint64
	for i := range trackers {
		trackers[i] = kvevent.NewTracker(x, kvevent.TrackerOptions{Seed: seed, Model: "bench", Slot: i, Rank: -1})
	}
	type sent struct {
		worker  int
		payload []byte
	}
	make1 := func(worker int, remove bool) sent {
		s.next++
		s.held[worker] = append(s.held[worker], s.next)
		events := []kvevent.Event{storedEvent(s.next, worker, chainBlocks)}
		if remove {
			number := s.held[worker][0]
			s.held[worker] = s.held[worker][1:]
			for _, name := range slices.Backward(storedEvent(number, worker, chainBlocks).Names) {
				events = append(events, kvevent.Event{Kind: kvevent.Removed, Names: []uint64{name}})
			}
		}
		return sent{worker, kvevent.AppendBatch(nil, 1, 0, events)}
	}
	deliver := func(m sent) {
		trackers[m.worker].Live(seqs[m.worker], m.payload)
		seqs[m.worker]++
	}
	for i := range pairs / chainBlocks {
		deliver(make1(i%workers, false))
	}
	var rates []float64
	for range o.Rounds {
		o.Progress.Write([]byte("index: from the wire\n"))
		var batch []sent
		for range 8000 {
			batch = append(batch, make1(s.r.IntN(workers), true))
		}
		rates = append(rates, perCore(func() int {
			for _, m := range batch {
				deliver(m)
			}
			return len(batch) * 2 * chainBlocks
		}))
		if ctx.Err() != nil {
			break
		}
	}
	return bench.Median(rates)
}

// storedEvent is what a worker's engine says when it stores a chain: of tokens as they come, names as its hashes.
func storedEvent(number uint32, worker, blocks int) kvevent.Event {
	e := kvevent.Event{Kind: kvevent.Stored, BlockTokens: blockTokens}
	for i := range uint64(blocks) {
		n := uint64(number)*chainBlocks + i + 1
		e.Names = append(e.Names, scatter(n<<16|uint64(worker)))
		for j := range uint64(blockTokens) {
			e.Tokens = append(e.Tokens, uint32(scatter(n*blockTokens+j)%150_000))
		}
	}
	return e
}
