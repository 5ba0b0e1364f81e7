package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/life"
)

const (
	countsWorkers = 4
	countsHeld    = 200 // streams in flight while nothing comes or goes
	countsClients = 160 // in a closed loop, while it does
	countsChurn   = 5 * time.Second
	countsScrape  = time.Second     // the router's telemetry interval
	countsSettle  = 2 * time.Second // two scrapes: by then every count must agree again

	leaveClients  = 2000
	leaveOver     = 6 * time.Second // clients come at random moments of this time
	leaveWithin   = 2 * time.Second // and leave at a random moment of their first two seconds
	leaveSettle   = 1 * time.Second // after the last has left, until every count is 0
	leaveIdle     = 8 * time.Second // until idle connections are closed: the router keeps them 4 s
	leaveSpare    = 6               // goroutines and descriptors that may differ: telemetry's own connections come and go
	leaveHeapMore = 4 << 20         // bytes of heap beside the index, between the end of one wave of clients and the end of the next
	leaveTokens   = 1500            // of the longest prompt
)

func proveCounts(ctx context.Context, p *proof) error {
	return inFolder(func(folder string) error {
		engines, err := startEngines(ctx, alike(countsWorkers, engine.Options{Profile: cost.Profiles["h100-8b"], Model: demoModel, Seed: p.seed}))
		if err != nil {
			return err
		}
		defer engines.close()
		var urls []string
		for _, e := range engines.engines {
			urls = append(urls, e.url)
		}
		s, err := p.startServed(ctx, folder, urls...)
		if err != nil {
			return err
		}
		defer s.end()
		if err := awaitReady(ctx, s.data); err != nil {
			return err
		}
		c := &counter{p: p, engines: engines, served: s}
		for _, show := range []func(context.Context) error{c.held, c.churn, c.leave} {
			if err := show(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// counter compares the router's counts with the engines' own.
type counter struct {
	p       *proof
	engines *embeddedEngines
	served  *servedRouter
}

// pair is one worker's count as the router has it and as the worker has it, running and waiting.
type pair struct{ ours, theirs, shown int }

// count reads every page once. shown is the worker's count as the router's telemetry knows it, up to a second old.
func (c *counter) count(ctx context.Context) ([]pair, error) {
	ours, err := readMetrics(ctx, c.served.admin)
	if err != nil {
		return nil, err
	}
	pairs := make([]pair, len(c.engines.engines))
	for i, e := range c.engines.engines {
		theirs, err := readMetrics(ctx, e.url)
		if err != nil {
			return nil, err
		}
		id := `worker="` + strings.TrimPrefix(e.url, "http://") + `"`
		pairs[i] = pair{ours: int(ours.sum("warmpath_worker_inflight_requests", id)), theirs: int(theirs.sum("vllm:num_requests_running") + theirs.sum("vllm:num_requests_waiting")),
			shown: int(ours.sum("warmpath_engine_requests_running", id) + ours.sum("warmpath_engine_requests_waiting", id))}
	}
	return pairs, nil
}

// held compares while a fixed number of streams is in flight.
func (c *counter) held(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	client := newProveClient()
	var streams sync.WaitGroup
	defer client.CloseIdleConnections()
	defer streams.Wait()
	defer leave()
	var started atomic.Int64
	for i := range countsHeld {
		ask := askStream{prompt: fmt.Sprintf("held %d: tell me more", i), maxTokens: 4000, first: func() { started.Add(1) }}
		streams.Go(func() { _, _ = client.stream(ctx, c.served.data, ask) }) // it is left, below
	}
	if ok, _ := until(ctx, 10*time.Second, func() bool { return started.Load() == countsHeld }); !ok {
		return fmt.Errorf("%d of %d streams have begun", started.Load(), countsHeld)
	}
	life.Pause(ctx, countsSettle)
	pairs, err := c.count(ctx)
	if err != nil {
		return err
	}
	pass, sum, said := true, 0, []string{}
	for _, w := range pairs {
		pass = pass && w.ours == w.theirs && w.ours == w.shown
		sum += w.ours
		said = append(said, fmt.Sprintf("%d/%d/%d", w.ours, w.theirs, w.shown))
	}
	pass = pass && sum == countsHeld
	c.p.that(pass, fmt.Sprintf("%d streams held open", countsHeld), fmt.Sprintf("by worker, ours/its own/its own as last scraped: %s, sum %d", strings.Join(said, " "), sum),
		map[string]any{"ours": sum})
	return nil
}

// churn compares while clients come and go. The two pages cannot be read in one instant, so they may differ by what came or went in
// between, but not for as long as from one scrape to the next; then the clients stop and everything must be 0.
func (c *counter) churn(ctx context.Context) error {
	limited, stop := context.WithTimeout(ctx, countsChurn)
	defer stop()
	client := newProveClient()
	defer client.CloseIdleConnections()
	var clients sync.WaitGroup
	var failed atomic.Int64
	for i := range countsClients {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(c.p.seed, uint64(i)))
			for limited.Err() == nil {
				ask := askStream{prompt: fmt.Sprintf("churn %d %d", i, r.Uint64()), maxTokens: 20 + r.IntN(120)}
				if _, err := client.stream(ctx, c.served.data, ask); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	seen, err := c.watch(limited)
	stop()
	clients.Wait()
	if err != nil {
		return err
	}
	settled, took := until(ctx, countsSettle, func() bool { return c.zero(ctx) })
	pass := settled && failed.Load() == 0 && seen.least >= 100 && seen.apart <= countsScrape
	c.p.that(pass, fmt.Sprintf("%d clients that come and go", countsClients), fmt.Sprintf("never fewer than %d in flight; of %d pairs read a moment apart %d are equal, none differs by more than %d, and no worker's for longer than %d ms; all are 0 %d ms after the end",
		seen.least, seen.pairs, seen.equal, seen.most, seen.apart.Milliseconds(), took.Milliseconds()),
		map[string]any{"in_flight_least": seen.least, "pairs": seen.pairs, "equal": seen.equal, "most_apart": seen.most, "longest_apart_ms": seen.apart.Milliseconds(), "failed": failed.Load()})
	return nil
}

// watchedCounts is what pairs of counts read a moment apart showed: how many, how many were equal, the largest difference, the longest time
// for which one worker's were not equal, and the fewest requests in flight.
type watchedCounts struct {
	pairs, equal, most, least int
	apart                     time.Duration
}

// watch compares until ctx ends.
func (c *counter) watch(ctx context.Context) (w watchedCounts, err error) {
	w.least = 2 * countsClients
	var agreed [countsWorkers]time.Time
	for ctx.Err() == nil {
		pairs, err := c.count(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return w, nil
			}
			return w, err
		}
		now, sum := time.Now(), 0
		for i, p := range pairs {
			sum += p.ours
			w.most = max(w.most, p.ours-p.theirs, p.theirs-p.ours)
			if p.ours == p.theirs || agreed[i].IsZero() {
				agreed[i] = now
			}
			if p.ours == p.theirs {
				w.equal++
			}
			w.apart = max(w.apart, now.Sub(agreed[i]))
			w.pairs++
		}
		w.least = min(w.least, sum)
		life.Pause(ctx, 50*time.Millisecond)
	}
	return w, nil
}

// zero says whether nothing is in flight, by the router's count and by every engine's.
func (c *counter) zero(ctx context.Context) bool {
	pairs, err := c.count(ctx)
	if err != nil {
		return false
	}
	for _, w := range pairs {
		if w.ours != 0 || w.theirs != 0 {
			return false
		}
	}
	return true
}

// resources are what the router's process holds.
type resources struct {
	goroutines, descriptors int
	heap, index, resident   float64 // bytes; index is the part of the heap that the prefix index counts itself
}

func (r resources) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, heap %.1f MB of which the index %.1f MB, resident %.1f MB", r.goroutines, r.descriptors, r.heap/1e6, r.index/1e6, r.resident/1e6)
}

// resources waits until idle connections are closed, and reads what is held after garbage was collected twice: pools outlive one
// collection. What is collected is given back over some time, so the least of a second counts.
func (c *counter) resources(ctx context.Context) (r resources, err error) {
	life.Pause(ctx, leaveIdle)
	first, due := -1.0, time.Time{}
	collected, _ := until(ctx, 2*servedWaitMax, func() bool {
		var seen scrape // reading it is what makes garbage here
		if seen, err = readMetrics(ctx, c.served.admin); err != nil {
			return true
		}
		n, heap := seen.sum("go_gc_duration_seconds_count"), seen.sum("go_memstats_heap_inuse_bytes")
		switch {
		case first < 0:
			first = n
			return false
		case n < first+2:
			return false
		case due.IsZero():
			due = time.Now().Add(time.Second)
		}
		if r.heap == 0 || heap < r.heap {
			r = resources{int(seen.sum("go_goroutines")), int(seen.sum("process_open_fds")), heap, seen.sum("warmpath_index_bytes"), seen.sum("process_resident_memory_bytes")}
		}
		return !due.IsZero() && time.Now().After(due)
	})
	if err == nil && !collected {
		err = fmt.Errorf("the router collected no garbage in %v, so its memory cannot be told", 2*servedWaitMax)
	}
	return r, err
}

// leave has clients leave at random moments, in two waves alike: goroutines and descriptors must be those of before the first, memory
// that of after the first, which has filled pools and the prefix index.
func (c *counter) leave(ctx context.Context) error {
	c.p.note("%d clients leave at random moments, twice; %v each for idle connections to close", leaveClients, leaveIdle)
	before, err := c.resources(ctx)
	if err != nil {
		return err
	}
	if _, err := c.wave(ctx); err != nil {
		return err
	}
	between, err := c.resources(ctx)
	if err != nil {
		return err
	}
	w, err := c.wave(ctx)
	if err != nil {
		return err
	}
	after, err := c.resources(ctx)
	if err != nil {
		return err
	}
	var open int64
	said, all := []string{}, true
	for i, e := range c.engines.engines {
		open += e.open.Load()
		all = all && w.cut[i] > 0
		said = append(said, fmt.Sprint(w.cut[i]))
	}
	c.p.that(w.settled && all, fmt.Sprintf("%d clients leave at random moments", leaveClients), fmt.Sprintf("up to %d at once: %d before a head came, %d before a token, %d amid the stream, %d at its end; workers had %d requests and saw the connections of %s close; every count is 0 after %d ms",
		w.most, w.where[0], w.where[1], w.where[2], w.where[3], w.reached, strings.Join(said, " + "), w.took.Milliseconds()),
		map[string]any{"cut_by_worker": w.cut, "reached_workers": w.reached, "settled_ms": w.took.Milliseconds()})
	pass := after.goroutines <= before.goroutines+leaveSpare && after.descriptors <= before.descriptors+leaveSpare && after.heap-after.index <= between.heap-between.index+leaveHeapMore && open <= 2*countsWorkers
	c.p.that(pass, "and leave nothing behind", fmt.Sprintf("%v; connections open at the workers: %d", after, open), map[string]any{"goroutines": after.goroutines, "descriptors": after.descriptors,
		"heap_bytes": after.heap, "index_bytes": after.index, "resident_bytes": after.resident, "goroutines_before": before.goroutines, "descriptors_before": before.descriptors, "heap_bytes_before": before.heap, "heap_bytes_between": between.heap},
		"before:         "+before.String(), "after 2,000:    "+between.String(), "after 4,000:    "+after.String())
	return nil
}

// leaving is what one wave of clients that leave came to.
type leaving struct {
	where   [4]int64 // clients by how far they had come: no head, no token, amid the stream, at its end
	most    int64    // at once
	reached int64    // requests at the engines
	cut     []int64  // of those, by engine, whose connection closed before their end
	settled bool
	took    time.Duration
}

// wave is one wave. The same seed gives the same prompts and moments.
func (c *counter) wave(ctx context.Context) (w leaving, err error) {
	finished, cut := c.ends()
	random := rand.New(rand.NewPCG(c.p.seed, 99))
	client := newProveClient()
	defer client.CloseIdleConnections()
	var clients sync.WaitGroup
	var now, most atomic.Int64
	var where [4]atomic.Int64
	began := time.Now()
	for i := range leaveClients {
		comes, stays := leaveOver*time.Duration(i)/leaveClients, time.Duration(random.Int64N(int64(leaveWithin)))
		ask := askStream{prompt: strings.Repeat(fmt.Sprintf("leave %d ", random.IntN(1000)), random.IntN(leaveTokens/3)+1), maxTokens: 60 + random.IntN(200)}
		clients.Go(func() {
			life.Pause(ctx, comes-time.Since(began))
			own, left := context.WithTimeout(ctx, stays)
			defer left()
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			defer now.Add(-1)
			where[c.visit(own, client, ask)].Add(1)
		})
	}
	clients.Wait()
	for i := range where {
		w.where[i] = where[i].Load()
	}
	w.most = most.Load()
	w.settled, w.took = until(ctx, leaveSettle, func() bool { return c.zero(ctx) })
	w.reached, w.cut = c.ends()
	w.reached -= finished
	for i := range w.cut {
		w.cut[i] -= cut[i]
		w.reached += w.cut[i]
	}
	return w, ctx.Err()
}

// visit is one client; it returns how far it came before it left.
func (c *counter) visit(ctx context.Context, client proveClient, ask askStream) int {
	s, err := client.stream(ctx, c.served.data, ask)
	switch {
	case err == nil:
		return 3
	case s.tokens > 0:
		return 2
	case s.headed:
		return 1
	}
	return 0
}

// ends is how many requests the engines finished, and how many each took out because its connection closed.
func (c *counter) ends() (finished int64, cut []int64) {
	for _, e := range c.engines.engines {
		s := e.Stats()
		finished += int64(s.Finished)
		cut = append(cut, int64(s.Aborted))
	}
	return finished, cut
}
