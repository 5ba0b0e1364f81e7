package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
)

// drive runs arrivals through a core, by single steps or by stretches, and returns what became of each sequence.
func drive(t *testing.T, c *Core, all []*Sequence, at []time.Duration, stretches bool) []string {
	t.Helper()
	next := 0
	var end time.Duration
	busy := false
	begin := func(now time.Duration) {
		if stretches {
			end, busy = c.BeginStretch(now)
		} else {
			end, busy = c.Begin(now)
		}
	}
	for next < len(all) || busy {
		if next < len(all) && (!busy || at[next] < end) {
			now := at[next]
			if err := c.Submit(all[next], now); err != nil {
				t.Fatal(err)
			}
			next++
			if !busy {
				begin(now)
			} else if stretches {
				end = c.Cut(now)
			}
			continue
		}
		c.End()
		begin(end)
	}
	var said []string
	for _, s := range all {
		said = append(said, fmt.Sprintf("admitted %v first %v finished %v cached %d preempted %d", s.Admitted, s.FirstToken, s.Finished, s.CachedTokens, s.Preemptions))
	}
	return said
}

func TestStretchesEndWhenSingleStepsWould(t *testing.T) {
	for seed := range uint64(20) {
		profile := tiny(400, 6, 30)
		makeAll := func() (all []*Sequence, at []time.Duration) {
			random := rand.New(rand.NewPCG(seed, 0))
			var now time.Duration
			for range 300 {
				prompt := 1 + random.IntN(100)
				all = append(all, &Sequence{PromptTokens: prompt, OutputTokens: random.IntN(80), Keys: chain(uint64(random.IntN(5)), (prompt+40)/4)})
				at = append(at, now)
				now += time.Duration(random.ExpFloat64() * float64(500*time.Millisecond))
			}
			return all, at
		}
		single, stretched := NewCore(profile), NewCore(profile)
		all, at := makeAll()
		want := drive(t, single, all, at, false)
		all, at = makeAll()
		got := drive(t, stretched, all, at, true)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("seed %d, sequence %d:\n%s in stretches\n%s in single steps", seed, i, got[i], want[i])
			}
		}
		a, b := single.Counts(), stretched.Counts()
		if a != b || a.Preemptions == 0 {
			t.Errorf("seed %d: %+v in stretches, %+v in single steps", seed, b, a)
		}
	}
}

func TestAStretchTellsHowFarItIs(t *testing.T) {
	c := NewCore(tiny(400, 6, 30))
	s := submit(t, c, &Sequence{PromptTokens: 10, OutputTokens: 50}, 0)
	now, _ := step(t, c, 0)
	end, _ := c.BeginStretch(now)
	if got := c.Decoded(now + (end-now)/2); got < 20 || got > 30 {
		t.Errorf("%d of 49 steps after half the time", got)
	}
	middle := now + (end-now)/2
	if cut := c.Cut(middle); cut < middle || cut >= end {
		t.Errorf("cut at %v ends at %v", middle, cut)
	}
	c.End()
	if s.Generated < 20 || s.Generated > 30 {
		t.Errorf("%d generated", s.Generated)
	}
}

func TestABlockOfManyPagesTakesOnlyThosePagesThatAreUsed(t *testing.T) {
	p := cost.Profile{Constants: cost.Profiles["h100-8b"].Constants, KVTokensMax: 1024, BatchMax: 16, ChunkTokens: 2048, BlockTokens: 512, PageTokens: 16}
	c := NewCore(p)
	for i := range 8 {
		submit(t, c, &Sequence{PromptTokens: 100, OutputTokens: 2, Keys: chain(uint64(i), 0)}, 0)
	}
	step(t, c, 0)
	if c.Running() != 8 || c.KVUsage() != 56.0/64 {
		t.Errorf("%d run, usage %v; want 8 of 7 pages each", c.Running(), c.KVUsage())
	}
}
