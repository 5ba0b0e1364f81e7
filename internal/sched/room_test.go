package sched

import (
	"errors"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prefix"
)

// waiting is a request that may wait.
func waiting(n, tokens int) Request {
	r := unique(n, tokens)
	r.MayWait = true
	return r
}

func (c *scene) full(req Request) *ErrNoRoom {
	c.t.Helper()
	_, _, err := c.s.Place(c.now, req)
	var full *ErrNoRoom
	if !errors.As(err, &full) {
		c.t.Fatalf("placed, or %v, though nobody has room", err)
	}
	return full
}

func TestARequestThatMayWaitIsPlacedAsLongAsAnybodyHasRoom(t *testing.T) {
	c := newScene(t, "", 1)
	c.tellers(2)
	for i := range 10 {
		r := waiting(i, 20_000)
		plain, p, err := c.s.Place(c.now, unique(100+i, 20_000))
		if err != nil {
			t.Fatal(err)
		}
		p.Release(c.now, fleet.Succeeded)
		d, _, err := c.s.Place(c.now, r)
		if err != nil {
			break
		}
		if d.Worker != plain.Worker && d.Rows[0].TotalSeconds > plain.Rows[0].TotalSeconds*1.02 {
			t.Errorf("request %d: it may wait, and goes to %s, else it would to %s", i, d.Worker.ID, plain.Worker.ID)
		}
	}
	full := c.full(waiting(9, 20_000))
	if full.Cost.Prefill < 0.5 || full.Cost.Decode <= 0 {
		t.Errorf("its cost is %+v", full.Cost)
	}
	if d, _ := c.must(unique(9, 20_000)); d.Worker == nil {
		t.Error("one that may not wait was not placed")
	}
}

func TestWorkersHaveNoRoomBeyondTheirSlotsAndTheirMemory(t *testing.T) {
	for name, info := range map[string]fleet.Info{
		"slots":  {SlotsMax: 4, KVTokensMax: 1 << 20},
		"memory": {SlotsMax: 256, KVTokensMax: 2_500},
	} {
		c := newScene(t, "", 1)
		w := c.tellers(1)
		info.Models, info.BlockTokens = w[0].Info().Models, 16
		w[0].SetInfo(info)
		placed := 0
		for i := range 20 {
			d, r, err := c.s.Place(c.now, waiting(i, 400))
			if err != nil {
				break
			}
			course := Follow(&d, r, c.now)
			c.s.FirstToken(&course, c.now)
			placed++
		}
		if placed < 4 || placed > 6 {
			t.Errorf("%s: %d were placed", name, placed)
		}
		c.full(waiting(99, 400))
	}
}

func TestWhatHasWaitedGoesOnlyWhereThereIsRoom(t *testing.T) {
	c := newScene(t, "", 1)
	w := c.tellers(2)
	r := told(1, 40_000, 0, 0)
	r.Known[0].Depth = []int32{2500, 0} // all of it is warm on the first, which is busy
	for i := range 3 {
		c.f.Reserve(w[0], fleet.Need{PromptTokens: 20_000, PrefillSeconds: 1, Streamed: true}, c.now.Add(time.Duration(i)))
	}
	r.MayWait, r.Waited = true, true
	d, _ := c.must(r)
	if d.Worker != w[1] || d.Rows[1].Why != "no room at present" {
		t.Errorf("it went to %s: %+v", d.Worker.ID, d.Rows)
	}
}

func TestHeavyPrefillsTakeOneLaneAWorkerAndNeverTheLastLightOne(t *testing.T) {
	c := newScene(t, "", 1)
	c.tellers(3)
	c.s.room.LightShare = 0.34
	heavy := func(n int) Request {
		r := waiting(n, 60_000)
		r.Heavy = true
		return r
	}
	var courses []Course
	for i := range 2 {
		d, r := c.must(heavy(i))
		courses = append(courses, Follow(&d, r, c.now))
	}
	if courses[0].worker == courses[1].worker {
		t.Errorf("both are on %s", courses[0].worker.ID)
	}
	c.full(heavy(2))
	if d, _ := c.must(waiting(3, 400)); d.Worker == courses[0].worker || d.Worker == courses[1].worker {
		t.Errorf("a light one went behind a heavy one, on %s", d.Worker.ID)
	}
	c.s.FirstToken(&courses[0], c.now)
	if d, _ := c.must(heavy(2)); d.Worker == courses[1].worker {
		t.Errorf("it went to %s, whose lane is taken", d.Worker.ID)
	}
	c.s.Release(&courses[1], prefix.Chain{}, c.now, fleet.Succeeded, true)
	c.must(heavy(4))
}

func TestAPriceIsWorkedOutWithoutATrace(t *testing.T) {
	c := newScene(t, "", 1)
	c.tellers(2)
	cost, err := c.s.Price(c.now, unique(1, 8000))
	if err != nil || cost.Prefill <= 0 || cost.Seconds() <= cost.Prefill {
		t.Errorf("%+v, %v", cost, err)
	}
	for _, w := range c.f.Workers() {
		if w.InFlight() != 0 {
			t.Errorf("%s has %d in flight", w.ID, w.InFlight())
		}
	}
	if _, err := c.s.Price(c.now, Request{Model: "other"}); err == nil {
		t.Error("a model that nobody serves has a price")
	}
}

func TestAnEngineThatSharesItsStepsHasRoomBehindALongPrompt(t *testing.T) {
	for _, shares := range []bool{false, true} {
		c := newScene(t, "", 1)
		w := c.tellers(1)[0]
		info := w.Info()
		info.SharesSteps = shares
		w.SetInfo(info)
		c.f.Reserve(w, fleet.Need{PromptTokens: 60_000, PrefillSeconds: 5, Streamed: true}, c.now)
		if _, _, err := c.s.Place(c.now, waiting(1, 400)); (err == nil) != shares {
			t.Errorf("shares its steps %v: %v", shares, err)
		}
	}
}
