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

func TestWhatTheCacheEvictsIsLoadedFromSlowerMemory(t *testing.T) {
	profile := tiny(80, 4, 1000)
	profile.TierTokensMax, profile.TierSeconds = 400, 1e-4
	c := NewCore(profile)
	var now time.Duration
	run := func(name uint64) *Sequence {
		s := submit(t, c, &Sequence{PromptTokens: 41, OutputTokens: 1, Keys: chain(name, 10)}, now)
		before := now
		now, _ = step(t, c, now)
		s.Finished = now - before // how long it took
		return s
	}
	cold := run(1)
	for name := range uint64(6) {
		run(name + 2)
	}
	warm := run(1)
	if warm.CachedTokens != 40 || c.Counts().LoadedTokens < 30 {
		t.Errorf("%d tokens cached, %d loaded", warm.CachedTokens, c.Counts().LoadedTokens)
	}
	loaded := time.Duration(float64(c.Counts().LoadedTokens) * 1e-4 * float64(time.Second))
	// One token is computed, in the time of a whole step, behind 40 that were loaded.
	if want := 6*time.Millisecond + 810*time.Microsecond + loaded; warm.Finished != want || cold.Finished < 5*want {
		t.Errorf("%v cold, %v from slower memory, want %v", cold.Finished, warm.Finished, want)
	}
	if n := c.Cached(chain(1, 10)); n != 10 {
		t.Errorf("%d of 10 blocks are there", n)
	}
	if n := len(c.cache.tier.index); n > 100 {
		t.Errorf("%d blocks in slower memory, more than 100", n)
	}
}
