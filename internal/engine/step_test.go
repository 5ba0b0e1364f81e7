package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/prefix"
)

// tiny is a profile whose times are easy to compute by hand: a 1 ms, b 1 ms, c 0.01 ms, d0 5 ms, d1 2 ms, d2 0.1 ms.
func tiny(kvTokens, batch, chunk int) cost.Profile {
	return cost.Profile{
		Name:        "tiny",
		Constants:   cost.Constants{A: 1e-3, B: 1e-3, C: 1e-5, D0: 5e-3, D1: 2e-3, D2: 1e-4},
		KVTokensMax: kvTokens, BatchMax: batch, ChunkTokens: chunk, BlockTokens: 4,
	}
}

// chain makes the keys of a prompt of that many blocks; equal names share their leading blocks.
func chain(name uint64, blocks int) []prefix.Key {
	keys := make([]prefix.Key, blocks)
	for i := range keys {
		keys[i] = prefix.Key(name<<20 + uint64(i))
	}
	return keys
}

func submit(t *testing.T, c *Core, s *Sequence, now time.Duration) *Sequence {
	t.Helper()
	if err := c.Submit(s, now); err != nil {
		t.Fatal(err)
	}
	return s
}

// step runs one step and returns when it ended and what came of it.
func step(t *testing.T, c *Core, now time.Duration) (time.Duration, []Emission) {
	t.Helper()
	end, busy := c.Begin(now)
	if !busy {
		t.Fatalf("idle at %v with %d running and %d waiting", now, c.Running(), c.Waiting())
	}
	return end, c.End()
}

func near(t *testing.T, what string, got time.Duration, wantMS float64) {
	t.Helper()
	if d := got.Seconds()*1e3 - wantMS; d > 1e-3 || d < -1e-3 {
		t.Errorf("%s: %v, want %g ms", what, got, wantMS)
	}
}

func TestAPrefillAndItsDecodesTakeTheFormulasTime(t *testing.T) {
	c := NewCore(tiny(400, 8, 100))
	s := submit(t, c, &Sequence{PromptTokens: 10, OutputTokens: 3}, 0)
	now, out := step(t, c, 0)
	near(t, "prefill", now, 1+10+1) // a + 10 b + c 100
	if len(out) != 1 || !out[0].First || s.Generated != 1 {
		t.Fatalf("after the prefill: %+v, %d tokens", out, s.Generated)
	}
	now, _ = step(t, c, now)
	near(t, "first decode", now, 12+5+2+1.1) // d0 + d1 + d2 * 11
	now, out = step(t, c, now)
	near(t, "second decode", now, 20.1+5+2+1.2)
	if !out[0].Finished || s.FirstToken != 12*time.Millisecond || s.Finished != now || c.Running() != 0 {
		t.Errorf("end: %+v, first token %v, finished %v", out, s.FirstToken, s.Finished)
	}
	if _, busy := c.Begin(now); busy {
		t.Error("busy with nothing to do")
	}
}

func TestAShortPrefillTakesAStep(t *testing.T) {
	c := NewCore(tiny(400, 8, 100))
	submit(t, c, &Sequence{PromptTokens: 2, OutputTokens: 1}, 0)
	now, _ := step(t, c, 0)
	near(t, "prefill", now, 1+5+.04)
}

func TestALongPromptIsCutIntoChunksWhileOthersDecode(t *testing.T) {
	c := NewCore(tiny(400, 8, 20))
	a := submit(t, c, &Sequence{PromptTokens: 4, OutputTokens: 9}, 0)
	now, _ := step(t, c, 0)
	near(t, "a alone", now, 1+5+.16)
	b := submit(t, c, &Sequence{PromptTokens: 30, OutputTokens: 1}, now)
	start := now
	now, _ = step(t, c, now) // a decodes 1 with context 5; b has 19 tokens of the budget
	near(t, "first chunk", now-start, 1+19+.01*361+2+.5)
	if a.Generated != 2 || b.Generated != 0 || b.computed != 19 {
		t.Fatalf("a %d tokens, b %d computed", a.Generated, b.computed)
	}
	start = now
	now, _ = step(t, c, now) // the other 11, behind 19; no a again
	near(t, "last chunk", now-start, 11+.01*(900-361)+2+.6)
	if b.Generated != 1 || a.Generated != 3 {
		t.Fatalf("a %d, b %d", a.Generated, b.Generated)
	}
}

