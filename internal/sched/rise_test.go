package sched

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// settled has a scene of so many workers with a slow start of ten seconds, all past it but the first, which came in this moment.
func settled(t *testing.T, policy string, workers int) (c *scene, all []*fleet.Worker) {
	c = newScene(t, policy, 1)
	c.f.Use(fleet.Options{SlowStart: 10 * time.Second})
	for i := range workers - 1 {
		all = append(all, c.worker(string(rune('b'+i))))
	}
	c.now = c.now.Add(time.Minute)
	return c, append([]*fleet.Worker{c.worker("a")}, all...)
}

func TestOneThatComesGetsAGrowingPartUnderEveryPolicy(t *testing.T) {
	for _, policy := range PolicyNames() {
		c, all := settled(t, policy, 4)
		spread := func(n int) {
			for i := range n {
				c.must(unique(i, 300))
			}
		}
		spread(40)
		if n := all[0].InFlight(); n > 1 {
			t.Errorf("%s: at once it has %d of 40 in flight", policy, n)
		}
		c.now = c.now.Add(5 * time.Second)
		spread(60)
		if n, others := all[0].InFlight(), (100-all[0].InFlight())/3; n > others/2+1 {
			t.Errorf("%s: halfway it has %d in flight, the others %d each", policy, n, others)
		}
	}
}

func TestWhereAllAreNewOrNobodyElseCanNobodyRisesSlowly(t *testing.T) {
	c, all := settled(t, "least-requests", 2)
	if err := c.f.Drain("b"); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		c.must(unique(i, 300))
	}
	if n := all[0].InFlight(); n != 30 {
		t.Errorf("the only one has %d of 30", n)
	}
	c = newScene(t, "least-requests", 1)
	c.f.Use(fleet.Options{SlowStart: 10 * time.Second})
	all = c.workers(3)
	for i := range 30 {
		c.must(unique(i, 300))
	}
	for _, w := range all {
		if w.InFlight() != 10 {
			t.Errorf("of 30 requests to three that are new, %s has %d", w.ID, w.InFlight())
		}
	}
}

func TestOneInItsSlowStartTakesWhatTheOthersHaveNoRoomFor(t *testing.T) {
	c, all := settled(t, "least-requests", 2)
	all[1].SetInFlightMax(2)
	for i := range 10 {
		c.must(unique(i, 300))
	}
	if n := all[0].InFlight(); n != 8 {
		t.Errorf("it has %d of the 8 beyond the other's cap", n)
	}
}

func TestWhereItIsStrictNobodyThatIsOutIsAsked(t *testing.T) {
	for _, strict := range []bool{false, true} {
		c := newScene(t, "warm-cost", 1)
		c.f.Use(fleet.Options{Strict: strict})
		all := c.workers(2)
		for _, w := range all {
			for range 3 {
				c.f.Fault(w, c.now, fleet.Reset)
			}
		}
		if !strict {
			if err := c.f.Drain(all[1].ID); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := c.s.Place(c.now, unique(1, 300))
		var nobody *ErrNoWorker
		if refused := errors.As(err, &nobody) && strings.Contains(err.Error(), "2 of 2 ejected"); refused != strict {
			t.Errorf("strict %v: %v", strict, err)
		}
		if strict {
			c.now = c.now.Add(time.Second)
			c.must(unique(2, 300)) // the probe
		}
	}
}
