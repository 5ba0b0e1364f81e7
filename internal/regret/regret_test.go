package regret

import (
	"math"
	"testing"

	"github.com/warmpath/warmpath/internal/sched"
)

// choice is one of two idle workers, the chosen one foretold to take 2.1 s, the other 3.1: 1,000 tokens of prompt, 100 of answer.
func choice() *sched.Decision {
	row := func(prefill, matched float64) sched.Row {
		return sched.Row{MatchedTokens: int(matched), PrefillSeconds: prefill, DelaySeconds: prefill, Price: 1, DecodeSeconds: 1, BatchSeconds: 0}
	}
	return &sched.Decision{OutputTokens: 100, Rows: []sched.Row{row(0.55, 500), row(1.05, 0)}}
}

// asForetold is how the first of them goes when all comes as it was foretold.
func asForetold() Course {
	return Course{PromptTokens: 1000, AnswerTokens: 100, CachedTokens: 500, CachedKnown: true, First: 0.55, Decode: 0.99}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestAChoiceThatGoesAsForetoldIsAheadByWhatItWasForetoldToBe(t *testing.T) {
	c := asForetold()
	v, ok := Judge(choice(), 1000, &c)
	if !ok || !near(v.Real, v.Foretold) || !near(v.Ahead(), 1) || v.Lost() != 0 {
		t.Errorf("%+v, %v", v, ok)
	}
}

func TestWhatCameIsHeldAgainstWhatTheOthersWereForetold(t *testing.T) {
	for _, x := range []struct {
		name        string
		came        func(c *Course, d *sched.Decision)
		lost, ahead float64
	}{
		{"its first token was late by three seconds", func(c *Course, _ *sched.Decision) { c.First += 3 }, 2, 0},
		{"it decoded half as fast", func(c *Course, _ *sched.Decision) { c.Decode *= 2 }, 0, 0.01},
		{"nothing was cached: what its prefill cost others doubles, and so does its own", func(c *Course, _ *sched.Decision) { c.CachedTokens, c.First = 0, 1.1 }, 0.1, 0},
		{"the engine does not tell what was cached", func(c *Course, _ *sched.Decision) { c.CachedTokens, c.CachedKnown = 0, false }, 0, 1},
		{"the answer was ten times as long, on both", func(c *Course, _ *sched.Decision) { c.AnswerTokens, c.Decode = 1000, 9.99 }, 0, 1},
		{"the prompt had twice the tokens, on both", func(c *Course, _ *sched.Decision) { c.PromptTokens, c.CachedTokens, c.First = 2000, 1000, 1.1 }, 0, 2},
		{"the other one was busy: half a step of its batch comes on top", func(_ *Course, d *sched.Decision) { d.Rows[1].Load, d.Rows[1].DecodeSeconds = 7, 2 }, 0, 1 + 0.99 + 0.01},
		{"who was filtered out is none to have chosen", func(_ *Course, d *sched.Decision) {
			d.Rows = append(d.Rows, sched.Row{Why: "draining"})
		}, 0, 1},
		{"the best of the others counts", func(_ *Course, d *sched.Decision) {
			d.Rows = append(d.Rows, sched.Row{PrefillSeconds: 0.04, DecodeSeconds: 1})
		}, 2.09 - 1.03, 0},
	} {
		d, c := choice(), asForetold()
		x.came(&c, d)
		if v, ok := Judge(d, 1000, &c); !ok || !near(v.Lost(), x.lost) || !near(v.Ahead(), x.ahead) {
			t.Errorf("%s: lost %v, ahead %v, want %v, %v (%+v)", x.name, v.Lost(), v.Ahead(), x.lost, x.ahead, v)
		}
	}
}

func TestWhereThereIsNothingToHoldAgainstNothingIsTold(t *testing.T) {
	for _, x := range []struct {
		name string
		came func(c *Course, d *sched.Decision)
	}{
		{"one worker", func(_ *Course, d *sched.Decision) { d.Rows = d.Rows[:1] }},
		{"all others filtered out", func(_ *Course, d *sched.Decision) { d.Rows[1].Why = "tried" }},
		{"no answer was expected", func(_ *Course, d *sched.Decision) { d.OutputTokens = 0 }},
		{"no answer came", func(c *Course, _ *sched.Decision) { c.AnswerTokens = 0 }},
		{"the engine counted no prompt", func(c *Course, _ *sched.Decision) { c.PromptTokens = 0 }},
		{"a clock went back", func(c *Course, _ *sched.Decision) { c.First = -1 }},
		{"a row without a figure", func(_ *Course, d *sched.Decision) { d.Rows[0].QueuedSeconds = math.NaN() }},
		{"a row without end", func(_ *Course, d *sched.Decision) { d.Rows[1].QueuedSeconds = math.Inf(1) }},
	} {
		d, c := choice(), asForetold()
		x.came(&c, d)
		if v, ok := Judge(d, 1000, &c); ok {
			t.Errorf("%s: %+v", x.name, v)
		}
	}
}

func TestOneRequestInFourIsLookedAtWhateverTheTrafficRepeats(t *testing.T) {
	const requests = 100_000
	for _, period := range []uint64{1, 2, 3, 4, 8, 16, 100} {
		for first := range period {
			looked, all := 0, 0
			for n := first; n < requests; n += period {
				all++
				if Sampled(n) {
					looked++
				}
			}
			share := float64(looked) / float64(all)
			if most := 5 * math.Sqrt(0.25*0.75/float64(all)); math.Abs(share-1.0/Every) > most {
				t.Errorf("of every %d-th request from %d on %.3f are looked at", period, first, share)
			}
		}
	}
}

func TestChanceIsInBothSumsAlikeAndBiasShowsInTheForecasts(t *testing.T) {
	var fair, late Sums
	for i := range 1000 {
		c := asForetold()
		c.First += 3 * float64(i%3) // -1, 0, 1 times three seconds about the mean
		d := choice()
		d.Rows[0].QueuedSeconds, d.Rows[1].QueuedSeconds = 3, 3
		v, _ := Judge(d, 1000, &c)
		fair.Add(v)
		c.First += 2
		v, _ = Judge(d, 1000, &c)
		late.Add(v)
	}
	if gained, most := fair.Gained(); math.Abs(most-gained) > 10 || math.Abs(gained/1000-1) > 0.01 || fair.LostSeconds == 0 || math.Abs(fair.RealSeconds/fair.ForetoldSeconds-1) > 0.001 {
		t.Errorf("a choice foretold to be ahead by a second: %.0f of 1000 (%+v)", gained, fair)
	}
	if least, most := late.Gained(); math.Abs(least/1000+1) > 0.01 || math.Abs(most/1000-1) > 0.01 {
		t.Errorf("forecasts that are too good by two seconds: it gained %.3f to %.3f (%+v)", least, most, late)
	}
	if fair.Requests != 1000 || fair.Beaten != 333 {
		t.Errorf("%+v", fair)
	}
}
