package cost

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// truth is an engine to learn: the constants it really has.
type truth struct {
	name string
	Constants
	prior Constants // its class's
}

// truths are the published profiles, a time-scaled one, a processor at 75 tokens/s and something at 40,000.
func truths() []truth {
	var names []string
	for name := range Profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	var ts []truth
	gpu := DefaultOptions().Prior
	for _, name := range names {
		ts = append(ts, truth{name, Profiles[name].Constants, gpu})
	}
	return append(ts,
		truth{"h100-8b 8x faster", gpu.Scaled(1. / 8), gpu},
		truth{"75 tokens/s", Constants{A: 5e-3, B: 1 / 75., C: 2e-7, D0: 13e-3, D1: 12e-3, D2: 1e-6}, DefaultOptions().Engines["llama.cpp"]},
		truth{"40,000 tokens/s", Constants{A: 1e-3, B: 1 / 40e3, C: 4e-10, D0: 5e-3, D1: 1e-5, D2: 3e-8}, gpu},
	)
}

func source(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func fresh(prior Constants) *Model {
	c := newClass(prior)
	m := newModel(c)
	c.members = append(c.members, m)
	return m
}

// prompt draws the lengths of a chat's next turn: a few hundred to some thousand tokens, the most of it cached or none.
func prompt(r *rand.Rand) (uncached, cached int) {
	uncached = int(math.Exp(5.5 + 2.5*r.Float64()))
	if r.IntN(2) == 0 {
		cached = r.IntN(8000)
	}
	return uncached, cached
}

// noisy spreads a time by a log-normal of that deviation.
func noisy(r *rand.Rand, seconds, deviation float64) float64 {
	return seconds * math.Exp(deviation*r.NormFloat64())
}

func off(got, want float64) float64 { return math.Abs(math.Log(got / want)) }

func TestTheSpeedOfAnyEngineIsWithinAFifthAfterTenPrefills(t *testing.T) {
	for _, e := range truths() {
		learnTen(t, e.name+" from its class", e, e.prior, 1.2)
		learnTen(t, e.name+" from an unlike engine", e, Profiles["a100-70b-tp4"].Constants, 1.35)
	}
}

func learnTen(t *testing.T, name string, e truth, prior Constants, within float64) {
	t.Run(name, func(t *testing.T) {
		r := source(t, 7)
		m := fresh(prior)
		for range 10 {
			u, h := prompt(r)
			m.LearnPrefill(u, h, noisy(r, e.Prefill(u, h), 0.08))
		}
		for _, u := range []int{1000, 2000, 4000} {
			got, want := m.Constants().Prefill(u, 0), e.Prefill(u, 0)
			if off(got, want) > math.Log(within) {
				t.Errorf("%d tokens: predicted %.4g s, real %.4g s", u, got, want)
			}
		}
	})
}

func TestTheShapeFollowsWithEnoughPrefills(t *testing.T) {
	for _, e := range truths() {
		t.Run(e.name, func(t *testing.T) {
			r := source(t, 8)
			m := fresh(e.prior)
			for range 1500 {
				u, h := prompt(r)
				m.LearnPrefill(u, h, noisy(r, e.Prefill(u, h), 0.1))
				s := float64(1 + r.IntN(60))
				m.LearnStep(s, s*3000*r.Float64(), noisy(r, e.Step(s, s*1500), 0.1))
			}
			for _, q := range [][2]int{{300, 0}, {300, 6000}, {1500, 0}, {6000, 0}, {3000, 6000}} {
				got, want := m.Constants().Prefill(q[0], q[1]), e.Prefill(q[0], q[1])
				if off(got, want) > math.Log(1.25) {
					t.Errorf("%d tokens behind %d: predicted %.4g s, real %.4g s", q[0], q[1], got, want)
				}
			}
		})
	}
}

func TestUnlikeWorkersAreToldApartWithinThirtyRequests(t *testing.T) {
	r := source(t, 9)
	b := newClass(Profiles["h100-8b"].Constants)
	fast, slow := newModel(b), newModel(b)
	b.members = []*Model{fast, slow}
	for range 15 {
		u, h := prompt(r)
		fast.LearnPrefill(u, h, noisy(r, Profiles["h100-8b"].Prefill(u, h), 0.1))
		slow.LearnPrefill(u, h, noisy(r, Profiles["a100-8b"].Prefill(u, h), 0.1))
	}
	ratio := slow.Constants().Prefill(3000, 0) / fast.Constants().Prefill(3000, 0)
	want := Profiles["a100-8b"].Prefill(3000, 0) / Profiles["h100-8b"].Prefill(3000, 0)
	if off(ratio, want) > math.Log(1.25) {
		t.Errorf("the slow worker is thought %.2f times as slow, really %.2f", ratio, want)
	}
}

func TestAFifthOfOutliersDoesNotWreckTheConstants(t *testing.T) {
	r := source(t, 10)
	e := Profiles["a100-32b-tp2"].Constants
	m := fresh(Profiles["h100-8b"].Constants)
	for i := range 400 {
		u, h := prompt(r)
		seconds := noisy(r, e.Prefill(u, h), 0.05)
		gap := noisy(r, e.Step(20, 40_000), 0.05)
		switch i % 10 {
		case 3:
			seconds, gap = seconds*200, gap*500
		case 7:
			seconds, gap = seconds/100, gap/1000
		}
		m.LearnPrefill(u, h, seconds)
		m.LearnStep(20, 40_000, gap)
	}
	for _, u := range []int{500, 2000, 8000} {
		if got, want := m.Constants().Prefill(u, 0), e.Prefill(u, 0); off(got, want) > math.Log(1.3) {
			t.Errorf("%d tokens: predicted %.4g s, real %.4g s", u, got, want)
		}
	}
	if got, want := m.Constants().Step(20, 40_000), e.Step(20, 40_000); off(got, want) > math.Log(1.2) {
		t.Errorf("step predicted %.4g s, real %.4g s", got, want)
	}
}

func TestAWorkerThatSlowsDownIsBelievedAfterThirtyRequests(t *testing.T) {
	r := source(t, 11)
	e := Profiles["h100-8b"].Constants
	m := fresh(e)
	learn := func(n int, e Constants) {
		for range n {
			u, h := prompt(r)
			m.LearnPrefill(u, h, noisy(r, e.Prefill(u, h), 0.05))
		}
	}
	learn(500, e)
	learn(30, e.Scaled(3))
	if got, want := m.Constants().Prefill(3000, 0), e.Scaled(3).Prefill(3000, 0); off(got, want) > math.Log(1.25) {
		t.Errorf("predicted %.4g s, real %.4g s", got, want)
	}
}

func TestDecodeConstantsAreLearnedFromGaps(t *testing.T) {
	for _, e := range truths() {
		t.Run(e.name, func(t *testing.T) {
			r := source(t, 12)
			m := fresh(e.prior)
			for range 3000 {
				batch := float64(1 + r.IntN(100))
				context := batch * (500 + 4000*r.Float64())
				m.LearnStep(batch, context, noisy(r, e.Step(batch, context), 0.1))
			}
			for _, q := range [][2]float64{{4, 8_000}, {50, 100_000}, {90, 300_000}} {
				got, want := m.Constants().Step(q[0], q[1]), e.Step(q[0], q[1])
				if off(got, want) > math.Log(1.35) {
					t.Errorf("batch %v: predicted %.4g s, real %.4g s", q, got, want)
				}
			}
		})
	}
}

func TestTheConstantsAlwaysStaySane(t *testing.T) {
	r := source(t, 13)
	m := fresh(Profiles["h100-8b"].Constants)
	wild := []float64{0, -1, math.NaN(), math.Inf(1), 1e-12, 1e12, 1e-300, 1e300}
	for range 5000 {
		m.LearnPrefill(r.IntN(100_000)-10, r.IntN(100_000)-10, wild[r.IntN(len(wild))])
		m.LearnStep(float64(r.IntN(300)-5), float64(r.IntN(1_000_000)-10), wild[r.IntN(len(wild))])
		k := m.Constants()
		for _, v := range []float64{k.A, k.B, k.C, k.D0, k.D1, k.D2, k.Prefill(100, 0), k.Step(3, 1000)} {
			if !(v > 0) || math.IsInf(v, 0) {
				t.Fatalf("constants %+v", k)
			}
		}
	}
}

func TestAPrefillIsNeverLessThanAStep(t *testing.T) {
	for name, p := range Profiles {
		if got := p.Prefill(1, 0); got < p.D0 {
			t.Errorf("%s: one token takes %v s, a step %v s", name, got, p.D0)
		}
		if p.Prefill(8000, 0) <= p.Prefill(4000, 0) || p.Prefill(4000, 4000) <= p.Prefill(4000, 0) {
			t.Errorf("%s: more work does not take longer", name)
		}
	}
}

func TestANewcomerStartsFromItsClass(t *testing.T) {
	r := source(t, 14)
	c := newClass(Profiles["h100-8b"].Constants)
	newcomer := newModel(c)
	old := newModel(c)
	c.members = []*Model{old, newcomer}
	e := Profiles["a100-70b-tp4"].Constants
	for range 20 {
		u, h := prompt(r)
		old.LearnPrefill(u, h, noisy(r, e.Prefill(u, h), 0.05))
	}
	if got, want := newcomer.Constants().Prefill(3000, 0), e.Prefill(3000, 0); off(got, want) > math.Log(1.3) {
		t.Errorf("predicted %.4g s, its class takes %.4g s", got, want)
	}
	if p, s := newcomer.Samples(); p != 0 || s != 0 {
		t.Errorf("the newcomer has %d and %d samples of its own", p, s)
	}
	if s := old.Speed(); s < 0.05 || s > 0.5 {
		t.Errorf("speed %.3g of the prior's", s)
	}
}

func BenchmarkLearnPrefill(b *testing.B) {
	m := fresh(Profiles["h100-8b"].Constants)
	b.ReportAllocs()
	for i := range b.N {
		m.LearnPrefill(500+i%1000, i%3000, 0.02+float64(i%7)*1e-3)
	}
}

func TestEqualWorkersStayEqualWhateverTheirLuck(t *testing.T) {
	r := source(t, 14)
	c := newClass(Profiles["h100-8b"].Constants)
	for range 8 {
		c.members = append(c.members, newModel(c))
	}
	for range 400 {
		m := c.members[r.IntN(len(c.members))]
		u, h := prompt(r)
		m.LearnPrefill(u, h, noisy(r, Profiles["a100-8b"].Prefill(u, h), 0.3))
		m.LearnStep(float64(1+r.IntN(30)), float64(r.IntN(100_000)), noisy(r, 0.02, 0.3))
		var least, most float64 = math.Inf(1), 0
		for _, m := range c.members {
			s := m.Constants().Prefill(2000, 0)
			least, most = min(least, s), max(most, s)
		}
		if most > 1.1*least {
			t.Fatalf("equal workers are thought to differ by %.2f", most/least)
		}
	}
}

// A worker that is never seen to prefill alone, as where the whole pool is busy, prefills as slowly as it decodes.
func TestAWorkerThatNeverPrefillsAloneIsAsSlowAsItsSteps(t *testing.T) {
	r := source(t, 12)
	e := Profiles["h100-70b-tp4"].Constants
	c := newClass(Profiles["h100-8b"].Constants)
	fast, slow := newModel(c), newModel(c)
	c.members = []*Model{fast, slow}
	for i := range 25 {
		u, h := prompt(r)
		fast.LearnPrefill(u, h, noisy(r, e.Prefill(u, h), 0.1))
		fast.LearnStep(4, 8000, noisy(r, e.Step(4, 8000), 0.1))
		if i%5 == 0 {
			slow.LearnStep(4, 8000, noisy(r, 3*e.Step(4, 8000), 0.1))
		}
	}
	if got := fast.Speed() / slow.Speed(); off(got, 3) > math.Log(1.25) {
		t.Errorf("the fast worker is thought %.2f times as fast, really 3 times", got)
	}
	if got, want := slow.Constants().Prefill(3000, 0), 3*e.Prefill(3000, 0); off(got, want) > math.Log(1.4) {
		t.Errorf("3000 tokens on the slow one: predicted %.4g s, real %.4g s", got, want)
	}
}

func TestAClearDifferenceIsBelievedWholeAndOneWithinChanceNotAtAll(t *testing.T) {
	f := func(off, want float64) {
		t.Helper()
		s := speed{n: 25, own: off, deviation: 0.2} // three standard errors are 0.12
		if got := s.lean(0, 0.2, 0); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v off its class: %v believed instead of %v", off, got, want)
		}
	}
	f(0.1, 0)
	f(-0.1, 0)
	f(0.18, 0.12)
	f(-0.18, -0.12)
	f(0.3, 0.3)
	f(-1, -1)
}

