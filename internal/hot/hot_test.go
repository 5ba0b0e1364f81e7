package hot

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warmpath/warmpath/internal/prefix"
)

const second = int64(1e9)

// chainOf is blocks of 16 bytes: so many of a shared beginning, then so many of one's own.
func chainOf(shared, n, own, more int) (c prefix.Chain) {
	add := func(a, b int) {
		x := uint64(a+1)*0x9e3779b97f4a7c15 ^ uint64(b+1)*0xd6e8feb86659fd93
		x = (x ^ x>>32) * 0x7fb5d329728ea185
		c.Keys = append(c.Keys, prefix.Key(x^x>>29))
		c.Ends = append(c.Ends, int32(16*(len(c.Ends)+1)))
	}
	for i := range n {
		add(shared, i)
	}
	for i := range more {
		add(1_000_000+own, n+i)
	}
	return c
}

// ask notes a request whose first known blocks were known.
func ask(h *Table, at int64, c prefix.Chain, known int) {
	h.Note(&Request{At: at, Model: "m", Chain: c, PromptTokens: 4 * len(c.Keys), TextBytes: 16 * len(c.Keys), Known: known, CachedTokens: 4 * known})
}

func TestWhereRequestsPartIsTheEndOfTheirPrefix(t *testing.T) {
	h := New(Options{})
	for i := range 20 {
		ask(h, int64(i)*second, chainOf(1, 30, i, 10), min(30, 30*i))
	}
	top := h.Top(20*second, 10, ByRequests)
	if len(top) != 1 {
		t.Fatalf("%d prefixes: %+v", len(top), top)
	}
	p := top[0]
	if p.Blocks != 30 || p.Tokens != 120 || p.Bytes != 480 || p.Requests != 19 || p.CachedTokens != 19*120 || p.First != second || p.Last != 19*second || p.Key != chainOf(1, 30, 0, 0).Keys[29] {
		t.Errorf("%+v", p)
	}
}

func TestAPrefixThatNearlyAllGoOnFromIsTheLongerOne(t *testing.T) {
	h := New(Options{})
	for i := range 100 {
		known := 20 // one in twenty parts early
		c := chainOf(1, 20, i, 5)
		if i%20 > 0 {
			c, known = chainOf(1, 40, i, 5), 40
		}
		ask(h, second, c, known)
	}
	top := h.Top(second, 10, ByRequests)
	if len(top) != 1 || top[0].Blocks != 40 || top[0].Requests != 95 {
		t.Errorf("%+v", top)
	}
	for i := range 100 {
		ask(h, second, chainOf(1, 20, 1000+i, 5), 20)
	}
	if top = h.Top(second, 10, ByRequests); len(top) != 2 || top[0].Blocks != 20 || top[1].Blocks != 40 || top[0].Requests < 195 {
		t.Errorf("half of them part early: %+v", top)
	}
}

func TestWhatWasHotGivesWay(t *testing.T) {
	h := New(Options{HalfLife: 60})
	for i := range 1000 {
		ask(h, second, chainOf(1, 10, i, 5), 10)
	}
	if top := h.Top(second, 1, ByRequests); math.Abs(top[0].PerMinute-1000*2*math.Ln2) > 1 {
		t.Errorf("%v requests a minute, in the first one", top[0].PerMinute)
	}
	for i := range 30 {
		ask(h, 601*second, chainOf(2, 10, i, 5), 10)
	}
	top := h.Top(601*second, 2, ByRequests)
	if len(top) != 2 || top[0].Requests != 30 || top[1].PerMinute > 1 || top[1].Requests != 1000 {
		t.Errorf("ten minutes later: %+v", top)
	}
	ask(h, 601*second+rebaseAfter*61*second, chainOf(2, 10, 99, 5), 10)
	if top = h.Top(601*second+rebaseAfter*61*second, 2, ByRequests); len(top) != 2 || math.Abs(top[0].PerMinute-math.Ln2) > 0.01 {
		t.Errorf("hours later: %+v", top)
	}
}

