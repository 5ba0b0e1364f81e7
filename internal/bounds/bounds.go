// Package bounds is what is possible for a trace and a fleet, whatever the policy: hit rates, times and their sums that no router can better.
//
//	b, err := bounds.Find(ctx, bounds.Question{Trace: trace, Fleet: fleet, Rate: 1, Seed: 1})
//	fmt.Println(b.HitRate, b.TTFT)
package bounds

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/evict"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/traces"
)

// Bounds are what was possible for a trace, a rate and a fleet, whatever the policy. 0 is not known.
type Bounds struct {
	// HitRate is of one cache without end, for all workers. PooledHitRate is of one cache as large as all of the fleet's together, least
	// recently used out first; BestHitRate of the same when what is needed last goes out first (Belady 1966). Both serve requests in the
	// order in which they come.
	HitRate, PooledHitRate, BestHitRate float64
	// PrefillSeconds is the prefill that is left at HitRate, spread evenly over the fleet; Utilisation is its share of the time in which
	// requests come, where that is not the policy's doing.
	PrefillSeconds, Utilisation float64
	// TTFT in seconds is below the mean of any policy: that of shortest remaining work first on one server as fast as the fleet
	// (Schrage 1968), at HitRate, and never less than the prefills themselves take on the fastest worker.
	TTFT float64
	// TPOT and E2E are means in seconds of requests that have the fastest worker to themselves; E2E has TTFT in front.
	TPOT, E2E float64
	// Session is the mean time of a session in which every request has the fastest worker to itself at HitRate, of sessions none of whose
	// requests was refused. Makespan is the time until all are done when so many run at once, and no sooner than the longest is.
	Session, Makespan float64
}

// What is kept to work bounds out is bounded; a longer trace goes without. boundBlocksMax is of blocks in use one after the other,
// boundNamesMax of different ones.
const (
	boundRequestsMax = 1_000_000
	boundBlocksMax   = 20_000_000
	boundNamesMax    = 4_000_000
)

// Question is a replay as far as bounds depend on it, see sim.Config.
type Question struct {
	Trace  *traces.Trace
	Fleet  []lineup.Worker
	Rate   float64
	Jitter time.Duration
	Seed   uint64
	AtOnce int
}

// asked is one request as bounds see it.
type asked struct {
	at             time.Duration
	prompt, cached int // cached without end
	output         int
	from, to       int // its blocks
	follows        bool
	think          time.Duration
	broken         bool // its session ends with a refusal
}

// study is the trace as bounds see it.
type study struct {
	config Question
	all    []asked
	blocks []int32 // of all prompts, by number
	known  map[prefix.Key]int32
	bound  Bounds
}

// Find works out what was possible. Bounds of traces that are too long are left 0.
func Find(ctx context.Context, c Question) (Bounds, error) {
	s := &study{config: c, known: make(map[prefix.Key]int32)}
	whole, err := s.read(ctx)
	if err != nil || !whole || len(s.all) == 0 {
		return Bounds{}, err
	}
	s.alone()
	if c.Trace.Sessions {
		return s.bound, nil // when they come depends on the policy
	}
	slices.SortStableFunc(s.all, func(a, b asked) int { return cmp.Compare(a.at, b.at) })
	capacity := 0
	for _, p := range c.Fleet {
		capacity += (p.KVTokensMax + p.TierTokensMax) / c.Trace.BlockTokens
	}
	s.bound.PooledHitRate = s.pooled(evict.NewLRU(len(s.known), capacity))
	s.bound.BestHitRate = s.pooled(evict.NewBelady(s.inOrder(), len(s.known), capacity))
	if ttft := s.shortestFirst(); ttft > s.bound.TTFT {
		s.bound.E2E += ttft - s.bound.TTFT
		s.bound.TTFT = ttft
	}
	return s.bound, ctx.Err()
}

