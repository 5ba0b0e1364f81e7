package tie

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestWhatHardlyCostsAnythingDecidesFirst(t *testing.T) {
	for _, c := range []struct {
		what string
		rule Rule
		near []Standing
		want string
	}{
		{"a clearly longer match", Rule{Warm: true}, []Standing{{At: 1, Held: 1000}, {At: 2, Held: 100, InFlight: -1}}, "[1]"},
		{"a match that is longer by chance", Rule{Warm: true}, []Standing{{At: 1, Held: 1000}, {At: 2, Held: 950}}, "[1 2]"},
		{"faster memory", Rule{Warm: true}, []Standing{{At: 1, Held: 1000, Loaded: 1000}, {At: 2, Held: 1000}}, "[2]"},
		{"an older cache", Rule{Warm: true}, []Standing{{At: 1, Pressure: 2}, {At: 2, Pressure: 1}, {At: 3, Pressure: 1}}, "[2 3]"},
		{"no look at ages", Rule{Warm: true, Ageless: true}, []Standing{{At: 1, Pressure: 2}, {At: 2, Pressure: 1}}, "[1 2]"},
		{"others left in peace", Rule{Warm: true, Seconds: 0.001}, []Standing{{At: 1, Burden: 0.5}, {At: 2, Burden: 0.1}, {At: 3, Burden: 0.1005}}, "[2 3]"},
		{"no look at caches", Rule{}, []Standing{{At: 1, Held: 1000, InFlight: 2}, {At: 2, InFlight: 1}}, "[2]"},
		{"the fewest in flight", Rule{Warm: true}, []Standing{{At: 1, InFlight: 2}, {At: 2, InFlight: 1}, {At: 3, InFlight: 1}}, "[2 3]"},
		{"nobody", Rule{Warm: true}, nil, "[]"},
	} {
		var at []int
		for _, s := range Fewest(c.rule.Prefer(c.near, 1200)) {
			at = append(at, s.At)
		}
		if got := fmt.Sprint(at); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestTheBoundOfATieIsTheLargerOfTimeAndShare(t *testing.T) {
	r := Rule{Seconds: 0.001, Share: 0.02}
	for least, want := range map[float64]string{0: "0.00100", 0.01: "0.01100", 1: "1.02000", -1: "-0.98000"} {
		if got := fmt.Sprintf("%.5f", r.Bound(least)); got != want {
			t.Errorf("%v: %s, want %s", least, got, want)
		}
	}
}

func TestWhatDecidedAgainstTheLeastIsTold(t *testing.T) {
	for _, c := range []struct {
		what string
		rule Rule
		near []Standing // the first has the least score
		want Edge
	}{
		{"nobody else", Rule{Warm: true}, []Standing{{Held: 1000}}, Least},
		{"several have the least score", Rule{Warm: true}, []Standing{{InFlight: 1}, {}}, Least},
		{"several are as good", Rule{Warm: true}, []Standing{{}, {}}, Chance},
		{"a clearly longer match", Rule{Warm: true}, []Standing{{Held: 100}, {Held: 1000, Score: 1}}, Warmer},
		{"a match that is longer by chance", Rule{Warm: true}, []Standing{{Held: 950, InFlight: 1}, {Held: 1000, Score: 1}}, Fewer},
		{"faster memory", Rule{Warm: true}, []Standing{{Loaded: 1000}, {Score: 1}}, Faster},
		{"nobody to hold up", Rule{Warm: true}, []Standing{{InFlight: 1, Delay: 5}, {Score: 1, Pressure: 2}}, Idle},
		{"a prefill that nobody notices", Rule{Warm: true}, []Standing{{InFlight: 1, Delay: 0.1}, {Score: 1}}, Fewer},
		{"nobody is idle", Rule{Warm: true}, []Standing{{InFlight: 3, Delay: 5, Pressure: 2}, {InFlight: 4, Delay: 5, Score: 1}}, Older},
		{"nobody to hold up", Rule{Warm: true}, []Standing{{InFlight: 1, Delay: 5}, {Score: 1, Pressure: 2}}, Idle},
		{"a prefill that nobody notices", Rule{Warm: true}, []Standing{{InFlight: 1, Delay: 0.1}, {Score: 1}}, Fewer},
		{"nobody is idle", Rule{Warm: true}, []Standing{{InFlight: 3, Delay: 5, Pressure: 2}, {InFlight: 4, Delay: 5, Score: 1}}, Older},
		{"an older cache", Rule{Warm: true}, []Standing{{Pressure: 2}, {Score: 1}}, Older},
		{"others left in peace", Rule{Warm: true}, []Standing{{Burden: 2}, {Score: 1}}, Gentler},
		{"no look at caches", Rule{}, []Standing{{Held: 100, InFlight: 1}, {Held: 1000, Score: 1}}, Fewer},
	} {
		c.rule.Bound(0)
		left := Fewest(c.rule.Prefer(c.near, 1200))
		if c.rule.Taken(left); c.rule.By != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.rule.By, c.want)
		}
	}
	r := Rule{Warm: true}
	r.Bound(0)
	if r.Taken(Fewest(r.Prefer([]Standing{{}, {Score: 1}}, 1200))); r.By != Chance {
		t.Errorf("of two that are left, not the least: %d", r.By)
	}
}

func TestSomebodyIsAlwaysLeft(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		near := make([]Standing, 1+random.IntN(9))
		for i := range near {
			near[i] = Standing{At: i, Held: random.IntN(2000), Loaded: random.IntN(500), Pressure: random.Float64(), Burden: random.Float64(), InFlight: float64(random.IntN(4))}
		}
		r := Rule{Seconds: 0.001, Share: 0.02, Warm: random.IntN(2) == 0, Ageless: random.IntN(2) == 0}
		if left := Fewest(r.Prefer(near, 2000)); len(left) == 0 {
			t.Fatalf("seed %d: nobody is left", seed)
		}
	}
}
