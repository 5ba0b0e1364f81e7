// Package kvbench measures the index of what engines hold, as `warmpath bench index`: how fast events go in, how long a look-up takes
// while they do, and what a block costs in memory.
//
//	report, err := kvbench.Index(ctx, bench.Options{Rounds: 3, Window: 2 * time.Second})
//
// 128 workers tell; nine blocks in ten are held by one of them, the others by several; half of the operations store, in chains of 32
// blocks, and half remove single blocks, the oldest chain's last block first. Then 500 workers tell over real sockets, see sockets.
package kvbench

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/kvindex"
)

// size is one line of the table: so many (block, worker) pairs are held, and what is demanded then. 0 demands nothing.
type size struct {
	resident         int
	opsLeast         float64 // block operations a second of one core
	wireLeast        float64 // the same from the wire: decoded, hashed, checked
	shortP50, p99    float64 // microseconds, of 30 blocks
	longP50, longP99 float64 // of 6,000
	bytesMost        float64 // of memory for each pair
}

var sizes = []size{
	{resident: 1_000_000, opsLeast: 2.5e6, wireLeast: 1.5e6, shortP50: 4, p99: 40, longP50: 10, longP99: 80},
	{resident: 10_000_000, opsLeast: 1.2e6, bytesMost: 48},
}

const (
	workers    = 128
	lookupPace = 200 * time.Microsecond // between two look-ups
	indexBytes = 4 << 30
	shortChain = 30
	longChain  = 6000
)

// Index measures both sizes. Rounds and Window are the options' that matter.
func Index(ctx context.Context, o bench.Options) (bench.Report, error) {
	o = o.WithDefaults()
	s := bench.Section{
		Name: "index",
		Method: fmt.Sprintf("%d workers, chains of %d blocks, 90 %% of blocks held by one worker, half of the operations removals of single blocks; operations by CPU seconds of the process, so that all that was begun is counted and other load is not; look-ups every %v on a core of their own while half that rate comes in on another, in messages of %d operations at their own time, the same prompts over and over, as conversations' turns are, and beside that as if each were new (first); memory as the growth of the resident set; medians of %d rounds",
			workers, chainBlocks, lookupPace, 2*chainBlocks, o.Rounds),
		Columns: []string{"resident", "block_ops_per_core_s", "wire_block_ops_per_core_s", "lookup_p50_us", "lookup_p99_us", "long_lookup_p50_us", "long_lookup_p99_us", "first_lookup_p50_us", "first_long_lookup_p50_us", "bytes_per_membership", "fill_block_ops_per_core_s"},
	}
	for _, z := range sizes {
		m, err := z.measure(ctx, o)
		if err != nil {
			return bench.Report{}, err
		}
		s.Rows = append(s.Rows, bench.Row{Contestant: fmt.Sprintf("%d M", z.resident/1_000_000), Values: []bench.Value{
			bench.Value(z.resident), bench.Value(m.ops), bench.Value(m.wire), bench.Value(m.short.p50), bench.Value(m.short.p99), bench.Value(m.long.p50), bench.Value(m.long.p99), bench.Value(m.first.p50), bench.Value(m.firstLong.p50), bench.Value(m.bytes), bench.Value(m.fill)}})
		s.Checks = append(s.Checks, z.checks(m)...)
	}
	e, err := startEngines(ctx, o.Self, socketWorkers)
	if err != nil {
		return bench.Report{}, err
	}
	defer e.close()
	told, err := sockets(ctx, o, e)
	return bench.Report{Part: "index", Sections: []bench.Section{s, told}}, err
}

func (z size) checks(m measured) (all []bench.Check) {
	at := fmt.Sprintf(" at %d M", z.resident/1_000_000)
	least := func(name string, value, limit float64) {
		if limit > 0 {
			all = append(all, bench.Check{Name: name + at, Value: bench.Value(value), Limit: bench.Value(limit), Least: true, Unit: "a core and second", Pass: value >= limit})
		}
	}
	most := func(name string, value, limit float64, unit string) {
		if limit > 0 {
			all = append(all, bench.Check{Name: name + at, Value: bench.Value(value), Limit: bench.Value(limit), Unit: unit, Pass: value <= limit})
		}
	}
	least("block operations", m.ops, z.opsLeast)
	least("block operations from the wire", m.wire, z.wireLeast)
	most("look-up of 30 blocks, p50", m.short.p50, z.shortP50, "us")
	most("look-up of 30 blocks, p99", m.short.p99, z.p99, "us")
	most("look-up of 6000 blocks, p50", m.long.p50, z.longP50, "us")
	most("look-up of 6000 blocks, p99", m.long.p99, z.longP99, "us")
	most("memory of a (block, worker)", m.bytes, z.bytesMost, "bytes")
	return all
}

// measured is what one size showed.
type measured struct {
	ops, wire, fill  float64
	short, long      latency
	first, firstLong latency // where nothing is remembered of earlier look-ups
	bytes            float64
}

type latency struct{ p50, p99 float64 } // microseconds

func (z size) measure(ctx context.Context, o bench.Options) (m measured, err error) {
	fmt.Fprintf(o.Progress, "index: filling %d\n", z.resident)
	before := resident()
	x := kvindex.New(kvindex.Options{BytesMax: indexBytes})
	s := newStream(x)
	m.fill = perCore(func() int { return s.fill(z.resident) })
	m.bytes = (resident() - before - s.bytes()) / float64(x.Stats().Pairs)
	short, long := s.lookups(shortChain, 64), s.lookups(longChain, 16)
	var ops, shorts, shorts99, longs, longs99 []float64
	for range o.Rounds {
		fmt.Fprintf(o.Progress, "index: %d resident, operations\n", z.resident)
		ops = append(ops, perCore(func() int { return s.turn(ctx, o.Window) }))
		rate := ops[len(ops)-1] / 2
		fmt.Fprintf(o.Progress, "index: %d resident, look-ups beside %.0f operations a second\n", z.resident, rate)
		l := s.lookUp(ctx, short, rate, o.Window)
		shorts, shorts99 = append(shorts, l.p50), append(shorts99, l.p99)
		l = s.lookUp(ctx, long, rate, o.Window)
		longs, longs99 = append(longs, l.p50), append(longs99, l.p99)
	}
	m.ops, m.short, m.long = bench.Median(ops), latency{bench.Median(shorts), bench.Median(shorts99)}, latency{bench.Median(longs), bench.Median(longs99)}
	m.wire = math.NaN()
	m.first, m.firstLong = latency{math.NaN(), math.NaN()}, latency{math.NaN(), math.NaN()}
	if z.wireLeast > 0 {
		s = newStream(kvindex.New(kvindex.Options{BytesMax: indexBytes, Guesses: -1}))
		s.fill(z.resident)
		short, long = s.lookups(shortChain, 64), s.lookups(longChain, 16)
		m.first, m.firstLong = s.lookUp(ctx, short, bench.Median(ops)/2, o.Window), s.lookUp(ctx, long, bench.Median(ops)/2, o.Window)
		s = nil
		m.wire = wire(ctx, z.resident, o)
	}
	runtime.KeepAlive(x)
	return m, ctx.Err()
}

// perCore is how many operations do makes in a second of CPU time.
func perCore(do func() int) float64 {
	runtime.GC()
	before := cpu()
	n := do()
	return float64(n) / (cpu() - before).Seconds()
}

// cpu is what the process used so far, user and system.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the process's resident set in bytes, what the runtime can give back given back; NaN where it is not told.
func resident() float64 {
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return math.NaN()
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		return math.NaN()
	}
	return pages * float64(os.Getpagesize())
}
