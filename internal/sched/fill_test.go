package sched

import (
	"math"
	"testing"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
)

func TestPromptsGoWhereLittleWasPutLately(t *testing.T) {
	c := newScene(t, DefaultPolicy, 1)
	workers := c.workers(2)
	for i, w := range workers {
		w.SetInfo(fleet.Info{Models: []fleet.Model{{ID: "m"}}, KVTokensMax: 100_000 * (i + 1), At: c.now})
	}
	var got [2]int
	for i := range 3000 {
		d, r := c.must(unique(i, 10_000))
		got[d.Worker.Slot]++
		r.FirstToken(c.now)
		r.Release(c.now, fleet.Succeeded)
	}
	if got[0] < 950 || got[0] > 1050 {
		t.Errorf("of 3000 prompts %d went to the worker with a third of the cache", got[0])
	}
	for _, l := range c.s.slots {
		if !(l.filled > 0) || math.IsInf(l.filled, 0) {
			t.Errorf("%v tokens put in", l.filled)
		}
	}
}

// A stream would stand still for seconds beside it, and delays are priced by what the fleet has in flight on the mean.
func TestALongPrefillGoesWhereNobodyStreamsThoughThatCacheIsYounger(t *testing.T) {
	for seed := range uint64(5) {
		c := newScene(t, DefaultPolicy, seed)
		for _, w := range c.workers(2) {
			w.SetInfo(fleet.Info{Engine: "h100-8b", Models: []fleet.Model{{ID: "m"}}, KVTokensMax: 400_000, At: c.now})
		}
		first, r := c.must(unique(0, 2000))
		r.FirstToken(c.now)
		r.Release(c.now, fleet.Succeeded)
		stream, r := c.must(unique(1, 100))
		if r.FirstToken(c.now); stream.Worker == first.Worker {
			t.Fatalf("seed %d: the stream is where a prompt was put before", seed)
		}
		long := unique(2, 100_000)
		long.MaxTokens = 20
		if d, _ := c.must(long); d.Worker == stream.Worker {
			t.Errorf("seed %d: it goes beside a stream: %s", seed, d.Reason)
		}
	}
}

// A worker that joins late takes what is new until it is as full as the others, and no longer.
func TestANewcomerFillsUpAndThenTakesItsShare(t *testing.T) {
	c := newScene(t, DefaultPolicy, 1)
	info := fleet.Info{Models: []fleet.Model{{ID: "m"}}, KVTokensMax: 100_000, At: c.now}
	serve := func(from, n int) (got map[string]int) {
		got = map[string]int{}
		for i := range n {
			d, r := c.must(unique(from+i, 10_000))
			got[d.Worker.ID]++
			r.FirstToken(c.now)
			r.Release(c.now, fleet.Succeeded)
		}
		return got
	}
	for _, w := range c.workers(3) {
		w.SetInfo(info)
	}
	serve(0, 300)
	c.worker("late").SetInfo(info)
	if got := serve(300, 5); got["late"] != 5 {
		t.Errorf("of the first five prompts the empty worker got %d", got["late"])
	}
	serve(400, 50)
	if got := serve(500, 400); got["late"] < 80 || got["late"] > 120 {
		t.Errorf("of four hundred prompts the fourth worker got %d once it was full", got["late"])
	}
}

func TestAPromptThatIsLargerThanAllCachesLeavesTheScoresFinite(t *testing.T) {
	c := newScene(t, DefaultPolicy, 1)
	for _, w := range c.workers(2) {
		w.SetInfo(fleet.Info{Models: []fleet.Model{{ID: "m"}}, KVTokensMax: 100, At: c.now})
	}
	for i := range 5 {
		req := unique(i, 480)
		req.Bytes, req.PromptTokens = 0, 10_000_000
		d, r := c.must(req)
		r.Release(c.now, fleet.Cancelled)
		for _, row := range d.Rows {
			if math.IsNaN(row.TotalSeconds) || math.IsInf(row.TotalSeconds, 0) {
				t.Fatalf("prompt %d: %s costs %v s", i, row.ID, row.TotalSeconds)
			}
		}
	}
	for _, l := range c.s.slots {
		if math.IsNaN(l.filled) || math.IsInf(l.filled, 0) {
			t.Errorf("%v tokens put in", l.filled)
		}
	}
}

func TestAShortPromptRidesAlongInAStepAndTheSecondDoesNot(t *testing.T) {
	k := cost.Constants{A: 0.001, B: 1e-4, C: 1e-9, D0: 0.02}
	first := candidate{uncached: 150, booking: 0.001 + 0.015 + 0.00002}
	if got := first.lengthens(k); math.Abs(got-0.00102) > 1e-9 {
		t.Errorf("the first of a step makes it %.5f s longer", got)
	}
	second := first
	second.load.QueuedSeconds = first.booking
	if got := second.lengthens(k); math.Abs(got-(0.00102+0.01602-0.02+0.015)) > 1e-9 {
		t.Errorf("the second of a step makes it %.5f s longer", got)
	}
	long := candidate{uncached: 4000, booking: 0.001 + 0.4 + 0.016}
	if got := long.lengthens(k); math.Abs(got-(0.017+0.4-0.02)) > 1e-9 {
		t.Errorf("a long prompt makes its steps %.5f s longer", got)
	}
}
