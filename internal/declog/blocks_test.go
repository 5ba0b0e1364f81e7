package declog

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestAPromptIsOneRunAndItsFollowUpIsTwo(t *testing.T) {
	type key uint64
	n := newNumbering(1000)
	chain := func(from, count int) (keys []key) {
		for i := range count {
			keys = append(keys, key(from+i)*0x9e3779b97f4a7c15)
		}
		return keys
	}
	for _, c := range []struct {
		what string
		keys []key
		want string
	}{
		{"a new prompt", chain(0, 100), "[{1 100}]"},
		{"another one", chain(1000, 10), "[{101 10}]"},
		{"the first one's follow-up", append(chain(0, 100), chain(2000, 5)...), "[{1 100} {111 5}]"},
		{"a branch off its middle", append(chain(0, 40), chain(3000, 2)...), "[{1 40} {116 2}]"},
		{"the same again", chain(0, 100), "[{1 100}]"},
		{"a block twice in a row", []key{5, 5}, "[{118 1} {118 1}]"},
		{"nothing", nil, "[]"},
	} {
		var r Record
		SetKeys(&r, c.keys)
		runs, cut := n.runs(nil, r.keys)
		r.Blocks = runs
		if got := fmt.Sprint(runs); got != c.want || cut || len(r.Numbers(nil)) != len(c.keys) {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestForgettingHidesPrefixesButNeverInventsThem(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	n := newNumbering(256)
	meaning := map[uint64]uint64{} // number to key
	for range 100_000 {
		k := uint64(random.IntN(2000)) // more than it remembers
		if random.IntN(3) > 0 {
			k = uint64(random.IntN(10)) // hot ones keep their numbers
		}
		v := n.of(k)
		if was, ok := meaning[v]; ok && was != k {
			t.Fatalf("seed %d: number %d meant key %d and now %d", seed, v, was, k)
		}
		meaning[v] = k
		if len(n.young)+len(n.old) > 256 {
			t.Fatalf("seed %d: %d keys remembered, the bound is 256", seed, len(n.young)+len(n.old))
		}
	}
	hot := map[uint64]bool{}
	for v, k := range meaning {
		if k == 3 {
			hot[v] = true
		}
	}
	if len(hot) != 1 {
		t.Errorf("seed %d: a hot key had %d numbers", seed, len(hot))
	}
}