func TestASharedPrefixIsNotPrefilledAgainAndGeneratedTokensCount(t *testing.T) {
	c := NewCore(tiny(400, 8, 100))
	// 10 prompt and 7 output tokens: all but the last token have KV, 16 tokens in 4 blocks.
	submit(t, c, &Sequence{PromptTokens: 10, OutputTokens: 7, Keys: chain(1, 4)}, 0)
	now := time.Duration(0)
	for c.Running()+c.Waiting() > 0 {
		now, _ = step(t, c, now)
	}
	next := submit(t, c, &Sequence{PromptTokens: 24, OutputTokens: 1, Keys: chain(1, 6)}, now)
	start := now
	now, _ = step(t, c, now)
	if next.CachedTokens != 16 {
		t.Errorf("%d tokens cached, want 16: the prompt's and the answer's", next.CachedTokens)
	}
	near(t, "follow-up", now-start, 1+8+.01*(24*24-16*16))
	same := submit(t, c, &Sequence{PromptTokens: 24, OutputTokens: 1, Keys: chain(1, 6)}, now)
	step(t, c, now)
	if same.CachedTokens != 20 {
		t.Errorf("%d tokens of a repeated prompt cached, want 20: its last block is computed again", same.CachedTokens)
	}
	if n := c.Counts(); n.HitTokens != 36 || n.QueriedTokens != 58 || n.PrefilledTokens != 10+8+4 || n.PromptTokens != 58 {
		t.Errorf("%+v", n)
	}
}

func TestSiblingsOfOneStepShareTheirPrefix(t *testing.T) {
	c := NewCore(tiny(400, 8, 100))
	submit(t, c, &Sequence{PromptTokens: 21, OutputTokens: 1, Keys: chain(1, 5)}, 0)
	b := submit(t, c, &Sequence{PromptTokens: 21, OutputTokens: 1, Keys: chain(1, 5)}, 0)
	now, _ := step(t, c, 0)
	if b.CachedTokens != 20 {
		t.Fatalf("%d cached, want 20", b.CachedTokens)
	}
	near(t, "both", now, 2+22+.01*(21*21+21*21-20*20))
}

func TestTheBatchLimitMakesOthersWaitInOrder(t *testing.T) {
	c := NewCore(tiny(400, 2, 100))
	var all []*Sequence
	for range 4 {
		all = append(all, submit(t, c, &Sequence{PromptTokens: 5, OutputTokens: 2}, 0))
	}
	now, _ := step(t, c, 0)
	if c.Running() != 2 || c.Waiting() != 2 {
		t.Fatalf("%d running, %d waiting", c.Running(), c.Waiting())
	}
	now, _ = step(t, c, now)
	step(t, c, now)
	if all[2].Admitted != now || all[3].Admitted != now || all[2].Generated != 1 {
		t.Errorf("third admitted at %v, fourth at %v, want %v", all[2].Admitted, all[3].Admitted, now)
	}
}

func TestABigPromptWaitsForRoomAndIsNotOvertaken(t *testing.T) {
	c := NewCore(tiny(40, 8, 100))
	submit(t, c, &Sequence{PromptTokens: 20, OutputTokens: 2}, 0)
	big := submit(t, c, &Sequence{PromptTokens: 30, OutputTokens: 1}, 0)
	small := submit(t, c, &Sequence{PromptTokens: 4, OutputTokens: 1}, 0)
	now, _ := step(t, c, 0)
	if big.state != waiting || small.state != waiting {
		t.Fatal("the big prompt was admitted without room, or overtaken")
	}
	now, _ = step(t, c, now)
	step(t, c, now)
	if big.Admitted != now || small.Admitted != now {
		t.Errorf("admitted at %v and %v, want %v", big.Admitted, small.Admitted, now)
	}
}

func TestWithoutRoomTheYoungestIsPreemptedAndComputedAgain(t *testing.T) {
	c := NewCore(tiny(24, 8, 100))
	a := submit(t, c, &Sequence{PromptTokens: 8, OutputTokens: 16}, 0)
	b := submit(t, c, &Sequence{PromptTokens: 8, OutputTokens: 8, Keys: chain(2, 3)}, 0)
	var now time.Duration
	for b.Preemptions == 0 {
		now, _ = step(t, c, now)
	}
	if b.Generated != 5 || a.Generated != 6 || c.Waiting() != 1 || c.Running() != 1 {
		t.Fatalf("a %d tokens, b %d tokens, %d waiting", a.Generated, b.Generated, c.Waiting())
	}
	for c.Running()+c.Waiting() > 0 {
		now, _ = step(t, c, now)
	}
	if a.Generated != 16 || b.Generated != 8 || a.Preemptions != 0 {
		t.Errorf("a %d tokens, b %d tokens", a.Generated, b.Generated)
	}
	if n := c.Counts(); n.Preemptions != 1 || n.GeneratedTokens != 24 || n.Finished != 2 || c.KVUsage() != 0 {
		t.Errorf("%+v, usage %v", n, c.KVUsage())
	}
}

