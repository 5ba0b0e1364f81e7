package sched

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
)

func TestWhatAPromptDisplacesIsAsOldAsTheCacheIsDeep(t *testing.T) {
	var f fill
	start := time.Unix(1000, 0)
	if age, filled := f.age(start); age != 0 || filled != 0 {
		t.Errorf("nothing known: age %v, filled %v", age, filled)
	}
	for second := range 300 {
		now := start.Add(time.Duration(second) * time.Second)
		f.put(now, 1280, 128_000)
		age, filled := f.age(now)
		switch {
		case second < 99 && !(math.IsInf(age, 1) && filled == float64(1280*(second+1))):
			t.Fatalf("after %d s with room left: age %v, filled %v", second, age, filled)
		case second >= 100 && math.Abs(age-100) > 1:
			t.Fatalf("after %d s, 1 %% of the cache each: age %v", second, age)
		}
	}
	f.put(start, 1<<40, 128_000)
	if age, _ := f.age(start.Add(time.Second)); age != 1 {
		t.Errorf("after a prompt larger than the cache: age %v", age)
	}
}

func TestANewPromptGoesWhereItDisplacesWhatIsOldest(t *testing.T) {
	c := newScene(t, DefaultPolicy, 1)
	workers := slices.Clone(c.workers(4))
	for _, w := range workers {
		w.SetInfo(fleet.Info{Models: []fleet.Model{{ID: "m"}}, KVTokensMax: 100_000, At: c.now})
	}
	for round := range 3 {
		for i := range workers {
			d, r := c.must(unique(100*round+i, 50_000))
			if round > 0 && d.Worker != workers[i] {
				t.Errorf("round %d: the prompt went to %s, the oldest is on %s", round, d.Worker.ID, workers[i].ID)
			} else if round == 0 {
				workers[i] = d.Worker
			}
			r.FirstToken(c.now)
			r.Release(c.now, fleet.Succeeded)
			c.now = c.now.Add(time.Minute)
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
