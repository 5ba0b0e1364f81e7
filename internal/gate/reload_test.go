package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/heavy"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/room"
	"github.com/warmpath/warmpath/internal/upstream"
)

// other are settings as pooled has them, to be changed.
func other(t *testing.T, o pools.Options) Settings {
	t.Helper()
	set, problems := pools.New(o)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return Settings{Fleet: fleet.DefaultOptions(), Room: room.DefaultLimits(), Pools: set, Prices: func(string) cost.Price { return cost.Price{} },
		Queue: &QueueOptions{Options: flow.DefaultOptions(), Heavy: heavy.Rule{Seconds: 1e-3}}}
}

func twoPools(first string) pools.Options {
	return pools.Options{Pools: []pools.Pool{{Name: "short"}, {Name: "long"}}, Default: first}
}

func TestOtherPoolsAndLabelsHoldFromTheNextRequestOnAndCountsStay(t *testing.T) {
	g := pooled(t, true, twoPools("short"), "short-1", "long-1")
	e, at := g.goes(t, nil)
	if at != "short-1" {
		t.Fatal(at)
	}
	g.Release(&e.a, e.req.Chain, fleet.Succeeded, true)
	s := other(t, twoPools("long"))
	s.Labels = map[string][]string{"short-1": {"pool=long"}, "long-1": {"pool=short"}, "nobody": {"pool=short"}}
	if err := g.Use(s); err != nil {
		t.Fatal(err)
	}
	if _, at := g.goes(t, nil); at != "short-1" {
		t.Errorf("the pool long is short-1 now, and the request went to %s", at)
	}
	for _, p := range g.PoolStats() {
		if p.Pool != "any" && p.Requests != 1 {
			t.Errorf("pool %s counts %d requests, want 1", p.Pool, p.Requests)
		}
	}
}

func TestWhoWaitsWhenPoolsChangeGoesWhereTheNewOnesSay(t *testing.T) {
	g := pooled(t, true, twoPools("short"), "short-1", "long-1")
	g.View(func(v View) {
		for _, w := range v.Workers {
			one(w)
		}
	})
	g.full(t)
	e := g.enter(t.Context(), 1)
	g.inside(t, 1)
	if err := g.Use(other(t, twoPools("long"))); err != nil {
		t.Fatal(err)
	}
	if e.placed(t); e.a.Worker.ID != "long-1" {
		t.Errorf("it went to %s", e.a.Worker.ID)
	}
	s := other(t, twoPools("long"))
	s.Pools = nil
	if err := g.Use(s); err != nil || len(g.PoolStats()) != 0 {
		t.Errorf("without pools: %v, %+v", err, g.PoolStats())
	}
}

func TestSettingsThatCannotBeChangeNothing(t *testing.T) {
	g := pooled(t, true, twoPools("short"), "short-1", "long-1")
	for want, change := range map[string]func(*Settings){
		"unknown policy":  func(s *Settings) { s.Policy = "luck" },
		"restart only":    func(s *Settings) { s.Queue.Classes = s.Queue.Classes[:2] },
		"queue.enabled":   func(s *Settings) { s.Queue = nil },
		"multiple":        func(s *Settings) { s.Queue.Heavy = heavy.Rule{Multiple: -1} },
		"classes[0].name": func(s *Settings) { s.Queue.Classes[0].Name = "urgent" },
	} {
		s := other(t, twoPools("long"))
		s.Policy, s.Dial = "round-robin", &upstream.Options{}
		change(&s)
		if err := g.Use(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if g.Policy() == "round-robin" {
			t.Fatalf("%s: the policy changed all the same", want)
		}
	}
	if _, at := g.goes(t, nil); at != "short-1" {
		t.Errorf("a request went to %s", at)
	}
}

func TestWorkersAreReachedAnewWithWhatIsKnownOfThem(t *testing.T) {
	g := pooled(t, false, twoPools("short"), "short-1")
	before, _ := g.goes(t, nil)
	s := other(t, twoPools("short"))
	s.Queue, s.Dial = nil, &upstream.Options{HeaderTimeout: time.Second}
	if err := g.Use(s); err != nil {
		t.Fatal(err)
	}
	after, at := g.goes(t, nil)
	if at != "short-1" || after.a.Client == before.a.Client || after.a.Worker != before.a.Worker || after.a.Gone != before.a.Gone {
		t.Errorf("%s: %+v, %+v", at, before.a.Endpoint, after.a.Endpoint)
	}
	if after.a.Decision.MatchedTokens == 0 {
		t.Error("its cache is forgotten")
	}
	if err := g.Adjust("short-1", 7); err != nil || after.a.Worker.InFlightMax() != 7 {
		t.Errorf("%v, %d", err, after.a.Worker.InFlightMax())
	}
	if err := g.Adjust("nobody", 7); err == nil {
		t.Error("nobody is adjusted")
	}
}
