package truth

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const block = 16

// told is a report on a prompt of 1,600 tokens, of which the events foretold so many and the engine had so many.
func told(predicted, reported int) Seen {
	return Seen{Exact: true, Predicted: predicted, Best: predicted, Reported: reported, TokensKnown: true, PromptPredicted: 1600, PromptReported: 1600, BlockTokens: block}
}

// note notes the same report n times, and returns how often that changed whether the worker is trusted.
func note(b *Book, n int, s Seen) (changes int) {
	for range n {
		if b.Note("a", 1, s) {
			changes++
		}
	}
	return changes
}

func TestAWorkerWhosePredictionsFailStepsDownAndClimbsBackWhenTheyAreRightAgain(t *testing.T) {
	for name, wrong := range map[string]Seen{"too much": told(800, 0), "too little": told(0, 800), "half of it, twice over": told(1584, 160)} {
		b := New(Options{})
		if n := note(b, 10, wrong); n != 0 || !b.Trusted("a") {
			t.Errorf("%s: stepped down after ten", name)
		}
		if n := note(b, 10, wrong); n != 1 || b.Trusted("a") || b.Of("a").StepDowns != 1 {
			t.Errorf("%s: %d changes within twenty, trust %.2f", name, n, b.Of("a").Trust)
		}
		down := told(0, 800) // placed by what is assumed; the events are right
		down.Exact, down.Told = false, 800
		if n := note(b, 10, down); n != 0 {
			t.Errorf("%s: up again after ten", name)
		}
		if n := note(b, 30, down); n != 1 || !b.Trusted("a") {
			t.Errorf("%s: %d changes on the way up, trust %.2f", name, n, b.Of("a").Trust)
		}
	}
}

func TestASingleMissStepsNobodyDown(t *testing.T) {
	b := New(Options{})
	for range 50 {
		note(b, 3, told(800, 800))
		if note(b, 1, told(800, 0)) != 0 {
			t.Fatal("one miss in four cost the trust")
		}
	}
	if s := b.Of("a"); math.Abs(s.Trust-0.75) > 0.1 || s.Right != 150 || s.Requests != 200 {
		t.Errorf("%+v", s)
	}
}

func TestChanceHardlyCarriesAWorkerToAndFro(t *testing.T) {
	for _, c := range []struct {
		right float64
		most  int // changes in 2,000 comparisons
		down  bool
	}{{0.95, 0, false}, {0.9, 0, false}, {0.7, 12, false}, {0.5, 3, true}, {0.25, 1, true}} {
		for seed := range uint64(10) {
			r := rand.New(rand.NewPCG(seed, 1))
			b, changes := New(Options{}), 0
			for range 2000 {
				s := told(800, 0)
				if r.Float64() < c.right {
					s.Reported = 800
				}
				changes += note(b, 1, s)
			}
			if changes > c.most || c.down && b.Trusted("a") {
				t.Errorf("seed %d: with %.0f%% right trust changed %d times and is %.2f", seed, 100*c.right, changes, b.Of("a").Trust)
			}
		}
	}
}

func TestRequestsThatWereInFlightTogetherAreOneMistake(t *testing.T) {
	b, at := New(Options{}), time.Unix(1000, 0)
	burst := func(n int, s Seen) (changes int) {
		s.Placed = at
		for range n {
			at = at.Add(time.Millisecond)
			s.Ended = at
			changes += note(b, 1, s)
		}
		return changes
	}
	if n := burst(64, told(800, 0)) + burst(64, told(800, 0)); n != 0 {
		t.Errorf("down after two bursts, trust %.3f", b.Of("a").Trust)
	}
	if burst(64, told(800, 0)) != 1 {
		t.Errorf("not down after three, trust %.3f", b.Of("a").Trust)
	}
	b.Forget("a")
	burst(64, told(800, 0))
	burst(64, told(800, 800))
	if burst(64, told(800, 0)) != 0 {
		t.Error("what was right in between does not count")
	}
}

