package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/warmpath/warmpath/internal/prefix"
)

func TestTheIndexOfKeysIsAMap(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	x, want := newKeyIndex(), map[prefix.Key]int32{}
	for i := range 200_000 {
		// Few different keys, many of which have homes side by side at the table's end.
		key := prefix.Key(random.IntN(600))
		if random.IntN(2) == 0 {
			key = ^prefix.Key(0) / 0x9e3779b97f4a7c15 * key
		}
		_, there := want[key]
		switch {
		case !there:
			x.put(key, int32(i+1))
			want[key] = int32(i + 1)
		case random.IntN(3) > 0:
			x.remove(key)
			delete(want, key)
		}
		probe := prefix.Key(random.IntN(600))
		if x.find(key) != want[key] || x.find(probe) != want[probe] || x.used != len(want) {
			t.Fatalf("seed %d, step %d: %d of key %d, want %d; %d keys, want %d", seed, i, x.find(key), key, want[key], x.used, len(want))
		}
	}
}
