package cost

import (
	"math"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestWorkIsEstimatedByTheWorkersConstants(t *testing.T) {
	k := Profiles["h100-8b"].Constants
	w := Work{PromptTokens: 4000, CachedTokens: 1000, Output: Lengths{Mean: 200, P50: 150, P90: 400, Longest: 200}}
	e := w.On(Conditions{Constants: k, Batch: 9, ContextTokens: 30_000, PageTokens: 16})
	if want := k.Prefill(3000, 1000) + 9*k.D1 + 30_000*k.D2; math.Abs(e.PrefillSeconds-want) > 1e-12 { // one step, with nine others in it
		t.Errorf("prefill %v s, want %v", e.PrefillSeconds, want)
	}
	if want := 200 * k.Step(10, 34_100); math.Abs(e.DecodeSeconds-want) > 1e-9 {
		t.Errorf("decode %v s, want %v", e.DecodeSeconds, want)
	}
	if e.OutputTokens != 200 || e.OutputP50 != 150 || e.OutputP90 != 400 || e.KVTokensPeak != 4400 {
		t.Errorf("%+v", e)
	}
	if none := (Work{PromptTokens: 4000}).On(Conditions{Constants: k}); none.DecodeSeconds != 0 || none.OutputTokens != 0 || none.KVTokensPeak != 4000 {
		t.Errorf("nothing is generated: %+v", none)
	}
}

func TestEngineTimeIsSharedOutWhole(t *testing.T) {
	k := Profiles["h100-70b-tp4"].Constants
	const batch, prompt, out = 20, 3000, 100
	w := Work{PromptTokens: prompt, CachedTokens: prompt, Output: Lengths{Mean: out}}
	e := w.On(Conditions{Constants: k, Batch: batch - 1, ContextTokens: (batch - 1) * (prompt + out/2)})
	shares := batch * (e.EngineSeconds - e.PrefillSeconds)
	if engine := out * k.Step(batch, batch*(prompt+out/2)); math.Abs(shares-engine) > 1e-9*engine {
		t.Errorf("the shares of %d equal requests are %v s of %v s", batch, shares, engine)
	}
}

func TestManyAnswersShareTheirPromptAndAreDecodedSideBySide(t *testing.T) {
	c := Conditions{Constants: Profiles["h100-8b"].Constants, PageTokens: 16}
	one := Work{PromptTokens: 1000, Output: Lengths{Mean: 100, P50: 90, P90: 200, Longest: 100}}
	four := one
	four.Answers, four.Output.Longest = 4, 160
	a, b := one.On(c), four.On(c)
	if b.PrefillSeconds != a.PrefillSeconds || b.OutputTokens != 4*a.OutputTokens || b.OutputP90 != 4*a.OutputP90 {
		t.Errorf("one %+v, four %+v", a, b)
	}
	if b.DecodeSeconds < 1.6*a.DecodeSeconds || b.DecodeSeconds > 2*a.DecodeSeconds || b.EngineSeconds > 2*a.EngineSeconds+a.PrefillSeconds {
		t.Errorf("one takes %v s, four %v s, of the engine %v s and %v s", a.DecodeSeconds, b.DecodeSeconds, a.EngineSeconds, b.EngineSeconds)
	}
	if a.KVTokensPeak != 1200 || b.KVTokensPeak != 992+4*208 {
		t.Errorf("peaks %d and %d", a.KVTokensPeak, b.KVTokensPeak)
	}
	two := Work{PromptTokens: 2000, Prompts: 2, Output: one.Output}
	if e := two.On(c); e.PrefillSeconds != 2*a.PrefillSeconds || e.KVTokensPeak != 2*a.KVTokensPeak {
		t.Errorf("two prompts %+v", e)
	}
}

func TestMoneyIsForEngineTimeAndForTokens(t *testing.T) {
	f := func(p Price, want float64) {
		t.Helper()
		if got := p.Of(18, 1_000_000, 400_000, 50_000); math.Abs(got-want) > 1e-12 {
			t.Errorf("%+v: %v, want %v", p, got, want)
		}
	}
	f(Price{WorkerHour: 4}, 0.02)
	f(Price{Input: 3, Cached: 0.3, Output: 15}, 1.8+0.12+0.75)
	f(Price{Input: 3}, 3)
	f(Price{WorkerHour: 4, Output: 1}, 0.07)
	f(Price{}, 0)
	if got := (Price{Input: 1}).Of(0, 10, 50, 0); got != 1e-5 {
		t.Errorf("more cached than there is: %v", got)
	}
	for _, bad := range []Price{{WorkerHour: -1}, {Input: math.NaN()}, {Output: math.Inf(1)}, {Cached: -0.1}} {
		if setting, _ := bad.Check(); setting == "" {
			t.Errorf("%+v passes", bad)
		}
	}
}

func TestNoWorkIsEverLessThanNothing(t *testing.T) {
	r := source(t, 34)
	for range 2000 {
		w := Work{PromptTokens: r.IntN(200_000) - 10, CachedTokens: r.IntN(300_000) - 10, Prompts: r.IntN(4) - 1, Answers: r.IntN(5) - 1,
			Output: Lengths{Mean: float64(r.IntN(3) * r.IntN(5000)), P90: float64(r.IntN(9000)), Longest: float64(r.IntN(9000))}}
		c := Conditions{Constants: Profiles["a100-8b"].Constants, Batch: float64(r.IntN(300) - 5), ContextTokens: float64(r.IntN(1_000_000) - 5), PageTokens: r.IntN(64) - 1}
		e := w.On(c)
		for _, v := range []float64{e.PrefillSeconds, e.DecodeSeconds, e.EngineSeconds, e.OutputTokens, float64(e.KVTokensPeak), Price{1, 1, 1, 1}.Expected(e)} {
			if !(v >= 0) || math.IsInf(v, 0) {
				t.Fatalf("%+v on %+v: %+v", w, c, e)
			}
		}
		if e.EngineSeconds > e.PrefillSeconds+e.DecodeSeconds+1e-9 {
			t.Fatalf("%+v on %+v takes more of the engine than there is: %+v", w, c, e)
		}
	}
}

func TestConditionsAreOfOursAndOfOthersRequestsAndAPoolsAreTheMean(t *testing.T) {
	now := time.Unix(1000, 0)
	f := fleet.New(fleet.DefaultOptions())
	w, err := f.Add("a", "http://a", now)
	if err != nil {
		t.Fatal(err)
	}
	w.SetInfo(fleet.Info{BlockTokens: 32})
	k := Profiles["h100-8b"].Constants
	w.Observe(fleet.Counts{Running: 3, Has: fleet.HasRunning | fleet.HasWaiting, At: now})
	if c := ConditionsAt(w, k, w.Load(now), 500); c.Batch != 3 || c.ContextTokens != 1500 || c.PageTokens != 32 || c.Constants != k {
		t.Errorf("only others are there: %+v", c)
	}
	f.Reserve(w, fleet.Need{PromptTokens: 2000, Streamed: true}, now)
	busy := ConditionsAt(w, k, w.Load(now), 500)
	if busy.Batch != 4 || busy.ContextTokens != 8000 {
		t.Errorf("others are as long as ours: %+v", busy)
	}
	later := now.Add(time.Minute)
	if c := ConditionsAt(w, k, w.Load(later), 500); c.Batch != 1 || c.ContextTokens != 2000 {
		t.Errorf("what is long past is unknown, and not counted: %+v", c)
	}
	mean := Across([]Conditions{busy, {Constants: k.Scaled(3), PageTokens: 16}})
	if math.Abs(mean.B-2*k.B) > 1e-15 || mean.Batch != 2 || mean.ContextTokens != 4000 || mean.PageTokens != 32 {
		t.Errorf("the mean is %+v", mean)
	}
	if Across(nil) != (Conditions{}) {
		t.Error("no workers have conditions")
	}
}