// read takes in the trace as a run would see it. whole is false when it is too long.
func (s *study) read(ctx context.Context) (whole bool, err error) {
	reader, err := s.config.Trace.Reader(s.config.Seed)
	if err != nil {
		return false, err
	}
	defer reader.Close()
	arrivals, most := traces.NewArrivals(s.config.Seed, s.config.Jitter, s.config.Rate), lineup.Most(s.config.Fleet)
	var q traces.Request
	var keys []prefix.Key
	var before []traces.Run
	broken, block := false, s.config.Trace.BlockTokens
	for ctx.Err() == nil {
		if err := reader.Next(&q); err == io.EOF {
			break
		} else if err != nil {
			return false, err
		}
		at := arrivals.At(q.At)
		broken = broken && q.Follows
		if broken || q.Prompt+q.Output > most {
			if n := len(s.all); !broken && n > 0 && q.Follows {
				s.all[n-1].broken = true
			}
			broken = true // it is refused, and what would have followed never comes
			continue
		}
		shared := 0
		if s.config.Trace.Sessions { // there the next prompt is mostly the one before and more
			shared = q.Common(before)
			before = q.Blocks
		}
		keys = q.Keys(keys[:0])
		if len(s.all) >= boundRequestsMax || len(s.blocks)+len(keys) > boundBlocksMax || len(s.known)+len(keys) > boundNamesMax {
			return false, nil
		}
		a := asked{at: at, prompt: q.Prompt, output: q.Output, follows: q.Follows, think: q.Think, from: len(s.blocks)}
		a.cached = s.add(keys, shared, min(len(keys), q.Prompt/block), (q.Prompt-1)/block) * block
		a.to = len(s.blocks)
		s.all = append(s.all, a)
	}
	return true, ctx.Err()
}

// add takes in the keys of a request, of which the first full ones are its prompt's, and returns how many of those, at most most, were
// there before. The first shared ones are known to be there.
func (s *study) add(keys []prefix.Key, shared, full, most int) (hits int) {
	leading := shared <= most
	hits = min(shared, most)
	for i, k := range keys {
		if i < shared {
			continue
		}
		n, ok := s.known[k]
		if !ok {
			n = int32(len(s.known))
			s.known[k] = n
		}
		if leading = leading && ok && i < most; leading {
			hits++
		}
		if i < full && !s.config.Trace.Sessions {
			s.blocks = append(s.blocks, n)
		}
	}
	return hits
}

// alone works out what each request takes with a worker to itself.
func (s *study) alone() {
	kinds := distinct(s.config.Fleet)
	b := &s.bound
	prompts, cached, gaps := 0, 0, 0
	var tpot float64
	var times sessionTimes
	work := s.work()
	for i := range s.all {
		a := &s.all[i]
		took := b.E2E
		b.PrefillSeconds += work(a)
		prompts += a.prompt
		cached += a.cached
		ttft := least(kinds, func(k cost.Constants) float64 { return k.Prefill(a.prompt-a.cached, a.cached) })
		b.TTFT += ttft
		b.E2E += ttft
		if a.output > 1 {
			gap := least(kinds, func(k cost.Constants) float64 { return k.Step(1, float64(a.prompt)+float64(a.output)/2) })
			tpot += gap
			gaps++
			b.E2E += gap * float64(a.output-1)
		}
		times.add(a, b.E2E-took)
	}
	if times.end(); s.config.Trace.Sessions {
		b.Session = ratio(times.whole, float64(times.wholes))
		if n := s.config.AtOnce; n > 0 {
			b.Makespan = max(times.longest, times.sum/float64(n))
		}
	}
	n := float64(len(s.all))
	b.HitRate = float64(cached) / float64(prompts)
	b.TTFT, b.E2E, b.TPOT = b.TTFT/n, b.E2E/n, ratio(tpot, float64(gaps))
}

// sessionTimes adds up the times of sessions.
type sessionTimes struct {
	this, sum, longest, whole float64
	wholes                    int
	open, broken              bool
}

func (t *sessionTimes) add(a *asked, seconds float64) {
	if !a.follows {
		t.end()
	}
	t.open = true
	t.this += a.think.Seconds() + seconds
	t.broken = t.broken || a.broken
}

func (t *sessionTimes) end() {
	if !t.open {
		return
	}
	t.sum += t.this
	t.longest = max(t.longest, t.this)
	if !t.broken {
		t.whole += t.this
		t.wholes++
	}
	t.this, t.open, t.broken = 0, false, false
}

