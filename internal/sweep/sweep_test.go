package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func base(t *testing.T, trace, fleet string) sim.Config {
	t.Helper()
	x, err := traces.Open(trace, traces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := lineup.Parse(fleet, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sim.Config{Trace: x, Fleet: f, Jitter: -1}
}

func TestEveryCombinationIsRunAndToldInOrder(t *testing.T) {
	s := Sweep{
		Base: base(t, "chats:chats=10,turns=3", "h100-8b:2"), Policies: []string{"warm-cost", "random"},
		Workers: []int{2, 3}, Rates: []float64{1, 2}, ViewDelays: []time.Duration{0, time.Second}, Replicas: []int{1, 2}, Seeds: 2,
	}
	var order [2][]string
	for i, parallel := range []int{1, 4} {
		runs := s.Runs()
		if len(runs) != 2*2*2*2*2*2 {
			t.Fatalf("%d runs", len(runs))
		}
		err := Do(context.Background(), runs, parallel, func(r *Run) {
			order[i] = append(order[i], fmt.Sprint(r.Point, r.At, r.Config.Policy, r.Config.Seed, r.Result.TTFT, r.Result.Bounds))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(order[0], order[1]) {
		t.Error("runs side by side give other results than one after the other")
	}
}

func TestAnInterruptedSweepTellsWhatIsDone(t *testing.T) {
	s := Sweep{Base: base(t, "groups:", "h100-8b:2"), Policies: []string{"warm-cost", "random", "round-robin"}, Seeds: 5}
	runs := s.Runs()
	ctx, cancel := context.WithCancel(context.Background())
	done := 0
	err := Do(ctx, runs, 1, func(*Run) {
		if done++; done == 4 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || done < 4 || done == len(runs) {
		t.Errorf("%v after %d of %d runs", err, done, len(runs))
	}
	if rows := Compare(runs); len(rows) != 3 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestAnErrorEndsASweep(t *testing.T) {
	s := Sweep{Base: base(t, "groups:", "h100-8b:2"), Policies: []string{"warm-cost", "nonsense"}}
	if err := Do(context.Background(), s.Runs(), 2, func(*Run) {}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// result has one request of that TTFT.
func result(seconds float64) *sim.Result {
	r := &sim.Result{}
	r.TTFT.Add(seconds)
	r.E2E.Add(1)
	return r
}

func TestStandingsAreRatiosToTheBestOfEachPointAndSeed(t *testing.T) {
	rows := []*Row{
		{Point: 0, Policy: "a", Results: []*sim.Result{result(1), result(2)}},
		{Point: 0, Policy: "b", Results: []*sim.Result{result(2), result(1)}},
		{Point: 1, Policy: "a", Results: []*sim.Result{result(1), result(1)}},
		{Point: 1, Policy: "b", Results: []*sim.Result{result(4), result(4)}},
	}
	all := Standings(rows)
	if all[0].Policy != "a" || math.Abs(all[0].Geometric[0]-math.Sqrt(1.5)) > 1e-9 || math.Abs(all[0].Worst[0]-1.5) > 1e-9 {
		t.Errorf("%+v", all[0])
	}
	if math.Abs(all[1].Geometric[0]-math.Sqrt(1.5*4)) > 1e-9 || math.Abs(all[1].Worst[0]-4) > 1e-9 {
		t.Errorf("%+v", all[1])
	}
}

func TestIntervalsAreStudents(t *testing.T) {
	f := figure([]float64{1, 2, 3})
	if f.Mean != 2 || math.Abs(f.Spread-4.30/math.Sqrt(3)) > 1e-9 {
		t.Errorf("%+v", f)
	}
	if f := figure([]float64{5}); f != (Figure{Mean: 5}) {
		t.Errorf("%+v", f)
	}
}

// A choice by chance saves nothing against the mean of the others; the rule's does. Of the best of several the difference is partly luck.
func TestRegretIsWhatAnotherWorkerWouldHaveSaved(t *testing.T) {
	s := Sweep{Base: base(t, "groups:groups=20,prompts=10,rate=2", "h100-32b-tp2:3"), Policies: []string{"warm-cost", "random"}}
	runs := s.Runs()
	if err := Do(context.Background(), runs, 0, func(*Run) {}); err != nil {
		t.Fatal(err)
	}
	var ahead [2]time.Duration
	for i, r := range runs {
		all, err := Regrets(context.Background(), r, 20)
		if err != nil || len(all) != 20 {
			t.Fatalf("%d, %v", len(all), err)
		}
		for _, x := range all {
			if x.Lost < 0 || x.Lost == 0 != (x.Best == x.Chosen) {
				t.Errorf("%+v", x)
			}
			ahead[i] += x.Ahead
		}
	}
	if ahead[0] <= ahead[1] || ahead[0] <= 0 {
		t.Errorf("warm-cost saved %v, chance %v", ahead[0], ahead[1])
	}
}
