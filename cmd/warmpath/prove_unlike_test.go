package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestWeighedTurnsKeepTheirSharesAndNeverBunch(t *testing.T) {
	f := func(weight float64, turns int, want string) {
		t.Helper()
		w := &weighedTurns{weights: []float64{weight, 1}, owed: make([]float64, 2)}
		var got strings.Builder
		for range turns {
			got.WriteByte("fs"[w.turn()])
		}
		if got.String() != want {
			t.Errorf("%v: %s instead of %s", weight, got.String(), want)
		}
	}
	f(1, 6, "fsfsfs")
	f(2, 6, "fsffsf")
	f(3, 8, "ffsfffsf")
	f(1.5, 5, "fsfsf")
}

func TestUnlikeWorkersAreHeldAgainstTheBestStaticWeighting(t *testing.T) {
	f := func(want bool, ours unlikeRun, clients int, static ...unlikeRun) {
		t.Helper()
		p := proofOf(new(bytes.Buffer))
		p.unlikeVerdict(unlikeSetting{load: 0.8, clients: clients}, ours, static)
		if p.verdicts[0].Pass != want {
			t.Errorf("%+v", p.verdicts[0])
		}
	}
	one, three := unlikeRun{weight: 1, goodput: 5, rate: 12}, unlikeRun{weight: 3, goodput: 10, rate: 10}
	f(true, unlikeRun{goodput: 9.6, rate: 5}, 0, one, three)
	f(false, unlikeRun{goodput: 9.4, rate: 12}, 0, one, three)
	f(false, unlikeRun{goodput: 9.6, rate: 10}, 48, one, three)
	f(true, unlikeRun{goodput: 9.6, rate: 11.5}, 48, one, three)
	f(false, unlikeRun{goodput: 9.6, rate: 11.5, late: true}, 48, one, three)
}

func TestAFreshRouterTellsUnlikeWorkersApartAndLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := proofOf(new(bytes.Buffer))
	if err := p.unlikeLearned(t.Context()); err != nil || len(p.verdicts) != 1 {
		t.Fatalf("%v: %+v", err, p.verdicts)
	}
	all, rate := p.unlikeWorkload(unlikeSettings[0])
	if n := len(all) - unlikeFirst; n < int(rate*unlikeSeconds)-1 || all[unlikeFirst-1].Start != 0 || all[len(all)-1].Start > unlikeSeconds*time.Second {
		t.Errorf("%d requests at %v/s", n, rate)
	}
}
