package outlier

import (
	"math/rand/v2"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestOneThatFailsFarMoreOftenThanTheOthersIsAnOutlier(t *testing.T) {
	for name, c := range map[string]struct {
		own, others Counts
		want        bool
	}{
		"every third, among those that are well":  {Counts{24, 8}, Counts{60, 0}, true},
		"every third, beside one that is well":    {Counts{24, 8}, Counts{24, 0}, true},
		"too few answers to tell":                 {Counts{19, 19}, Counts{100, 0}, false},
		"too few answers of others":               {Counts{100, 100}, Counts{19, 0}, false},
		"nobody else":                             {Counts{100, 100}, Counts{}, false},
		"all fail alike":                          {Counts{40, 20}, Counts{120, 60}, false},
		"all fail":                                {Counts{40, 40}, Counts{120, 120}, false},
		"one fault of chance":                     {Counts{20, 1}, Counts{60, 0}, false},
		"beyond chance, and of no account":        {Counts{10000, 300}, Counts{30000, 0}, false},
		"the better of two that fail":             {Counts{60, 6}, Counts{60, 20}, false},
		"the worse of two that fail":              {Counts{60, 40}, Counts{60, 6}, true},
		"two of four fail every third, more seen": {Counts{60, 20}, Counts{180, 20}, true},
	} {
		if got := Is(c.own, c.others, 20); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAWindowForgetsWhatHasLeftIt(t *testing.T) {
	const over = 10 * time.Second
	var w Window
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for s := range 5 {
		w.Add(at(float64(s)), over, s%2 == 0)
	}
	for _, c := range []struct {
		at   float64
		want Counts
	}{{4, Counts{5, 3}}, {9.5, Counts{5, 3}}, {10, Counts{4, 2}}, {12.5, Counts{2, 1}}, {13.9, Counts{1, 1}}, {14, Counts{}}, {1e6, Counts{}}} {
		if got := w.Counts(at(c.at), over); got != c.want {
			t.Errorf("after %v s: %+v, want %+v", c.at, got, c.want)
		}
	}
	w.Add(at(1e6), over, true)
	w.Add(at(1e6), over, true)
	w.Absolve(at(1e6+5), over)
	if got := w.Counts(at(1e6+5), over); got != (Counts{2, 1}) {
		t.Errorf("after a fault was taken back: %+v", got)
	}
	w.Absolve(at(1e6), over)
	w.Absolve(at(1e6), over) // there is none
	w = Window{}
	w.Add(at(1e6), over, true)
	w.Add(at(3), over, false) // the clock went back
	if got := w.Counts(at(1e6), over); got != (Counts{2, 1}) {
		t.Errorf("after the clock went back: %+v", got)
	}
}

func TestWorkersThatFailAlikeAreHardlyEverOutliers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance, wrong := rand.New(rand.NewPCG(seed, 1)), 0
	const runs = 2000
	for range runs {
		draw := func(n int) (c Counts) {
			for c.Answers < n {
				c.Answers++
				if chance.Float64() < 0.2 {
					c.Faults++
				}
			}
			return c
		}
		if Is(draw(30), draw(90), 20) {
			wrong++
		}
	}
	if wrong > runs/100 {
		t.Errorf("%d of %d", wrong, runs)
	}
}
