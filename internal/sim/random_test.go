package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sched"
)

// anyConfig draws a fleet, a trace and what the router knows of them.
func anyConfig(t *testing.T, chance *rand.Rand, seed uint64) Config {
	trace := []string{
		"groups:groups=15,prompts=4,rate=%d", "chats:chats=25,turns=4,rate=%d", "documents:documents=12,questions=4,rate=%d", "bursts:requests=150,burst=30,rate=%d",
		"hot:requests=200,rate=%d", "uniform:requests=200,at-once=%d",
	}[chance.IntN(6)]
	c := Config{
		Trace: open(t, fmt.Sprintf(trace, 1+chance.IntN(30))), Policy: sched.PolicyNames()[chance.IntN(len(sched.PolicyNames()))], Seed: seed, Jitter: -1,
		Rate: 0.5 + 3*chance.Float64(), Assumed: chance.IntN(2) == 0, Known: chance.IntN(2) == 0, Replicas: 1 + chance.IntN(3),
		EventDelay: time.Duration(chance.IntN(3)) * 200 * time.Millisecond, ViewDelay: time.Duration(chance.IntN(3)) * 300 * time.Millisecond,
	}
	if c.Trace.Sessions {
		c.AtOnce = 1 + chance.IntN(20)
	}
	for range 1 + chance.IntN(4) {
		p := cost.Profiles[[]string{"h100-8b", "a100-8b", "h100-32b-tp2"}[chance.IntN(3)]]
		p.KVTokensMax, p.BatchMax = 9_000+chance.IntN(60_000), 1+chance.IntN(40)
		if chance.IntN(3) == 0 {
			p.TierTokensMax, p.TierSeconds = 200_000, 2e-6
		}
		c.Fleet = append(c.Fleet, lineup.Worker{Profile: p})
	}
	return c
}

// Whatever the traffic, the fleet and the rule: no engine gives out what it does not have, everything that came leaves once, and tokens in
// are tokens out.
func TestConservationHoldsForAnyFleetAndTraffic(t *testing.T) {
	preempted, refused := int64(0), 0
	for seed := range uint64(120) {
		c := anyConfig(t, rand.New(rand.NewPCG(seed, 1)), seed).withDefaults()
		l, err := newLab(c)
		if err != nil {
			t.Fatal(err)
		}
		reader, err := c.Trace.Reader(c.Seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.start(reader); err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			before := l.now
			if more, err = l.step(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if l.now < before {
				t.Fatalf("seed %d: time went back from %v to %v", seed, before, l.now)
			}
			for _, w := range l.workers {
				if k := w.core.KVUsage(); k < 0 || k > 1 || w.core.Running() > w.profile.BatchMax || w.core.Running()+w.core.Waiting() != len(w.flights) {
					t.Fatalf("seed %d: worker %d uses %v of its room, runs %d of %d and holds %d of %d", seed, w.number, k, w.core.Running(), w.profile.BatchMax,
						w.core.Running()+w.core.Waiting(), len(w.flights))
				}
			}
		}
		r := l.finish()
		requests, prompts, outputs := traffic(t, &c)
		switch {
		case r.Refused == 0 && (r.Finished != requests || r.PromptTokens != prompts || r.GeneratedTokens != outputs):
			t.Errorf("seed %d, %s: %d of %d requests, %d of %d prompt and %d of %d generated tokens", seed, c.Policy, r.Finished, requests, r.PromptTokens, prompts, r.GeneratedTokens, outputs)
		case !c.Trace.Sessions && r.Finished+r.Refused != requests:
			t.Errorf("seed %d, %s: %d finished, %d refused of %d", seed, c.Policy, r.Finished, r.Refused, requests)
		case r.PrefilledTokens < r.PromptTokens-r.CachedTokens:
			t.Errorf("seed %d, %s: %d tokens prefilled, %d were not cached", seed, c.Policy, r.PrefilledTokens, r.PromptTokens-r.CachedTokens)
		}
		for _, x := range l.routers {
			for _, w := range x.workers {
				if n := w.InFlight(); c.ViewDelay == 0 && n != 0 {
					t.Errorf("seed %d, %s: %d requests are in flight on %s at the end", seed, c.Policy, n, w.ID)
				}
			}
		}
		b, err := FindBounds(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if r.Refused == 0 && (r.TTFT.Mean() < b.TTFT*(1-1e-6) || r.HitRate() > b.HitRate*(1+1e-9)) && !tiered(c.Fleet) {
			t.Errorf("seed %d, %s on %s: TTFT %v below %v or hit rate %v above %v", seed, c.Policy, c.Trace.Name, r.TTFT.Mean(), b.TTFT, r.HitRate(), b.HitRate)
		}
		preempted += r.Preemptions
		refused += r.Refused
	}
	if preempted == 0 || refused == 0 {
		t.Errorf("%d preemptions and %d refusals: not everything was exercised", preempted, refused)
	}
}

func tiered(fleet []lineup.Worker) bool {
	for _, p := range fleet {
		if p.TierTokensMax > 0 {
			return true
		}
	}
	return false
}