func TestTheRateOfAPrefixIsRightFromTheFirstMinutesOn(t *testing.T) {
	h := New(Options{Max: 2})
	for _, own := range []int{5, 6} { // one of them gives way, and leaves its weight as the other's error
		ask(h, second, chainOf(own, 10, 0, 5), 10)
	}
	at := second
	for _, minutes := range []int64{1, 2, 5, 15, 60, 300} {
		for ; at < minutes*60*second; at += second / 2 {
			ask(h, at, chainOf(1, 10, int(at/1e6), 5), 10)
		}
		if top := h.Top(at, 1, ByRequests); math.Abs(top[0].PerMinute-top[0].Error-120) > 4 || top[0].Error > 2 {
			t.Errorf("after %d minutes: %v requests a minute and %v that may be too many, really 120", minutes, top[0].PerMinute, top[0].Error)
		}
	}
}

func TestTheMostFrequentPrefixesAreFoundAmongManyRareOnes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	h := New(Options{Max: 64})
	real := map[prefix.Key]float64{}
	for i := range 20_000 {
		shared := 100 + i // rare: its own conversation's
		if chance.IntN(2) == 0 {
			shared = int(chance.ExpFloat64() * 3)
		}
		c := chainOf(shared, 12, i, 4)
		real[c.Keys[11]]++
		ask(h, second, c, 12)
	}
	top := h.Top(second, 5, ByRequests)
	if n, most := h.Len(); n != 64 || most != 64 || len(top) < 5 {
		t.Fatalf("%d of %d in the table, %d on top", n, most, len(top))
	}
	for i, p := range top {
		if want := real[chainOf(i, 12, 0, 0).Keys[11]]; p.Key != chainOf(i, 12, 0, 0).Keys[11] || p.Requests < 0.95*want || p.Requests > want {
			t.Errorf("place %d: %v requests, really %v", i, p.Requests, want)
		}
	}
}

func TestAShareOfTheRequestsStandsForAllWhereTheyAreMany(t *testing.T) {
	h := New(Options{KeysMax: 2000})
	for i := range 20_000 { // of 20 blocks, a thousand a second
		ask(h, int64(i)*second/1000, chainOf(1, 15, i, 5), 15)
	}
	if h.every < 10 {
		t.Errorf("one in %d is looked at, though ten times too many blocks come", h.every)
	}
	if top := h.Top(20*second, 1, ByRequests); math.Abs(top[0].Requests-20_000) > 2000 {
		t.Errorf("%v requests, really 20,000", top[0].Requests)
	}
}

func TestTextIsKeptWhereThatIsAskedForAlone(t *testing.T) {
	for bytes, want := range map[int]string{0: "", 8: "You are ", 200: "You are a helpful assistant."} {
		h := New(Options{TextBytes: bytes})
		for range 3 {
			c := chainOf(1, 2, 0, 0)
			h.Note(&Request{At: second, Chain: c, PromptTokens: 8, TextBytes: 32, Known: 2, Text: []byte("You are a helpful assistant.")})
		}
		if got := h.Top(second, 1, ByRequests)[0].Text; got != want {
			t.Errorf("%d bytes: %q", bytes, got)
		}
	}
}

// BenchmarkNote is a request of 100 blocks that begins as others do.
func BenchmarkNote(b *testing.B) {
	h := New(Options{KeysMax: math.MaxInt / 2})
	var all []prefix.Chain
	for i := range 5000 {
		all = append(all, chainOf(i%700, 60, i, 40))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ask(h, second, all[i%len(all)], 60)
	}
}

func TestAClockThatIsSetBackMakesNoPrefixHotWithoutEnd(t *testing.T) {
	for _, back := range []int64{1, 3600, 86400, 30 * 86400} {
		h := New(Options{})
		for _, at := range []int64{100 * 86400, 100*86400 - back} {
			for i := range 20 {
				ask(h, (at+int64(i))*second, chainOf(1, 30, i, 10), 30)
			}
		}
		top := h.Top((100*86400-back+20)*second, 10, ByRequests)
		if len(top) != 1 || !(top[0].PerMinute > 1 && top[0].PerMinute < 42) || top[0].Requests != 40 {
			t.Errorf("%d s back: %+v", back, top)
		}
	}
}