func TestWhatAnEngineCannotReportIsNoError(t *testing.T) {
	for name, s := range map[string]Seen{
		"a prompt cached to its end is reported a block short of it":      told(1600, 1584),
		"an engine that computes the last token alone":                    {Exact: true, Predicted: 1600, Reported: 1599, PromptReported: 1600},
		"nothing known of the engine's count":                             {Exact: true, Predicted: 1600, Reported: 1584, PromptPredicted: 1600, BlockTokens: block},
		"an engine that says that more was cached than there was":         {Exact: true, Predicted: 1584, Reported: 1 << 40, PromptReported: 1599, BlockTokens: block},
		"numbers below zero, as a careless owner or a hostile engine has": {Exact: true, Predicted: -5, Reported: -7, BlockTokens: block},
	} {
		b := New(Options{})
		note(b, 1, s)
		if got := b.Of("a"); got.Right != 1 || got.Trust != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestABlockMoreOrLessCostsNoTrustButIsCounted(t *testing.T) {
	b := New(Options{})
	note(b, 100, told(800, 800-block))
	if s := b.Of("a"); s.Trust != 1 || s.ErrorTokens != 100*block || s.MeanErrorTokens != block || s.BiasTokens != block || s.Right != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTwoZerosEarnNoTrust(t *testing.T) {
	b := New(Options{})
	note(b, 20, told(0, 800))
	if n := note(b, 500, told(0, 0)); n != 0 || b.Trusted("a") || b.Of("a").Compared != 20 {
		t.Errorf("%d changes, %+v", n, b.Of("a"))
	}
}

func TestTheLossIsSplitByWhatWentWrong(t *testing.T) {
	other := told(0, 0)
	other.Best = 800
	shorter := told(800, 160)
	shorter.PromptReported = 1590
	assumed := Seen{Told: -1, Reported: 800, BlockTokens: block}
	more := told(320, 800)
	more.Best = 640
	for _, c := range []struct {
		name  string
		times int
		seen  Seen
		want  Loss
	}{
		{"right", 1, told(800, 800), Loss{}},
		{"evicted early, or a removal was lost", 1, told(800, 320), Loss{NotThere: 480}},
		{"a sibling finished in between, or a store was lost", 1, told(320, 800), Loss{Untold: 480}},
		{"another worker had it", 1, other, Loss{MisRouted: 800}},
		{"another had more than was foretold here, and less than there was", 1, more, Loss{Untold: 480}},
		{"another number of tokens is another prompt", 1, shorter, Loss{MisKeyed: 640}},
		{"nothing foretold, and much of it there: once it is a race", 2, told(0, 800), Loss{Untold: 1600}},
		{"and in a row it is another key", 3, told(0, 800), Loss{Untold: 1600, MisKeyed: 800}},
		{"much foretold and nothing there, in a row", 4, told(800, 0), Loss{NotThere: 1600, MisKeyed: 1600}},
		{"a cache of which nothing is assumed yet is no other key", 9, assumed, Loss{Untold: 7200}},
	} {
		b := New(Options{})
		note(b, c.times, c.seen)
		if got := b.Of("a").Loss; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestARunEndsWithAPredictionThatIsPartlyRight(t *testing.T) {
	b := New(Options{})
	for range 5 {
		note(b, 2, told(0, 800))
		note(b, 1, told(160, 800))
	}
	if l := b.Of("a").Loss; l.MisKeyed != 0 {
		t.Errorf("%+v", l)
	}
}

func TestAnEngineThatBeganAnewIsJudgedAnewAndLateReportsOfTheOldOneArePassedOver(t *testing.T) {
	b := New(Options{})
	note(b, 20, told(800, 0))
	if !b.Note("a", 2, told(800, 800)) || !b.Trusted("a") {
		t.Error("the new engine is not trusted")
	}
	if b.Note("a", 1, told(800, 0)) {
		t.Error("a late report changed something")
	}
	if s := b.Of("a"); s.Requests != 21 || s.Trust != 1 || s.Incarnation != 2 || s.StepDowns != 1 || s.MeanErrorTokens != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTheBookIsBoundedAndInOrder(t *testing.T) {
	b := New(Options{WorkersMax: 2})
	for _, w := range []string{"c", "a", "b"} {
		b.Note(w, 1, told(0, 800))
	}
	all := b.All()
	if len(all) != 2 || all[0].Worker != "a" || all[1].Worker != "c" || !b.Trusted("b") || b.Of("b").Trust != 1 {
		t.Errorf("%+v", all)
	}
	b.Forget("a")
	if b.Knows("a") || !b.Knows("c") {
		t.Error("what was forgotten is known, or the other way round")
	}
	b.Note("b", 1, told(0, 800))
	if got := fmt.Sprint(b.All()[0].Worker, b.All()[1].Worker); got != "bc" {
		t.Error(got)
	}
}

func TestMeansFollowTheLastReportsAndCountsKeepAll(t *testing.T) {
	b := New(Options{})
	note(b, 1000, told(800, 400))
	note(b, 2000, told(800, 800))
	s := b.Of("a")
	if s.ErrorTokens != 400_000 || s.MeanErrorTokens > 0.01 || s.MeanErrorShare > 0.001 || s.PredictedTokens != 2_400_000 || s.ReportedTokens != 2_000_000 {
		t.Errorf("%+v", s)
	}
	note(b, 1000, told(400, 800))
	if s = b.Of("a"); math.Abs(s.BiasTokens+400) > 1 || math.Abs(s.MeanErrorShare-0.5) > 0.01 {
		t.Errorf("%+v", s)
	}
}