func TestOneStallIsNoSlowWorker(t *testing.T) {
	e := Profiles["h100-8b"].Constants
	c := newClass(e)
	well, stalled := newModel(c), newModel(c)
	c.members = []*Model{well, stalled}
	for range 20 {
		well.LearnPrefill(1000, 0, e.Prefill(1000, 0))
		well.LearnStep(1, 1000, e.Step(1, 1000))
	}
	stalled.LearnPrefill(1000, 0, 300*e.Prefill(1000, 0))
	stalled.LearnStep(1, 1000, 300*e.Step(1, 1000))
	if well.Constants() != stalled.Constants() {
		t.Errorf("after one stall: %+v and %+v", well.Constants(), stalled.Constants())
	}
}

func TestAWorkerThatOnceLookedSlowIsLookedAtAgain(t *testing.T) {
	c := newClass(Profiles["h100-8b"].Constants)
	unlucky, other := newModel(c), newModel(c)
	c.members = []*Model{unlucky, other}
	r := source(t, 15)
	learn := func(m *Model, times float64) {
		u, h := prompt(r)
		m.LearnPrefill(u, h, noisy(r, times*Profiles["h100-8b"].Prefill(u, h), 0.1))
	}
	for range 12 {
		learn(other, 1)
	}
	for range 3 {
		learn(unlucky, 3)
	}
	apart := func() float64 { return unlucky.Constants().B / other.Constants().B }
	if apart() < 1.5 {
		t.Errorf("after three slow prefills the worker is thought %.2f times as slow", apart())
	}
	for range 150 {
		learn(other, 1)
	}
	if apart() > 1.01 {
		t.Errorf("150 prefills later, none of them its own, the worker is still thought %.2f times as slow", apart())
	}
}

func TestEqualWorkersStayEqualWhateverEachHasSeen(t *testing.T) {
	r := source(t, 13)
	e := Profiles["a100-8b"].Constants
	c := newClass(Profiles["h100-8b"].Constants)
	all := []*Model{newModel(c), newModel(c), newModel(c)}
	c.members = all
	for i := range 200 {
		u, h := prompt(r)
		all[i%2].LearnPrefill(u, h, noisy(r, e.Prefill(u, h), 0.15))
		all[i%7%3].LearnStep(4, 8000, noisy(r, e.Step(4, 8000), 0.15))
		if i > 20 && (all[0].Constants() != all[1].Constants() || all[0].Constants() != all[2].Constants()) {
			t.Fatalf("after %d observations: %+v, %+v and %+v", i, all[0].Constants(), all[1].Constants(), all[2].Constants())
		}
	}
}
