package main

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/sched"
)

// What engines tell of their caches, in the whole product: tellers over real sockets, requests over HTTP. The rooms' own tests have the
// finer points: kvevent (order, decoding), kvindex (copies, tiers, bounds), kvfeed (connections).

func TestKVE_01_ARestartedEngineWithoutReplayIsNotCreditedWithItsOldCache(t *testing.T) {
	w1, w2 := newTeller(t, false), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	p, q := cached(long("P"), kvevent.Event{}), cached(long("Q"), kvevent.Event{})
	for i := range 10 {
		w1.say(p[i*len(p)/10 : (i+1)*len(p)/10]...)
	}
	rt.heard("w1", w1, kvevent.Exact)
	rt.wantCredit("before", chat(long("P"), false), map[string]int{"w1": len(p), "w2": 0})
	w1.publishAt(w1.die())
	w1.awaitSubscriber()
	w1.say(q...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.wantCredit("P after the restart", chat(long("P"), false), map[string]int{"w1": 0, "w2": 0})
	rt.wantCredit("Q after the restart", chat(long("Q"), false), map[string]int{"w1": len(q), "w2": 0})
	by := map[string]int{}
	for range 50 {
		_, chosen := rt.credit(chat(long("P"), false))
		by[chosen]++
	}
	if by["w1"] < 8 || by["w1"] > 42 { // 4.8 deviations
		t.Errorf("of 50 requests with P, %d go to the engine that restarted", by["w1"])
	}
}

func TestKVE_02_ALostMessageIsReplayedOrCostsAllCredit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replays, dies bool
		state         kvevent.State
	}{"replayed": {true, false, kvevent.Exact}, "without replay": {false, false, kvevent.Partial}, "replay is dead": {true, true, kvevent.Partial}} {
		t.Run(name, func(t *testing.T) {
			w1, w2 := newTeller(t, c.replays), newTeller(t, true)
			rt := startTold(t, nil, w1, w2)
			p, other := cached(long("P"), kvevent.Event{}), cached(long("other"), kvevent.Event{})
			w1.say(p...)
			w1.say(p...) // a second copy: what is replayed may not be applied twice
			rt.heard("w1", w1, kvevent.Exact)
			if c.dies {
				w1.replay.Close()
			}
			w1.lose(gone(p, kvindex.GPU)...)
			w1.say(other...)
			rt.heard("w1", w1, c.state)
			if rt.metric("warmpath_events_troubles_total", `worker="w1"`, `kind="gap"`) != 1 || rt.metric("warmpath_events_state", `worker="w1"`, `state="`+string(c.state)+`"`) != 1 {
				t.Error("the metrics do not show the gap")
			}
			if c.state != kvevent.Exact {
				if got, _ := rt.credit(chat(long("P"), false)); got["w1"] != 0 || len(got) != 1 {
					t.Errorf("the credit is %v", got)
				}
				return
			}
			rt.wantCredit("one copy is left", chat(long("P"), false), map[string]int{"w1": len(p), "w2": 0})
			w1.say(gone(p, kvindex.GPU)...)
			rt.heard("w1", w1, kvevent.Exact)
			rt.wantCredit("none is left", chat(long("P"), false), map[string]int{"w1": 0, "w2": 0})
		})
	}
}

