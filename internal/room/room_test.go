package room

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
)

var begin = time.Unix(1e9, 0)

// loaded is a worker with so many requests that decode and so many that prefill, each of 2,000 tokens and 40 ms.
func loaded(t *testing.T, info fleet.Info, decoding, prefilling int) (*fleet.Worker, fleet.Load) {
	t.Helper()
	f := fleet.New(fleet.Options{})
	w, err := f.Add("w", "http://w", begin)
	if err != nil {
		t.Fatal(err)
	}
	w.SetInfo(info)
	for i := range decoding + prefilling {
		r := f.Reserve(w, fleet.Need{PromptTokens: 2000, PrefillSeconds: 0.04, Streamed: true}, begin)
		if i < decoding {
			r.FirstToken(begin)
		}
	}
	return w, w.Load(begin)
}

func TestThoseWhoYieldTakeLessRoomThanOthers(t *testing.T) {
	long, short := Ask{Uncached: 2000, PrefillSeconds: 0.04, OutputTokens: 200}, Ask{Uncached: 50, PrefillSeconds: 0.002, OutputTokens: 20}
	for _, x := range []struct {
		name                 string
		info                 fleet.Info
		decoding, prefilling int
		ask                  Ask
		usual, yields        bool
	}{
		{"an idle worker", fleet.Info{}, 0, 0, long, true, true},
		{"one that only decodes", fleet.Info{}, 9, 0, long, true, true},
		{"one prefill under way", fleet.Info{}, 9, 1, long, true, false},
		{"more of them than the engine's two longest steps", fleet.Info{}, 0, 9, long, false, false},
		{"a short prompt beside many streams", fleet.Info{}, 200, 1, short, true, true},
		{"all slots but the next are taken", fleet.Info{SlotsMax: 9}, 9, 0, long, true, false},
		{"the next one too", fleet.Info{SlotsMax: 9}, 10, 0, long, false, false},
		{"memory for it and the answers to come", fleet.Info{KVTokensMax: 24_100}, 9, 0, long, true, true},
		{"but for what is left to others", fleet.Info{KVTokensMax: 21_500}, 9, 0, long, true, false},
		{"but for the answers to come", fleet.Info{KVTokensMax: 20_500}, 9, 0, long, false, false},
	} {
		w, load := loaded(t, x.info, x.decoding, x.prefilling)
		l := DefaultLimits()
		yielding := x.ask
		yielding.Yields = true
		k := cost.Profiles["h100-8b"].Constants
		if usual, yields := l.Has(begin, w, &load, k, float64(load.InFlight), &x.ask), l.Has(begin, w, &load, k, float64(load.InFlight), &yielding); usual != x.usual || yields != x.yields {
			t.Errorf("%s: %v, and %v for one that yields; want %v and %v", x.name, usual, yields, x.usual, x.yields)
		}
	}
}

func TestHeavyPrefillsLeaveMostWorkersAloneUnlessTheyWaitForLong(t *testing.T) {
	l := DefaultLimits()
	for _, x := range []struct {
		all, light     int
		usual, overdue int
	}{
		{1, 1, 1, 1}, {1, 0, 1, 1}, {2, 2, 1, 1}, {2, 1, 0, 0}, {3, 3, 1, 1}, {3, 2, 0, 1}, {4, 3, 0, 1}, {8, 7, 1, 1}, {8, 6, 0, 1}, {8, 2, 0, 1}, {8, 1, 0, 0},
	} {
		if usual, overdue := l.Lanes(x.all, x.light, false), l.Lanes(x.all, x.light, true); usual != x.usual || overdue != x.overdue {
			t.Errorf("%d of %d workers without: %d lanes and %d when overdue, want %d and %d", x.light, x.all, usual, overdue, x.usual, x.overdue)
		}
	}
}

func TestNoReserveIsKeptOfFewWorkers(t *testing.T) {
	l := DefaultLimits()
	for all, want := range map[int]int{1: 0, 3: 0, 4: 1, 8: 2, 100: 25} {
		if got := l.Reserve(all); got != want {
			t.Errorf("of %d workers %d, want %d", all, got, want)
		}
	}
}
