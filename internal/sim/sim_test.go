package sim

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/traces"
)

func open(t *testing.T, name string) *traces.Trace {
	t.Helper()
	x, err := traces.Open(name, traces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func fleetOf(t *testing.T, text string) []lineup.Worker {
	t.Helper()
	f, err := lineup.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func run(t *testing.T, c Config) *Result {
	t.Helper()
	if c.Jitter == 0 {
		c.Jitter = -1
	}
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An M/D/1 queue: Poisson arrivals, one server, a service that always takes as long. A prompt of exactly one step's budget has every step
// to itself, and the mean wait is rho/(2(1-rho)) services (Pollaczek, Khinchine).
func TestOneWorkerWithEqualPromptsIsTheQueueOfTheBooks(t *testing.T) {
	profile := cost.Profile{
		Name: "one", Constants: cost.Constants{B: 1e-4, D0: 1e-3}, KVTokensMax: 1 << 22, BatchMax: 1 << 16, ChunkTokens: 1600, BlockTokens: 16,
	}
	const service = 0.16 // seconds
	for _, rho := range []float64{0.3, 0.6, 0.8} {
		trace := open(t, fmt.Sprintf("bursts:requests=60000,burst=1,prompt=1600,output=1,rate=%g", rho/service))
		exact(t, trace)
		r := run(t, Config{Trace: trace, Fleet: []lineup.Worker{{Profile: profile}}, Policy: "round-robin", Seed: 7})
		want := service + service*rho/(2*(1-rho))
		if got := r.TTFT.Mean(); math.Abs(got-want) > 0.04*want {
			t.Errorf("seed 7, utilisation %g: mean TTFT %.4f s, the formula gives %.4f s", rho, got, want)
		}
	}
}

// exact makes all prompts of a trace as long as asked for: generators vary them.
func exact(t *testing.T, x *traces.Trace) {
	t.Helper()
	x.Map(func(q *traces.Request) { q.Prompt, q.Output, q.Blocks = 1600, 1, nil })
}

func TestWhatGoesInComesOut(t *testing.T) {
	for _, c := range []Config{
		{Trace: open(t, "groups:rate=8"), Fleet: fleetOf(t, "h100-32b-tp2:4")},
		{Trace: open(t, "chats:chats=60,rate=4"), Fleet: fleetOf(t, "h100-8b:1,a100-8b:2"), Assumed: true},
		{Trace: open(t, "uniform:requests=600,at-once=80"), Fleet: small(2), AtOnce: 80},
		{Trace: open(t, "bursts:requests=500,prompt=6000"), Fleet: small(3), Replicas: 3, ViewDelay: 300 * time.Millisecond},
		{Trace: open(t, "documents:documents=30,rate=3"), Fleet: small(3), EventDelay: 200 * time.Millisecond},
	} {
		c.Seed = 3
		requests, prompts, outputs := traffic(t, &c)
		for _, policy := range sched.PolicyNames() {
			c.Policy = policy
			r := run(t, c)
			if r.Finished+r.Refused != requests || r.Refused == 0 && (r.PromptTokens != prompts || r.GeneratedTokens != outputs) {
				t.Errorf("%s under %s: %d of %d requests, %d refused, %d of %d prompt and %d of %d generated tokens",
					c.Trace.Name, policy, r.Finished, requests, r.Refused, r.PromptTokens, prompts, r.GeneratedTokens, outputs)
			}
			// What was not cached was computed, and what lost its room twice.
			if least := r.PromptTokens - r.CachedTokens; r.PrefilledTokens < least || r.Preemptions == 0 && r.PrefilledTokens != least {
				t.Errorf("%s under %s: %d tokens prefilled, %d were not cached, %d preemptions", c.Trace.Name, policy, r.PrefilledTokens, least, r.Preemptions)
			}
			if sum := r.E2E.Mean() * float64(r.E2E.Count()); math.Abs(r.Waited.Seconds()-sum) > 1e-3 {
				t.Errorf("%s under %s: %v waited, %.3f s end to end", c.Trace.Name, policy, r.Waited, sum)
			}
		}
	}
}

// traffic is what a trace has in it.
func traffic(t *testing.T, c *Config) (requests int, prompts, outputs int64) {
	t.Helper()
	reader, err := c.Trace.Reader(c.Seed)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var q traces.Request
	for reader.Next(&q) == nil {
		requests++
		prompts += int64(q.Prompt)
		outputs += int64(q.Output)
	}
	return requests, prompts, outputs
}

// small workers run out of room.
func small(n int) (fleet []lineup.Worker) {
	p := cost.Profiles["h100-8b"]
	p.Name, p.KVTokensMax, p.BatchMax = "small", 60_000, 24
	for range n {
		fleet = append(fleet, lineup.Worker{Profile: p})
	}
	return fleet
}

func TestTheSameRunGivesTheSameResult(t *testing.T) {
	c := Config{Trace: open(t, "chats:chats=80,rate=5"), Fleet: fleetOf(t, "h100-8b:2,a100-8b:1"), Policy: "warm-cost", Seed: 5, SampleEvery: time.Second}
	a, b := run(t, c), run(t, c)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
	c.Seed = 6
	if other := run(t, c); reflect.DeepEqual(a.TTFT, other.TTFT) {
		t.Error("another seed gives the same times")
	}
}

func TestPoliciesAreComparedOnTheSameArrivals(t *testing.T) {
	c := Config{Trace: open(t, "../traces/testdata/mooncake.jsonl"), Fleet: fleetOf(t, "h100-8b:3"), Seed: 2, SampleEvery: time.Second}
	var first []Slice
	for _, c.Policy = range []string{"warm-cost", "random", "round-robin"} {
		r := run(t, c)
		for i := range r.Slices {
			r.Slices[i].TTFTSeconds = 0
		}
		if first == nil {
			first = r.Slices
		} else if !reflect.DeepEqual(first, r.Slices) {
			t.Errorf("%s: other arrivals", c.Policy)
		}
	}
}

func TestARequestThatFitsNowhereIsRefusedAndEndsItsSession(t *testing.T) {
	p := small(1)
	p[0].KVTokensMax = 3000
	r := run(t, Config{Trace: open(t, "chats:chats=5,turns=30,question=300,output=100"), Fleet: p, Policy: "warm-cost", Seed: 1})
	if r.Refused != 5 || r.SessionsBroken != 5 || r.Finished < 10 {
		t.Errorf("%d refused, %d sessions broken, %d finished", r.Refused, r.SessionsBroken, r.Finished)
	}
}

func TestClosedLoopKeepsSoManySessionsAtOnce(t *testing.T) {
	c := Config{Trace: open(t, "uniform:requests=2000,at-once=40"), Fleet: fleetOf(t, "h100-8b:2"), Policy: "least-requests", Seed: 1, AtOnce: 10, SampleEvery: time.Second}
	most := 0
	for _, row := range run(t, c).Samples {
		sum := 0
		for _, n := range row {
			sum += n
		}
		most = max(most, sum)
	}
	if most != 10 {
		t.Errorf("%d requests at once, want 10", most)
	}
}

func TestLateNewsIsNoBetterThanNone(t *testing.T) {
	c := Config{Trace: open(t, "documents:output=5,rate=4"), Fleet: fleetOf(t, "h100-32b-tp2:6"), Policy: "warm-cost", Seed: 4}
	fresh := run(t, c)
	c.EventDelay = time.Minute
	late := run(t, c)
	if late.HitRate() >= fresh.HitRate() || late.HitRate() == 0 {
		t.Errorf("hit rate %.3f with cache events a minute late, %.3f at once", late.HitRate(), fresh.HitRate())
	}
	c.EventDelay, c.Assumed = 0, true
	if assumed := run(t, c); assumed.HitRate() < 0.7*fresh.HitRate() {
		t.Errorf("hit rate %.3f with assumed caches, %.3f with known ones", assumed.HitRate(), fresh.HitRate())
	}
}

func TestNoPolicyIsBetterThanTheBounds(t *testing.T) {
	for _, c := range []Config{
		{Trace: open(t, "groups:rate=9"), Fleet: fleetOf(t, "h100-32b-tp2:5")},
		{Trace: open(t, "documents:rate=2"), Fleet: fleetOf(t, "h100-8b:2,a100-8b:2")},
		{Trace: open(t, "bursts:requests=800,rate=60"), Fleet: fleetOf(t, "h100-8b:2")},
		{Trace: open(t, "chats:rate=8"), Fleet: fleetOf(t, "a100-8b:3")},
	} {
		c.Seed = 9
		b, err := FindBounds(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, c.Policy = range sched.PolicyNames() {
			r := run(t, c)
			const slack = 1 - 1e-9
			if r.TTFT.Mean() < slack*b.TTFT || r.TPOT.Mean() < slack*b.TPOT || r.E2E.Mean() < slack*b.E2E || r.HitRate() > b.HitRate/slack {
				t.Errorf("%s under %s: TTFT %.4f of %.4f, TPOT %.5f of %.5f, E2E %.3f of %.3f, hits %.4f of %.4f", c.Trace.Name, c.Policy,
					r.TTFT.Mean(), b.TTFT, r.TPOT.Mean(), b.TPOT, r.E2E.Mean(), b.E2E, r.HitRate(), b.HitRate)
			}
		}
	}
}

func TestARunThatCannotBeMadeSaysWhatIs(t *testing.T) {
	trace := open(t, "groups:")
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Trace: trace}, "--fleet"},
		{Config{Trace: trace, Fleet: small(1), Policy: "warmcost"}, "least-prefill"},
		{Config{Trace: trace, Fleet: small(1), Rate: -1}, "--rate"},
	} {
		if _, err := Run(context.Background(), c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q in it", err, c.want)
		}
	}
	for _, text := range []string{"", "h100", "h100-8b:0", "h100-8b:x", "h100-8b:999,a100-8b:9"} {
		if _, err := lineup.Parse(text, nil); err == nil {
			t.Errorf("fleet %q was taken", text)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := Run(ctx, Config{Trace: trace, Fleet: small(1)}); err != context.Canceled || r == nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestSlowerMemoryIsWorthItsTime(t *testing.T) {
	c := Config{Trace: open(t, "documents:output=20,rate=0.5"), Fleet: small(2), Policy: "warm-cost", Seed: 3}
	without := run(t, c)
	for i := range c.Fleet {
		c.Fleet[i].TierTokensMax, c.Fleet[i].TierSeconds = 4_000_000, 2e-6
	}
	with := run(t, c)
	if with.HitRate() < 2*without.HitRate() || with.TTFT.Mean() > 0.8*without.TTFT.Mean() {
		t.Errorf("hit rate %.3f and TTFT %.3f s with slower memory, %.3f and %.3f s without", with.HitRate(), with.TTFT.Mean(), without.HitRate(), without.TTFT.Mean())
	}
	c.EventDelay = time.Second
	if late := run(t, c); late.HitRate() < 0.8*with.HitRate() {
		t.Errorf("hit rate %.3f where cache events are late, %.3f where they are not", late.HitRate(), with.HitRate())
	}
}
