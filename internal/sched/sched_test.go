package sched

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
)

// unique is a request that shares nothing with any other.
func unique(n, tokens int) Request {
	return Request{Model: "m", Chain: chainOf(uint64(n+1), tokens), Bytes: 4 * tokens, PromptTokens: tokens, SessionKey: uint64(n + 1), Streamed: true, Generates: true}
}

func (c *scene) must(req Request) (Decision, *fleet.Reservation) {
	c.t.Helper()
	d, r, err := c.s.Place(c.now, req)
	if err != nil {
		c.t.Fatal(err)
	}
	return d, r
}

func (c *scene) workers(n int) []*fleet.Worker {
	for i := range n {
		c.worker(fmt.Sprintf("w%d", i))
	}
	return c.f.Workers()
}

// PRF-01
func TestEqualWorkersShareSequentialRequestsUnderEveryPolicy(t *testing.T) {
	for _, policy := range PolicyNames() {
		c := newScene(t, policy, 3)
		c.workers(10)
		got := map[string]int{}
		for i := range 1000 {
			d, r := c.must(unique(i, 400))
			got[d.Worker.ID]++
			c.now = c.now.Add(10 * time.Millisecond)
			r.FirstToken(c.now)
			c.now = c.now.Add(time.Second)
			r.Release(c.now, fleet.Succeeded)
		}
		for id, n := range got {
			if n < 60 || n > 140 {
				t.Errorf("%s: %s got %d of 1000", policy, id, n)
			}
		}
	}
}

func TestTheLuckiestConstantsDoNotDrawAllIdleTraffic(t *testing.T) {
	c := newScene(t, "", 1)
	prior := cost.Options{Engines: map[string]cost.Constants{}}
	for i, w := range c.workers(10) {
		kind := fmt.Sprint("kind", i)
		prior.Engines[kind] = cost.Profiles["h100-8b"].Scaled(1 + 0.0015*float64(i))
		w.SetInfo(fleet.Info{Engine: kind, Models: []fleet.Model{{ID: "m"}}})
	}
	c.s = New(c.f, c.x, cost.NewBook(prior), nil, nil, Options{Seed: 1})
	got := map[string]int{}
	for i := range 1000 {
		d, r := c.must(unique(i, 400))
		got[d.Worker.ID]++
		r.Release(c.now, fleet.Succeeded)
	}
	for id, n := range got {
		if n < 60 || n > 140 {
			t.Errorf("%s got %d of 1000", id, n)
		}
	}
}

// PRF-01
func TestFirstPicksAfterRestartsDiffer(t *testing.T) {
	for _, policy := range PolicyNames() {
		got := map[string]bool{}
		for seed := range uint64(20) {
			c := newScene(t, policy, seed)
			c.workers(10)
			d, _ := c.must(unique(int(seed), 400))
			got[d.Worker.ID] = true
		}
		if len(got) < 6 {
			t.Errorf("%s: 20 first picks met only %d workers", policy, len(got))
		}
	}
}

// LOD-04
func TestABurstAtOneInstantSpreads(t *testing.T) {
	for _, policy := range []string{"warm-cost", "least-requests", "least-tokens", "round-robin"} {
		for round := range 20 {
			c := newScene(t, policy, uint64(round))
			c.workers(8)
			for i := range 64 {
				c.must(unique(64*round+i, 300))
			}
			for _, w := range c.f.Workers() {
				if n := w.InFlight(); n < 5 || n > 11 {
					t.Errorf("%s, round %d: %s got %d of 64", policy, round, w.ID, n)
				}
			}
		}
	}
}

// LOD-03
func TestABurstWithASharedPrefixDoesNotPinToOneWorker(t *testing.T) {
	c := newScene(t, "warm-cost", 1)
	c.workers(4)
	for range 100 {
		c.must(unique(7, 300))
	}
	for _, w := range c.f.Workers() {
		if n := w.InFlight(); n > 45 {
			t.Errorf("%s got %d of 100", w.ID, n)
		}
	}
}

func TestSiblingsInABurstMeet(t *testing.T) {
	c := newScene(t, "warm-cost", 1)
	for _, w := range c.workers(4) {
		for range 4 {
			c.f.Reserve(w, fleet.Need{PromptTokens: 500, Streamed: true}, c.now).FirstToken(c.now)
		}
	}
	first, _ := c.must(unique(7, 32_000))
	second, r := c.must(unique(7, 32_000))
	prompt, cached := r.Need()
	if second.Worker != first.Worker || second.Hit != Full || first.Hit != Miss || cached < 31_000 || prompt != 32_000 {
		t.Errorf("first %s %s, second %s %s with %d of %d cached", first.Worker.ID, first.Hit, second.Worker.ID, second.Hit, cached, prompt)
	}
}

