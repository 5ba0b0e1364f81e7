//go:build e2evllm

package e2e

import (
	"flag"
	"math/rand/v2"
	"testing"
)

// What has to be so of all requests that report.
const (
	equalAtLeast = 99.0 // percent: predicted and reported are the same, to the block
	someAtLeast  = 60.0 // report some cached tokens
	partAtLeast  = 20.0 // report some, but less than a cache without a bound would: blocks were given up
)

var seedFlag = flag.Uint64("seed", 0, "of the chats; 0 takes one at random")

// atOnce is how many requests are under way: what is sent waits for the engine's step at hand, and meanwhile a block that was there when
// the worker was chosen may be given up. Each more at once makes that more likely.
const atOnce = 3

func TestWithRealEngines(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (again with make e2e-vllm VLLM=\"-seed %d\")", seed, seed)
	workers := []*worker{newWorker(t, 0), newWorker(t, 1)}
	for _, w := range workers {
		w.start(t)
	}
	for _, w := range workers {
		w.await(t)
	}
	t.Run("OneByOneEachReportsWhatItsEventsSaid", func(t *testing.T) { oneByOne(t, workers[0], seed) })
	t.Run("PredictedIsReportedThroughEvictionsClearingAndRestarts", func(t *testing.T) { predictedIsReported(t, workers, seed) })
}

func predictedIsReported(t *testing.T, workers []*worker, seed uint64) {
	f := newFront(t, workers)
	f.start(t)
	c := newCrowd("http://"+f.listen, seed+1)
	defer c.differing(t)

	c.run(t.Context(), "steady", 300, atOnce)

	workers[0].reset(t)
	c.cleared(workers[0])
	c.run(t.Context(), "after a reset", 120, atOnce)

	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(t.Context(), "a worker is killed", 60, atOnce)
	}()
	workers[1].process.killAll()
	c.cleared(workers[1])
	<-done
	workers[1].start(t)
	workers[1].await(t)
	f.awaitExact(t)
	c.run(t.Context(), "it is back", 120, atOnce)

	if code := f.router.stop(t); code != 0 {
		t.Errorf("warmpath ended with %d on SIGTERM, want 0", code)
	}
	f.start(t)
	c.run(t.Context(), "warmpath is back", 120, atOnce)

	c.settle(t, f)
	all := c.table(t)
	if all.requests < 300 || all.failed > 2*atOnce || all.unreported > 0 {
		t.Errorf("%d requests, of which %d failed and %d told no cached tokens", all.requests, all.failed, all.unreported)
	}
	for _, want := range []struct {
		what  string
		n     int
		least float64
	}{{"predicted what was reported", all.right, equalAtLeast}, {"reported some cached tokens", all.some, someAtLeast}, {"reported part of what an unbounded cache would", all.part, partAtLeast}} {
		if got := all.percent(want.n); got < want.least {
			t.Errorf("%.1f %% %s, want at least %.0f %%", got, want.what, want.least)
		}
	}
}
