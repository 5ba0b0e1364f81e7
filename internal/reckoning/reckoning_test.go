package reckoning

import (
	"context"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/forecast"
)

// show plays the scenes with few sessions and without a queue.
func show(t *testing.T, agents string, seed uint64) (all []Verdict) {
	t.Helper()
	if err := Show(context.Background(), Options{Agents: agents, Seed: seed}, nil, func(v Verdict) { all = append(all, v) }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestForecastsHoldWhereEnginesAreNotCrowded(t *testing.T) {
	t.Log("seed 3")
	all := show(t, "agents:sessions=30", 3)
	for _, v := range all {
		if crowded := strings.Contains(v.Case, "more than they carry"); !v.Pass && !crowded {
			t.Errorf("%s: %s\n%s", v.Case, v.Figures, strings.Join(v.Detail, "\n"))
		}
	}
	if len(all) != 4 {
		t.Errorf("%d scenes", len(all))
	}
}

func TestForecastsThatAreOffInAnyWayDoNotHold(t *testing.T) {
	for _, c := range []struct {
		name     string
		p50, p90 int
		prefill  float64
		holds    bool
	}{
		{"right", 50, 90, 1, true}, {"within what is allowed", 45, 95, 1.09, true},
		{"answers too long", 44, 90, 1, false}, {"answers too short", 50, 96, 1, false}, {"prefill too slow", 50, 90, 1.2, false}, {"prefill too fast", 50, 90, 0.8, false},
	} {
		g := group{Errors: forecast.Errors{Requests: 100, WithinP50: c.p50, WithinP90: c.p90}}
		g.Prefill(c.prefill, 1)
		if g.holds() != c.holds {
			t.Errorf("%s: %v", c.name, &g)
		}
	}
	if (&group{}).holds() {
		t.Error("nothing holds")
	}
}

func TestSizesArePowersOfFour(t *testing.T) {
	for tokens, want := range map[int]int{1: 0, 2: 1, 4: 1, 5: 2, 16: 2, 17: 3, 4096: 6, 4097: 7} {
		if got := size(tokens); got != want {
			t.Errorf("%d tokens have size %d, want %d", tokens, got, want)
		}
	}
}

func TestTrafficThatIsNotOfSessionsIsRefused(t *testing.T) {
	err := Show(context.Background(), Options{Agents: "bursts:requests=5"}, nil, func(Verdict) {})
	if err == nil || !strings.Contains(err.Error(), "must be of sessions") {
		t.Error(err)
	}
}
