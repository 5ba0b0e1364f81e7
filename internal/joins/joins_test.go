package joins

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// naive is byte pair encoding as it is told: the pair of the lowest rank, of equals the leftmost, joins, until none does.
func naive(symbols []uint32, rank map[[2]uint32]int, result map[[2]uint32]uint32) []uint32 {
	for {
		best, at := -1, -1
		for i := 0; i+1 < len(symbols); i++ {
			if r, ok := rank[[2]uint32{symbols[i], symbols[i+1]}]; ok && (best < 0 || r < best) {
				best, at = r, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols[at] = result[[2]uint32{symbols[at], symbols[at+1]}]
		symbols = slices.Delete(symbols, at+1, at+2)
	}
}

func TestWordsJoinAsTheNaiveWayDoesAlsoWhereRanksAreShared(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, seed))
	for round := range 200 {
		texts := []string{"a", "b", "c"}
		ids := map[string]uint32{"a": 0, "b": 1, "c": 2}
		var pairs []uint64
		var results, ranks []uint32
		rank, result := map[[2]uint32]int{}, map[[2]uint32]uint32{}
		last := uint32(0)
		for range 30 {
			l, r := texts[random.IntN(len(texts))], texts[random.IntN(len(texts))]
			pair := [2]uint32{ids[l], ids[r]}
			if _, seen := rank[pair]; seen || len(l+r) > 9 {
				continue
			}
			id, known := ids[l+r]
			if !known {
				id = uint32(len(texts))
				ids[l+r], texts = id, append(texts, l+r)
			}
			if shared := round%2 == 1 && random.IntN(2) == 0; !shared && len(ranks) > 0 {
				last++
			}
			pairs, results, ranks = append(pairs, Key(pair[0], pair[1])), append(results, id), append(ranks, last)
			rank[pair], result[pair] = int(last), id
		}
		var ranked Table
		ranked.FillRanked(pairs, results, ranks)
		for range 40 {
			var word []uint32
			for range 1 + random.IntN(3*scanMax) {
				word = append(word, uint32(random.IntN(3)))
			}
			want := naive(slices.Clone(word), rank, result)
			if got := ranked.Join(nil, slices.Clone(word), &Queue{}); !slices.Equal(got, want) {
				t.Fatalf("round %d, seed %d: %v became %v, want %v", round, seed, word, got, want)
			}
		}
	}
}

func TestOfPairsThatRepeatTheLastOrTheFirstCounts(t *testing.T) {
	pairs := []uint64{Key(0, 1), Key(1, 2), Key(0, 1), NoPair} // ab, bc, ab again
	results := []uint32{3, 4, 5, 0}
	var last, first Table
	last.Fill(pairs, results)
	first.FillFirst(pairs, results)
	show := func(t *Table) string { return strings.Trim(fmt.Sprint(t.Join(nil, []uint32{0, 1, 2}, &Queue{})), "[]") }
	if show(&last) != "0 4" || show(&first) != "3 2" {
		t.Error(show(&last), show(&first))
	}
}
