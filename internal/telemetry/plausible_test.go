package telemetry

import (
	"math"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestSizesThatNoEngineHasAreUnknown(t *testing.T) {
	for n, want := range map[int]int{-1: 0, 0: 0, 131072: 131072, tokensMax: tokensMax, tokensMax + 1: 0, math.MaxInt: 0, math.MinInt: 0} {
		told := fleet.Info{BlockTokens: n, KVTokensMax: n, Models: []fleet.Model{{ID: "m", ContextMax: n}}}
		got := plausible(told)
		if got.BlockTokens != want || got.KVTokensMax != want || got.Models[0].ContextMax != want {
			t.Errorf("%d became %+v", n, got)
		}
		if told.Models[0].ContextMax != n {
			t.Error("what was told has changed")
		}
	}
	if got := plausible(fleet.Info{SlotsMax: slotsMax + 1}); got.SlotsMax != 0 {
		t.Errorf("%d slots", got.SlotsMax)
	}
}
