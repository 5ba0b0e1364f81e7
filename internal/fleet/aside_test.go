package fleet

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestALoadWithoutARequestIsTheLoadAfterItsEnd(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, seed))
	for range 2000 {
		f, w := one(t)
		w.SetInfo(Info{KVTokensMax: 50_000})
		var open []*Reservation
		now := at(0)
		for range 1 + chance.IntN(6) {
			prompt := 1 + chance.IntN(2000)
			r := f.Reserve(w, Need{PromptTokens: prompt, CachedTokens: chance.IntN(prompt), SharedKey: uint64(chance.IntN(3)), PrefillSeconds: chance.Float64(),
				DecodeSeconds: chance.Float64(), Streamed: chance.IntN(2) == 0, Heavy: chance.IntN(3) == 0}, now)
			open = append(open, r)
			if now = now.Add(time.Duration(chance.IntN(1000)) * time.Millisecond); chance.IntN(2) == 0 && r.streamed {
				r.FirstToken(now)
				r.Generated(chance.IntN(100))
			}
		}
		before := w.Load(now)
		n := 1 + chance.IntN(len(open))
		shared := map[uint64]int{}
		for _, r := range open[:n] {
			shared[r.sharedKey]++
			r.Aside(now)
		}
		without := w.Load(now)
		for _, r := range open[:n] {
			r.Regard()
		}
		if after := w.Load(now); after != before {
			t.Fatalf("looking away changed the load from %+v to %+v", before, after)
		}
		for _, r := range open[:n] {
			r.Release(now, Failed)
		}
		after := w.Load(now)
		after.ResidenceSeconds = without.ResidenceSeconds
		for key, n := range shared {
			if key != 0 && n > 1 { // two that share a prefix are each taken to be one of several
				after.KVHeldTokens, after.KVFreeTokens = without.KVHeldTokens, without.KVFreeTokens
			}
		}
		if math.Abs(after.QueuedSeconds-without.QueuedSeconds) < 1e-9 {
			after.QueuedSeconds = without.QueuedSeconds
		}
		if after != without {
			t.Fatalf("%d of %d looked away from: %+v; ended: %+v", n, len(open), without, after)
		}
	}
}

func TestHowFarARequestIsIsToldByPredictionWhereNothingIsSeen(t *testing.T) {
	f, w := one(t)
	need := Need{PromptTokens: 100, PrefillSeconds: 1, DecodeSeconds: 4}
	first, second := f.Reserve(w, need, at(0)), f.Reserve(w, need, at(0))
	for _, c := range []struct {
		ms                    int
		r                     *Reservation
		prefill, answer, left float64
	}{
		{500, first, 0.5, 0, 4.5},
		{500, second, 0, 0, 6},
		{1500, first, 1, 0.125, 3.5},
		{1500, second, 0.5, 0, 4.5},
		{5000, first, 1, 1, 1}, // overdue: a quarter of what it took
		{9000, first, 1, 2, 2},
	} {
		if prefill, answer, left := c.r.Progress(at(c.ms)); prefill != c.prefill || answer != c.answer || left != c.left {
			t.Errorf("after %d ms: %v, %v, %v left; want %v, %v, %v", c.ms, prefill, answer, left, c.prefill, c.answer, c.left)
		}
	}
	first.Release(at(9000), Cancelled)
	if _, _, left := first.Progress(at(9000)); left != 0 {
		t.Errorf("%v s left of what is over", left)
	}
}
