package sim

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/traces"
)

// apart sends prompts of 16,384 tokens and more to the pool long, and the others to the pool short, which spills to it.
func apart(t *testing.T, spillAfter time.Duration) *pools.Set {
	t.Helper()
	o := pools.Options{
		Pools:   []pools.Pool{{Name: "short"}, {Name: "long", IdleBelow: 16_384}},
		Rules:   []pools.Rule{{Name: "long prompts", Prompt: pools.Range{Min: 16_384}, To: []string{"long"}}},
		Default: "short",
	}
	if spillAfter > 0 {
		o.Pools[0].Overflow = pools.Overflow{To: "long", Wait: spillAfter}
	}
	set, wrong := pools.New(o)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	return set
}

// longs and shorts are prompts of about 40,000 and 2,000 tokens.
func longs(t *testing.T, requests int, rate float64) traces.Part {
	return asking(t, "long", fmt.Sprintf("bursts:requests=%d,burst=1,prompt=40000,output=100,rate=%g", requests, rate))
}

func shorts(t *testing.T, requests int, rate float64) traces.Part {
	return asking(t, "short", fmt.Sprintf("bursts:requests=%d,burst=1,prompt=2000,output=100,rate=%g", requests, rate))
}

func TestRulesKeepLongPromptsFromTheWorkersOfShortOnes(t *testing.T) {
	for _, q := range []*Queue{nil, queued()} {
		c := Config{Trace: tenants(t, shorts(t, 800, 20), longs(t, 20, 0.2)), Fleet: fleetOf(t, "h100-8b:3@short,h100-8b:1@long"), Queue: q, Pools: apart(t, 0), ByTenant: true, Seed: 3}
		r := run(t, c)
		held(t, fmt.Sprintf("queue %v", q != nil), r)
		if short, long := r.Pool("short"), r.Pool("long"); short.Placed != 800 || long.Placed != 20 || short.Workers != 3 || long.Workers != 1 || r.Pool("any").Placed > 0 || r.Served[3] != 20 {
			t.Errorf("queue %v: %+v, %+v, served %v", q != nil, short, long, r.Served)
		}
		if r.Pool("short").TTFT.Count() != 800 || r.Pool("long").E2E.Count() != 20 {
			t.Errorf("queue %v: a pool's times are not those of its requests", q != nil)
		}
	}
}

func TestASurgeSpillsToTheOtherPoolAndIsBackAfterIt(t *testing.T) {
	surge := asking(t, "surge", "bursts:requests=300,burst=300,prompt=2000,output=100,rate=100")
	surge.Map(func(q *traces.Request) { q.At += 20 * time.Second })
	c := Config{Trace: tenants(t, shorts(t, 900, 10), surge), Fleet: fleetOf(t, "h100-8b:1@short,h100-8b:1@long"), Queue: queued(), Pools: apart(t, time.Second), ByTenant: true, Seed: 3}
	r := run(t, c)
	held(t, "surge", r)
	long := r.Pool("long")
	if during := long.SpilledBetween(20*time.Second, time.Minute); during == 0 || during != long.Spilled || long.Placed != long.Spilled {
		t.Errorf("%d spilled in the surge, %d in all, of %d placed: they came at %v", during, long.Spilled, long.Placed, long.Spills)
	}
}

func TestOnePoolOfAllWorkersIsNone(t *testing.T) {
	set, wrong := pools.New(pools.Options{Pools: []pools.Pool{{Name: "all"}}, Default: "all"})
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	for _, q := range []*Queue{nil, queued()} {
		c := Config{Trace: tenants(t, shorts(t, 600, 18), longs(t, 8, 0.2)), Fleet: fleetOf(t, "h100-8b:2@all"), Queue: q, ByTenant: true, Seed: 5}
		without := run(t, c)
		c.Pools = set
		with := run(t, c)
		if placed := with.Pool("all").Placed; placed != with.Placed {
			t.Errorf("%d of %d went to the pool", placed, with.Placed)
		}
		if with.Pools = nil; !reflect.DeepEqual(with, without) {
			t.Errorf("queue %v: mean TTFT %v in a pool of all workers, %v without pools", q != nil, with.TTFT.Mean(), without.TTFT.Mean())
		}
	}
}

func TestWithoutAQueueClosedPoolsTurnAway(t *testing.T) {
	c := Config{Trace: tenants(t, shorts(t, 50, 1000)), Fleet: fleetOf(t, "h100-8b:1@short,h100-8b:1@long"), ByTenant: true, Seed: 1}
	set, wrong := pools.New(pools.Options{Pools: []pools.Pool{{Name: "long", IdleBelow: 16_384}}, Default: "long"})
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	c.Pools = set
	r := run(t, c)
	held(t, "closed", r)
	if r.Finished == 0 || r.TurnedAway != 50-r.Finished || r.Tenant("short").Refused[0].Reason != nobody {
		t.Errorf("%d answered, %d turned away: %+v", r.Finished, r.TurnedAway, r.Tenant("short").Refused[:1])
	}
}

func TestAPoolWithoutWorkersIsNamed(t *testing.T) {
	c := Config{Trace: open(t, "hot:requests=2"), Fleet: fleetOf(t, "h100-8b:2@short"), Pools: apart(t, 0)}
	if _, err := Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), "pool long has no workers in the fleet; label some, as in --fleet h100-8b:6,h100-8b:2@long") {
		t.Error(err)
	}
}
