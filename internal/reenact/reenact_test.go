package reenact

import (
	"testing"
)

func TestGhostsSayWhatReplaysFind(t *testing.T) {
	t.Parallel()
	err := Show(t.Context(), Options{Seed: 1, Brief: true}, func(v Verdict) {
		t.Logf("%s: %s", v.Case, v.Figures)
		if !v.Pass {
			t.Errorf("%s: %s", v.Case, v.Figures)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