// PRF-03
func TestAMissGoesWhereTheLoadIsLess(t *testing.T) {
	for _, policy := range []string{"warm-cost", "least-tokens", "least-requests"} {
		c := newScene(t, policy, 1)
		all := c.workers(3)
		for i := range 40 {
			c.f.Reserve(all[0], fleet.Need{PromptTokens: 6000, PrefillSeconds: 0.14, Streamed: true}, c.now)
			for _, w := range all[1:] {
				c.x.Enter(w.Slot, chainOf(uint64(5000+i), 9000), c.now.UnixNano())
			}
		}
		jammed := 0
		for i := range 100 {
			d, r := c.must(unique(i, 500))
			if d.Worker == all[0] {
				jammed++
			}
			if i%4 == 3 {
				r.Release(c.now, fleet.Succeeded)
			}
		}
		if jammed > 10 {
			t.Errorf("%s: the jammed worker got %d of 100", policy, jammed)
		}
	}
}

// HLT-04
func TestAWorkerThatFailsAtOnceDoesNotAttractTraffic(t *testing.T) {
	for _, policy := range []string{"warm-cost", "least-requests", "least-tokens"} {
		c := newScene(t, policy, 1)
		bad := c.workers(3)[0]
		var running []*fleet.Reservation
		failed, late := 0, 0
		for i := range 400 {
			c.now = c.now.Add(50 * time.Millisecond)
			if len(running) > 10 {
				running[0].Release(c.now, fleet.Succeeded)
				running = running[1:]
			}
			d, r := c.must(unique(i, 300))
			if d.Worker != bad {
				running = append(running, r)
				continue
			}
			failed++
			if failed > 10 {
				late++
			}
			c.f.Fault(bad, c.now, fleet.ServerError)
			r.Release(c.now, fleet.Failed)
		}
		if failed > 12 || late > 4 {
			t.Errorf("%s: the failing worker got %d of 400", policy, failed)
		}
	}
}

// TEL-03
func TestAFrozenIdleReportAttractsNoMoreThanItsShare(t *testing.T) {
	c := newScene(t, "warm-cost", 1)
	all := c.workers(3)
	report := func(w *fleet.Worker, strangers int) {
		w.Observe(fleet.Counts{Running: strangers + w.InFlight(), OursBefore: w.InFlight(), Has: fleet.HasRunning | fleet.HasWaiting, At: c.now})
	}
	report(all[0], 0)
	c.now = c.now.Add(6 * time.Second)
	got := map[*fleet.Worker]int{}
	var running []*fleet.Reservation
	for i := range 200 {
		c.now = c.now.Add(25 * time.Millisecond)
		report(all[1], 12)
		report(all[2], 12)
		d, r := c.must(unique(i, 300))
		r.FirstToken(c.now)
		got[d.Worker]++
		if running = append(running, r); len(running) > 40 {
			running[0].Release(c.now, fleet.Succeeded)
			running = running[1:]
		}
	}
	if n := got[all[0]]; n > 90 || n < 30 {
		t.Errorf("the silent worker got %d of 200", n)
	}
}

func TestSessionsStayWhenWorkersComeAndGo(t *testing.T) {
	owner := func(n, without int) map[int]string {
		c := newScene(t, "session-hash", 1)
		c.workers(n)
		if without >= 0 {
			c.f.Remove(fmt.Sprintf("w%d", without))
		}
		got := map[int]string{}
		for i := range 400 {
			d, r := c.must(unique(i, 100))
			got[i] = d.Worker.ID
			r.Release(c.now, fleet.Succeeded)
		}
		return got
	}
	all, fewer := owner(8, -1), owner(8, 3)
	for i, id := range all {
		if id != "w3" && fewer[i] != id {
			t.Errorf("session %d moved from %s to %s when w3 left", i, id, fewer[i])
		}
	}
}

func TestSessionHashBoundsItsLoad(t *testing.T) {
	c := newScene(t, "session-hash", 1)
	c.workers(4)
	for i := range 100 {
		req := unique(i, 100)
		req.SessionKey = 5
		c.must(req)
		most := 0
		for _, w := range c.f.Workers() {
			most = max(most, w.InFlight())
		}
		if float64(most) > 1.25*float64(i+1)/4+1 {
			t.Fatalf("after %d requests one worker has %d", i+1, most)
		}
	}
}

func TestAnErrorReservesNothing(t *testing.T) {
	c := newScene(t, "", 1)
	w := c.worker("a")
	c.f.Drain("a")
	if _, r, err := c.s.Place(c.now, unique(1, 100)); err == nil || r != nil || w.InFlight() != 0 || c.x.Stats().Blocks != 0 {
		t.Errorf("err %v, reservation %v, in flight %d, blocks %d", err, r, w.InFlight(), c.x.Stats().Blocks)
	}
}

