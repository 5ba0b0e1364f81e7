package sched

import (
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prefix"
)

// told is a prompt of so many tokens in blocks of 16, of which the workers say that they hold so many leading blocks.
func told(n, tokens int, depth ...int32) Request {
	r := unique(n, tokens)
	keys := make([]prefix.Key, tokens/16)
	for i := range keys {
		keys[i] = prefix.Key(1_000_000*(n+1) + i)
	}
	r.Known = []Known{{BlockTokens: 16, Keys: keys, Depth: depth, Fast: depth}}
	return r
}

func (c *scene) tellers(n int) []*fleet.Worker {
	for _, w := range c.workers(n) {
		w.SetInfo(fleet.Info{Engine: "sim", Models: []fleet.Model{{ID: "m"}}, BlockTokens: 16, KVTokensMax: 1 << 20, SlotsMax: 256})
	}
	return c.f.Workers()
}

func TestWhatAWorkerTellsGoesBeforeWhatIsAssumed(t *testing.T) {
	c := newScene(t, "", 1)
	w := c.tellers(2)
	first, r := c.must(unique(1, 4000)) // assumed there from now on
	r.Release(c.now, fleet.Succeeded)
	other := w[1-first.Worker.Slot]

	depth := make([]int32, 2)
	depth[other.Slot] = 200
	d, r := c.must(told(1, 4000, depth...))
	if d.Worker != other || d.MatchedTokens != 3200 || !d.ByEvents || d.ToldTokens != 3200 {
		t.Errorf("chose %s with %d tokens, by events %v; want %s with the 3200 that it told", d.Worker.ID, d.MatchedTokens, d.ByEvents, other.ID)
	}
	r.Release(c.now, fleet.Succeeded)
}

func TestWhatNobodyToldIsAssumed(t *testing.T) {
	c := newScene(t, "", 1)
	c.tellers(2)
	first, r := c.must(unique(1, 4000))
	r.Release(c.now, fleet.Succeeded)
	for name, depth := range map[string][]int32{"not known": {-1, -1}, "slots that came later": nil} {
		d, r := c.must(told(1, 4000, depth...))
		if d.Worker != first.Worker || d.MatchedTokens < 3900 || d.ByEvents || d.ToldTokens != -1 {
			t.Errorf("%s: %+v", name, d)
		}
		r.Release(c.now, fleet.Succeeded)
	}
	other := told(1, 4000, 0, 0)
	other.Known[0].BlockTokens = 32
	if d, _ := c.must(other); d.ByEvents {
		t.Errorf("blocks of another size were taken for the worker's: %+v", d)
	}
}

func TestAWorkerWhoseWordIsDoubtedIsAssumedAndItsWordIsKeptToCompare(t *testing.T) {
	c := newScene(t, "", 1)
	w := c.tellers(1)
	w[0].Doubt(true)
	d, _ := c.must(told(1, 4000, 200))
	if d.ByEvents || d.MatchedTokens != 0 || d.ToldTokens != 3200 {
		t.Errorf("%+v", d)
	}
}

func TestSiblingsOfABurstMeetBeforeAnyEventComes(t *testing.T) {
	c := newScene(t, "", 1)
	c.tellers(4)
	first, r := c.must(told(1, 8000, 0, 0, 0, 0))
	second, q := c.must(told(1, 8000, 0, 0, 0, 0))
	for _, row := range second.Rows {
		if want := map[bool]int{true: 7984}[row.Worker == first.Worker]; row.MatchedTokens != want {
			t.Errorf("%s counts for %d tokens, want %d; the first is on %s", row.ID, row.MatchedTokens, want, first.Worker.ID)
		}
	}
	for _, each := range []struct {
		d *Decision
		r *fleet.Reservation
	}{{&first, r}, {&second, q}} {
		course := Follow(each.d, each.r, c.now)
		c.s.Release(&course, prefix.Chain{}, c.now, fleet.Succeeded, true)
	}
	if d, _ := c.must(told(1, 8000, 0, 0, 0, 0)); d.ToldTokens != 0 {
		t.Errorf("%d tokens are expected of requests that have ended", d.ToldTokens)
	}
}

func TestOnlyTheNewestRequestsAreExpected(t *testing.T) {
	c := newScene(t, "", 1)
	w := c.tellers(1)
	for i := range 3 * expectedMax {
		c.must(told(i, 400, 0))
	}
	if n := len(c.s.slot(w[0]).expected); n != expectedMax {
		t.Errorf("%d are kept, the bound is %d", n, expectedMax)
	}
}

func TestBlocksInSlowerMemoryCostTheirLoading(t *testing.T) {
	c := newScene(t, "", 1)
	c.tellers(2)
	r := told(1, 8000, 400, 400)
	r.Known[0].Fast, r.Generates = []int32{0, 400}, false
	d, _ := c.must(r)
	if d.Worker.Slot != 1 || d.Rows[1].PrefillSeconds <= d.Rows[0].PrefillSeconds {
		t.Errorf("chose %s: %+v", d.Worker.ID, d.Rows)
	}
}

func TestKVE07AmongEqualsACopyInTheGPUGoesBeforeOneInSlowerMemory(t *testing.T) {
	c := newScene(t, "", 1)
	c.tellers(3)
	for range 20 { // the answer is long, so that the few milliseconds of loading are within a tie
		r := told(1, 2000, 125, 125, 0)
		r.Known[0].Fast = []int32{0, 125, 0}
		d, booked := c.must(r)
		if d.Worker.Slot != 1 {
			t.Fatalf("chose %s: %+v", d.Worker.ID, d.Rows)
		}
		booked.Release(c.now, fleet.Succeeded)
		r.Known[0].Fast = []int32{0, 0, 0}
		if d, booked = c.must(r); d.Worker.Slot == 2 {
			t.Fatalf("chose %s, which has nothing: %+v", d.Worker.ID, d.Rows)
		}
		booked.Release(c.now, fleet.Succeeded)
	}
}
