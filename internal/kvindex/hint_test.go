package kvindex

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/prefix"
)

func TestGuessesChangeNothingInWhatIsFound(t *testing.T) {
	const seed, blocks, workers = 1, 700, 12
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	indexes := []*Index{New(Options{}), New(Options{Guesses: -1}), New(Options{Guesses: 1})}
	handles := make([][]Handle, len(indexes))
	for i, x := range indexes {
		for slot := range workers {
			handles[i] = append(handles[i], open(x, slot))
		}
	}
	var prompts [][]prefix.Key // that share their first blocks, by pairs
	for c := range uint64(6) {
		keys, _ := chain(blocks, c/2)
		if c%2 == 1 {
			other, _ := chain(blocks, 100+c)
			at := 1 + r.IntN(blocks-1)
			keys = append(keys[:at:at], other[at:]...)
		}
		prompts = append(prompts, keys[:1+r.IntN(blocks)])
	}
	for range 1500 {
		keys, slot := prompts[r.IntN(len(prompts))], r.IntN(workers)
		from, to := 0, 1+r.IntN(len(keys))
		tier := Tier(r.IntN(2))
		names := make([]uint64, to)
		for i, key := range keys[:to] {
			names[i] = uint64(key) ^ 5
		}
		if action := r.IntN(3); action == 0 {
			from = r.IntN(to) // from here to the end of what is stored, or out of the middle
			for i, x := range indexes {
				x.Remove(handles[i][slot], names[from:], nil, tier)
			}
		} else if action == 1 {
			for i, x := range indexes {
				x.Store(handles[i][slot], 0, keys[:to], names, tier)
			}
		}
		asked := prompts[r.IntN(len(prompts))]
		asked = asked[:1+r.IntN(len(asked))]
		want := indexes[1].Match(asked, Match{})
		for _, x := range []*Index{indexes[0], indexes[2]} {
			if got := x.Match(asked, Match{}); !slices.Equal(got.Depth, want.Depth) || !slices.Equal(got.Fast, want.Fast) {
				t.Fatalf("%v and %v, without guesses %v and %v", got.Depth, got.Fast, want.Depth, want.Fast)
			}
		}
	}
}