// distinct are the kinds of workers in a fleet.
func distinct(fleet []lineup.Worker) (kinds []cost.Constants) {
	for _, p := range fleet {
		if !slices.Contains(kinds, p.Constants) {
			kinds = append(kinds, p.Constants)
		}
	}
	return kinds
}

func least(kinds []cost.Constants, f func(cost.Constants) float64) float64 {
	best := f(kinds[0])
	for _, k := range kinds[1:] {
		best = min(best, f(k))
	}
	return best
}

// shortestFirst is the mean time until all of a request's prefill is done, on one server that does the fleet's work: it works on the
// request with the least left. No fleet and no order does better on the mean.
func (s *study) shortestFirst() float64 {
	var waiting floatHeap // remaining seconds, on the one server
	var now, sum float64
	run := func(until float64) {
		for len(waiting) > 0 && now < until {
			if left := waiting[0].left; now+left > until {
				waiting[0].left -= until - now
				now = until
				return
			}
			now += waiting[0].left
			sum += now - waiting[0].came
			waiting.pop()
		}
		now = max(now, until)
	}
	work := s.work()
	for i := range s.all {
		came := s.all[i].at.Seconds()
		run(came)
		waiting.push(remaining{work(&s.all[i]), came})
	}
	for len(waiting) > 0 {
		now += waiting[0].left
		sum += now - waiting[0].came
		waiting.pop()
	}
	s.bound.Utilisation = ratio(s.bound.PrefillSeconds, (s.all[len(s.all)-1].at - s.all[0].at).Seconds())
	return sum / float64(len(s.all))
}

// work returns what tells the seconds of a request's prefill on one server that does the fleet's work.
func (s *study) work() func(*asked) float64 {
	fastest, speed := combined(s.config.Fleet)
	return func(a *asked) float64 {
		u, h := float64(a.prompt-a.cached), float64(a.cached)
		return (fastest.A + fastest.B*u + fastest.C*u*(u+2*h)) / speed
	}
}

// combined is one server that is at least as fast as the fleet: constants of which none is above any worker's, and how many times as
// fast it is.
func combined(fleet []lineup.Worker) (fastest cost.Constants, speed float64) {
	fastest = fleet[0].Constants
	for _, p := range fleet {
		fastest.A, fastest.B, fastest.C = min(fastest.A, p.A), min(fastest.B, p.B), min(fastest.C, p.C)
	}
	for _, p := range fleet {
		speed += max(ratio(fastest.A, p.A), fastest.B/p.B, ratio(fastest.C, p.C))
	}
	return fastest, speed
}

type remaining struct{ left, came float64 }

// floatHeap is a heap of what is left to do.
type floatHeap []remaining

func (h *floatHeap) push(r remaining) {
	*h = append(*h, r)
	a := *h
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if a[up].left <= a[i].left {
			break
		}
		a[i], a[up] = a[up], a[i]
		i = up
	}
}

func (h *floatHeap) pop() {
	a := *h
	last := len(a) - 1
	a[0] = a[last]
	a = a[:last]
	*h = a
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
			if a[down].left < a[least].left {
				least = down
			}
		}
		if least == i {
			return
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
}

// pooled is the hit rate of one cache, requests in order. A request's blocks are used the last first, so that its head is newer than its
// tail.
func (s *study) pooled(p evict.Cache) float64 {
	block := s.config.Trace.BlockTokens
	hits, prompts, access := 0, 0, 0
	for i := range s.all {
		a := &s.all[i]
		blocks := s.blocks[a.from:a.to]
		n := 0
		for n < len(blocks) && n < (a.prompt-1)/block && p.Holds(blocks[n]) {
			n++
		}
		for j := len(blocks) - 1; j >= 0; j-- {
			p.Use(blocks[j], access)
			access++
		}
		hits += n * block
		prompts += a.prompt
	}
	return float64(hits) / float64(prompts)
}

// inOrder is the blocks in the order in which pooled uses them.
func (s *study) inOrder() []int32 {
	order := make([]int32, 0, len(s.blocks))
	for i := range s.all {
		a := &s.all[i]
		for j := a.to - 1; j >= a.from; j-- {
			order = append(order, s.blocks[j])
		}
	}
	return order
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