func TestKVE_03_ARouterThatStartsLaterKnowsWhatWasStoredBefore(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	p := cached(long("P"), kvevent.Event{})
	w1.say(p[:2]...)
	rt := startTold(t, nil, w1, w2)
	w1.say(p[2:]...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.wantCredit("the whole chain", chat(long("P"), false), map[string]int{"w1": len(p), "w2": 0})
}

func TestKVE_03_WithoutReplayAChainIsWholeOnceItsBeginningIsStoredAgain(t *testing.T) {
	w1 := newTeller(t, false)
	p := cached(long("P"), kvevent.Event{})
	w1.say(p[:2]...)
	rt := startTold(t, nil, w1)
	w1.say(p[2:]...)
	rt.heard("w1", w1, kvevent.Partial)
	orphans := func() int { return rt.exact.feeds.Statuses()[0].Orphans }
	if n := orphans(); n != len(p)-2 {
		t.Errorf("%d blocks wait for their parents, want %d", n, len(p)-2)
	}
	w1.say(append([]kvevent.Event{{Kind: kvevent.Cleared}}, p...)...)
	rt.heard("w1", w1, kvevent.Exact)
	if got, _ := rt.credit(chat(long("P"), false)); got["w1"] != len(p) || orphans() != 0 {
		t.Errorf("the credit is %v, %d blocks wait", got, orphans())
	}
}

func TestKVE_04_AClearedCacheIsEmptyAndNobodyElses(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	p, q := cached(long("P"), kvevent.Event{}), cached(long("Q"), kvevent.Event{})
	w2.say(p...)
	w1.say(append(append(p, kvevent.Event{Kind: kvevent.Cleared}), q...)...) // in the middle of a batch
	rt.heard("w1", w1, kvevent.Exact)
	rt.heard("w2", w2, kvevent.Exact)
	rt.wantCredit("what was cleared", chat(long("P"), false), map[string]int{"w1": 0, "w2": len(p)})
	rt.wantCredit("what was stored after", chat(long("Q"), false), map[string]int{"w1": len(q), "w2": 0})
}

func TestKVE_05_EventsThatCannotBeReadAreSeenAndRoutingGoesOn(t *testing.T) {
	w1, w2 := newTeller(t, false), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	p := cached(long("P"), kvevent.Event{})
	w1.say(p...)
	rt.heard("w1", w1, kvevent.Exact)
	for range 5 {
		w1.sayRaw(true, []byte{0x93, 0xcb, 'x'})
	}
	rt.heard("w1", w1, kvevent.Partial)
	if n := rt.metric("warmpath_events_messages_total", `worker="w1"`, `kind="undecodable"`); n != 5 {
		t.Errorf("the metric says %v", n)
	}
	if s := rt.worker("w1").Cache; s.Mode == "exact" || s.Why == "" {
		t.Errorf("the state is %+v", s)
	}
	if got, _ := rt.credit(chat(long("P"), false)); got["w1"] != 0 {
		t.Errorf("the credit is %v", got)
	}
	w1.say(append([]kvevent.Event{{Kind: kvevent.Cleared}}, p...)...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.wantCredit("what can be read again", chat(long("P"), false), map[string]int{"w1": len(p), "w2": 0})
}

func TestKVE_07_SlowerMemoryIsWorthLessThanTheGPUAndMoreThanNothing(t *testing.T) {
	w1, w2, w3 := newTeller(t, true), newTeller(t, true), newTeller(t, true)
	rt := startTold(t, func(c *config.Config) { c.Policy = sched.DefaultPolicy }, w1, w2, w3)
	fast, slow := cached(long("P"), kvevent.Event{}), cached(long("P"), kvevent.Event{Tier: kvindex.CPU})
	w1.say(slow...)
	w2.say(append(fast, slow...)...)
	w3.say(cached(long("Q"), kvevent.Event{})...)
	for id, e := range map[string]*teller{"w1": w1, "w2": w2, "w3": w3} {
		rt.heard(id, e, kvevent.Exact)
	}
	all := map[string]int{"w1": len(fast), "w2": len(fast), "w3": 0}
	for range 3 {
		if got, chosen := rt.credit(chat(long("P"), false)); chosen != "w2" || !maps.Equal(got, all) {
			t.Errorf("%s was chosen and the credit is %v, want the one that has it in its GPU", chosen, got)
		}
	}
	w2.say(gone(fast, kvindex.GPU)...)
	rt.heard("w2", w2, kvevent.Exact)
	rt.wantCredit("the copy in host memory stays", chat(long("P"), false), all)
	rows, chosen := rt.decided("/v1/chat/completions", chat(long("P"), false))
	prefill := map[string]float64{}
	for _, row := range rows {
		prefill[row.Worker] = row.Prefill
	}
	if chosen == "w3" || max(prefill["w1"], prefill["w2"]) >= prefill["w3"] {
		t.Errorf("%s was chosen, prefills are %v: want one of the two that have it in host memory", chosen, prefill)
	}
}

func TestKVE_08_OneOfTwoCopiesIsEnough(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	p := cached(long("P"), kvevent.Event{})
	say := func(events ...kvevent.Event) {
		w1.say(events...)
		rt.heard("w1", w1, kvevent.Exact)
	}
	say(append(p, p...)...)
	say(gone(p, kvindex.GPU)...)
	rt.wantCredit("after one removal of two", chat(long("P"), false), map[string]int{"w1": len(p), "w2": 0})
	say(append(gone(p, kvindex.GPU), gone(p, kvindex.GPU)...)...) // the second is of what is not there
	rt.wantCredit("after the second", chat(long("P"), false), map[string]int{"w1": 0, "w2": 0})
	say(p...)
	rt.wantCredit("stored again", chat(long("P"), false), map[string]int{"w1": len(p), "w2": 0})
}

func TestKVE_09_AnUnknownBlockStopsNoRemoval(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	p := cached(long("P"), kvevent.Event{})
	names := []uint64{}
	for i, e := range p {
		if names = append(names, e.Names...); i == 10 {
			names = append(names, 4711)
		}
	}
	w1.say(p...)
	w1.say(kvevent.Event{Kind: kvevent.Removed, Names: names})
	rt.heard("w1", w1, kvevent.Exact)
	rt.wantCredit("all were removed", chat(long("P"), false), map[string]int{"w1": 0, "w2": 0})
	if n := rt.metric("warmpath_events_worker_blocks", `worker="w1"`); n != 0 {
		t.Errorf("%v blocks are left", n)
	}
}

func TestIDX_03_AWorkerThatReturnsHasNothingOfItsOldCache(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	p := cached(long("P"), kvevent.Event{})
	w1.say(p...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.wantCredit("before", chat(long("P"), false), map[string]int{"w1": len(p), "w2": 0})
	if status := rt.adminCall(http.MethodDelete, "/workers/w1", "", nil); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	eventually(t, "the engine that is left to be asked for tokens", func() bool { got, _ := rt.credit(chat(long("P"), false)); return len(got) == 1 })
	rt.wantCredit("while it is out", chat(long("P"), false), map[string]int{"w2": 0})
	eventually(t, "its blocks to be gone", func() bool { return rt.metric("warmpath_events_index_memberships") == 0 })
	w1.publishAt(w1.die())
	if status := rt.adminCall(http.MethodPost, "/workers", `{"id":"w1","url":"`+w1.url+`"}`, nil); status != http.StatusCreated {
		t.Fatalf("status %d", status)
	}
	w1.awaitSubscriber()
	rt.heard("w1", w1, kvevent.Exact)
	rt.wantCredit("when it is back", chat(long("P"), false), map[string]int{"w1": 0, "w2": 0})
}

func TestIDX_03_WhereCachesAreAssumedNobodyInheritsARemovedWorkers(t *testing.T) {
	workers := map[string]*worker{"w1": newWorker(t, nil), "w2": newWorker(t, nil)}
	rt := start(t, func(c *config.Config) { c.ExplainHeaders, c.Policy = true, "affinity-filter" }, workers["w1"], workers["w2"])
	const path = "/v1/chat/completions"
	_, gone := rt.matched(path, chat(long("P"), false))
	if matched, chosen := rt.matched(path, chat(long("P"), false)); chosen != gone || matched[gone] == 0 {
		t.Fatalf("%s was chosen, and then %s; matched %v", gone, chosen, matched)
	}
	if status := rt.adminCall(http.MethodDelete, "/workers/"+gone, "", nil); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	for id, url := range map[string]string{"another": newWorker(t, nil).url, gone: workers[gone].url} { // each may get its place in the tables
		if status := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"id":%q,"url":%q,"model":"m"}`, id, url), nil); status != http.StatusCreated {
			t.Fatalf("status %d", status)
		}
		if matched, _ := rt.matched(path, chat(long("P"), false)); matched[id] != 0 {
			t.Errorf("%s matches %v before it was sent anything", id, matched)
		}
	}
}

func TestHowLateEventsComeIsToldOfEachWorkerWhoseEventsSayWhenTheyWereMade(t *testing.T) {
	t.Parallel()
	const off = -2 * time.Hour // the first engine's clock
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, nil, w1, w2)
	sayAt := func(made time.Time) {
		w1.sayRaw(true, kvevent.AppendBatch(nil, float64(made.UnixNano())/1e9, 0, cached(long("P"), kvevent.Event{})))
		rt.heard("w1", w1, kvevent.Exact)
	}
	for range 10 {
		sayAt(time.Now().Add(off))
		w2.say(cached(long("P"), kvevent.Event{})...)
	}
	rt.heard("w2", w2, kvevent.Exact)
	page := read(rt.http.Get(rt.AdminURL() + "/metrics")).body
	if !strings.Contains(page, `warmpath_events_lag_seconds{worker="w1"}`) || strings.Contains(page, `warmpath_events_lag_seconds{worker="w2"}`) {
		t.Error("a lag is missing, or is told of events without a time")
	}
	if s := rt.worker("w1").Cache; s.LagSeconds == nil || *s.LagSeconds > 60 || s.OffsetSeconds == nil || *s.OffsetSeconds < -off.Seconds() {
		t.Errorf("%+v", s)
	}
	sayAt(time.Now().Add(off - 5*time.Minute))
	if lag := rt.metric("warmpath_events_lag_seconds", `worker="w1"`); lag < 240 {
		t.Errorf("five minutes late: %v s", lag)
	}
	if s := rt.worker("w1").Cache; !strings.Contains(s.Why, "late in the last minute") || s.Mode != "engine-side" {
		t.Errorf("%+v", s)
	}
	var found checksFound
	rt.adminCall(http.MethodGet, "/checks?worker=w1", "", &found)
	if text := fmt.Sprint(found); !strings.Contains(text, "cache events partly") || !strings.Contains(text, "late in the last minute") {
		t.Error(text)
	}
}