func TestPoliciesSwitchAtRunTime(t *testing.T) {
	c := newScene(t, "", 1)
	c.workers(2)
	for _, name := range PolicyNames() {
		if err := c.s.SetPolicy(name); err != nil || c.s.Policy() != name {
			t.Errorf("%s: %v", name, err)
		}
		if d, _ := c.must(unique(1, 100)); d.Policy != name || d.Reason == "" {
			t.Errorf("%s: decision %+v", name, d)
		}
	}
	before := c.s.Policy()
	if err := c.s.SetPolicy("warmcost"); err == nil || c.s.Policy() != before {
		t.Errorf("an unknown policy: %v, now %s", err, c.s.Policy())
	}
}

// Every choice keeps the promises of the filters, and equal seeds give equal choices.
func TestRandomRequestsAlwaysKeepThePromises(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, policy := range PolicyNames() {
		a, b := promises(t, policy, seed), promises(t, policy, seed)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: equal seeds chose differently", policy)
		}
	}
}

func promises(t *testing.T, policy string, seed uint64) (chosen []string) {
	chance := rand.New(rand.NewPCG(seed, 4))
	c := newScene(t, policy, seed)
	for i, w := range c.workers(20) {
		models := []fleet.Model{{ID: "m", ContextMax: chance.IntN(3) * 4000}, {ID: fmt.Sprintf("x%d", i%3)}}
		w.SetInfo(fleet.Info{Models: models[chance.IntN(2):], KVTokensMax: chance.IntN(2) * 30_000, SlotsMax: chance.IntN(8), BlockTokens: 16, At: c.now})
	}
	var open []*fleet.Reservation
	for i := range 400 {
		c.now = c.now.Add(time.Duration(chance.IntN(20)) * time.Millisecond)
		w := c.f.Workers()[chance.IntN(20)]
		switch chance.IntN(12) {
		case 0:
			c.f.Fault(w, c.now, fleet.Reset)
		case 1:
			w.Busy(c.now, 0)
		case 2:
			c.f.Drain(w.ID)
		case 3, 4:
			c.f.Add(w.ID, w.URL, c.now)
		case 5, 6, 7:
			if len(open) > 0 {
				open[0].Release(c.now, fleet.Outcome(chance.IntN(4)))
				open = open[1:]
			}
		}
		req := unique(chance.IntN(30), 16+chance.IntN(6000))
		req.Model = []string{"m", "x0", "x1", ""}[chance.IntN(4)]
		for range chance.IntN(4) {
			req.Tried = append(req.Tried, c.f.Workers()[chance.IntN(20)])
		}
		d, r, err := c.s.Place(c.now, req)
		if err != nil {
			chosen = append(chosen, err.Error())
			continue
		}
		w = d.Worker
		if slices.Contains(req.Tried, w) || w.Draining() || (req.Model != "" && !w.Serves(req.Model)) || r.Worker() != w {
			t.Fatalf("%s, request %d: chose %s: %+v", policy, i, w.ID, req)
		}
		if len(d.Rows) > RowsMax || d.Rows[0].Worker != w || d.MatchedTokens > d.BestMatchedTokens || d.MatchedTokens > req.PromptTokens {
			t.Fatalf("%s, request %d: decision %+v", policy, i, d)
		}
		open, chosen = append(open, r), append(chosen, fmt.Sprint(i, w.ID, d.Rows[0].TotalSeconds))
		if chance.IntN(2) == 0 {
			r.FirstToken(c.now)
		}
	}
	return chosen
}

func TestADecisionAllocatesItsRowsAndItsReservation(t *testing.T) {
	c := newScene(t, "", 1)
	c.workers(64)
	req := unique(1, 480)
	var r *fleet.Reservation
	allocs := testing.AllocsPerRun(200, func() {
		_, r, _ = c.s.Place(c.now, req)
		r.Release(c.now, fleet.Succeeded)
	})
	if allocs > 2 {
		t.Errorf("%v allocations a decision", allocs)
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{8, 64, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newScene(nil, "", 1)
			for i := range n {
				w, _ := c.f.Add(fmt.Sprint("w", i), fmt.Sprint("http://w", i), c.now)
				w.SetInfo(fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: "m", ContextMax: 1 << 20}}, KVTokensMax: 400_000, SlotsMax: 256, BlockTokens: 16, At: c.now})
			}
			req := unique(1, 480)
			b.ReportAllocs()
			for b.Loop() {
				_, r, err := c.s.Place(c.now, req)
				if err != nil {
					b.Fatal(err)
				}
				r.Release(c.now, fleet.Succeeded)
			}
		})
	}
}