func TestTheLeastRecentlyUsedPrefixIsEvictedTailFirst(t *testing.T) {
	c := NewCore(tiny(40, 8, 100)) // 10 blocks
	var now time.Duration
	run := func(name uint64, tokens int) int {
		s := submit(t, c, &Sequence{PromptTokens: tokens, OutputTokens: 1, Keys: chain(name, tokens/4)}, now)
		now, _ = step(t, c, now)
		return s.CachedTokens
	}
	run(1, 17) // 5 blocks, 4 of them full
	run(2, 17)
	if got := run(1, 17); got != 16 {
		t.Fatalf("%d cached, want 16", got)
	}
	// Room for four more: the second prompt, now the older one, gives its partial block and then its tail.
	run(3, 16)
	for name, want := range map[uint64]int{1: 4, 2: 1, 3: 4} {
		if got := len(c.cache.match(chain(name, 4), 4, nil)); got != want {
			t.Errorf("prefix %d has %d cached blocks, want %d", name, got, want)
		}
	}
}

func TestASequenceThatCouldNeverFitIsRefused(t *testing.T) {
	c := NewCore(tiny(40, 8, 100))
	if err := c.Submit(&Sequence{PromptTokens: 30, OutputTokens: 11}, 0); !errors.Is(err, ErrTooLong) {
		t.Errorf("%v", err)
	}
	if err := c.Submit(&Sequence{OutputTokens: 1}, 0); err == nil {
		t.Error("an empty prompt was taken")
	}
}

func TestAnEmbeddingEndsWithItsPrefill(t *testing.T) {
	c := NewCore(tiny(40, 8, 100))
	s := submit(t, c, &Sequence{PromptTokens: 10}, 0)
	now, out := step(t, c, 0)
	near(t, "prefill", now, 12)
	if !out[0].Finished || s.Generated != 0 || c.Counts().GeneratedTokens != 0 {
		t.Errorf("%+v", out)
	}
}

// overdrawn says what a core has given out that it does not have: pages, slots of its batch, blocks under a key.
func overdrawn(c *Core, batchMax int) string {
	held, kept, keyed := 0, 0, 0
	for _, b := range c.cache.blocks[1:] {
		if b.holders > 0 {
			held += int(b.pages)
		} else {
			kept += int(b.pages)
		}
		if b.keyed {
			keyed++
		}
	}
	switch k := c.cache; {
	case held+kept > k.total || held+k.free != k.total || kept != k.kept:
		return fmt.Sprintf("%d pages held and %d kept of %d; %d are said to be free, %d kept", held, kept, k.total, k.free, k.kept)
	case keyed != k.index.used:
		return fmt.Sprintf("%d blocks have a key, %d are found by one", keyed, k.index.used)
	case c.Running() > batchMax || c.KVUsage() < 0 || c.KVUsage() > 1:
		return fmt.Sprintf("%d run in a batch of %d, KV use is %v", c.Running(), batchMax, c.KVUsage())
	}
	return ""
}

func TestAnAbortFreesEverythingAtAnyMoment(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	c := NewCore(tiny(200, 5, 30))
	var now time.Duration
	var alive []*Sequence
	for i := range 20_000 {
		switch random.IntN(4) {
		case 0:
			prompt := 1 + random.IntN(120)
			s := &Sequence{PromptTokens: prompt, OutputTokens: random.IntN(40), Keys: chain(uint64(random.IntN(3)), prompt/4)}
			alive = append(alive, submit(t, c, s, now))
		case 1:
			if len(alive) > 0 {
				n := random.IntN(len(alive))
				c.Abort(alive[n])
				alive = append(alive[:n], alive[n+1:]...)
			}
		default:
			end, busy := c.Begin(now)
			if !busy {
				continue
			}
			if len(alive) > 0 && random.IntN(3) == 0 {
				c.Abort(alive[random.IntN(len(alive))])
			}
			for _, e := range c.End() {
				if e.Sequence.Generated > e.Sequence.OutputTokens || e.Sequence.FirstToken < e.Sequence.Arrived {
					t.Fatalf("seed %d, operation %d: %+v", seed, i, e.Sequence)
				}
			}
			now = end
		}
		if fault := overdrawn(c, 5); fault != "" {
			t.Fatalf("seed %d, operation %d: %s", seed, i, fault)
		}
	}
	for _, s := range alive {
		c.Abort(s)
	}
	n := c.Counts()
	if c.Running() != 0 || c.Waiting() != 0 || c.cache.free != c.cache.total || c.ContextTokens() != 0 {
		t.Fatalf("seed %d: %d running, %d waiting, %d of %d blocks free", seed, c.Running(), c.Waiting(), c.cache.free, c.cache.total)
	}
	for i, b := range c.cache.blocks {
		if b.holders != 0 || b.keyed && c.cache.index.find(b.key) != int32(i) {
			t.Fatalf("seed %d: block %d is %+v", seed, i, b)
		}
	}
	if n.Preemptions == 0 || n.Evictions == 0 || n.Finished == 0 || n.Aborted == 0 {
		t.Errorf("seed %d: not everything was exercised: %+v", seed, n)
	}
}
