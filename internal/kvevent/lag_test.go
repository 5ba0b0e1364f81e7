package kvevent

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestAMessageIsStampedByItsFirstFieldOrByName(t *testing.T) {
	removed := list{"BlockRemoved", list{1}}
	for _, x := range []struct {
		name    string
		payload []byte
		want    float64 // 0 none
	}{
		{"an array", pack(nil, list{1795978283.25, list{removed}}), 1795978283.25},
		{"an array with a rank", AppendBatch(nil, 1795978283.5, 3, nil), 1795978283.5},
		{"whole seconds", pack(nil, list{1795978283, list{removed}}), 1795978283},
		{"a map", pack(nil, pairs{"ts", 1795978283.75, "events", list{removed}}), 1795978283.75},
		{"a map, behind its events", pack(nil, pairs{"events", list{removed}, "ts", 1795978283.75}), 1795978283.75},
		{"a map without", pack(nil, pairs{"events", list{removed}}), 0},
		{"nothing", nil, 0},
		{"an empty array", pack(nil, list{}), 0},
		{"a text", pack(nil, list{"yesterday", list{removed}}), 0},
		{"nil", pack(nil, list{nil, list{removed}}), 0},
		{"zero", pack(nil, list{0.0, list{removed}}), 0},
		{"since the engine's start", pack(nil, list{12.5, list{removed}}), 0},
		{"milliseconds", pack(nil, list{1795978283250, list{removed}}), 0},
		{"below zero", pack(nil, list{-1795978283.0, list{removed}}), 0},
		{"no number", pack(nil, list{math.NaN(), list{removed}}), 0},
		{"endless", pack(nil, list{math.Inf(1), list{removed}}), 0},
		{"cut off", pack(nil, list{1795978283.25, list{removed}})[:5], 0},
	} {
		got, ok := Stamp(x.payload)
		if seconds := float64(got.UnixNano()) / 1e9; ok != (x.want != 0) || ok && math.Abs(seconds-x.want) > 1e-6 {
			t.Errorf("%s: %v, %v", x.name, got, ok)
		}
	}
}

// stampedByAClock holds whatever message to the bounds of its time.
func stampedByAClock(t *testing.T, payload []byte) {
	t.Helper()
	if made, ok := Stamp(payload); ok && (made.Unix() < stampLeast || made.Unix() > stampMost) {
		t.Fatalf("stamped %v", made)
	}
}

// late feeds a Lag with messages, one each interval, that are made by a clock that is off and take as long as transit says.
func late(l *Lag, from time.Time, n int, interval, off time.Duration, transit func(i int) time.Duration) time.Time {
	now := from
	for i := range n {
		now = from.Add(time.Duration(i) * interval)
		l.Note(now.Add(transit(i)), now.Add(off))
	}
	return now
}

func TestLagIsThatBeyondTheLeastWhateverTheClocks(t *testing.T) {
	from := time.Unix(1_800_000_000, 0)
	for _, off := range []time.Duration{0, 90 * time.Second, -3 * time.Hour} {
		var l Lag
		transit := func(i int) time.Duration { return 2*time.Millisecond + time.Duration(i%5)*time.Millisecond }
		now := late(&l, from, 100, time.Second, off, transit)
		lag, offset, told := l.Most(now)
		if !told || lag != 4*time.Millisecond || offset != 2*time.Millisecond-off {
			t.Errorf("clocks that differ by %v: lag %v, offset %v, %v", off, lag, offset, told)
		}
		l.Note(now.Add(time.Second+7*time.Second), now.Add(time.Second+off))
		if lag, _, _ = l.Most(now.Add(8 * time.Second)); lag != 7*time.Second-2*time.Millisecond {
			t.Errorf("one that is seven seconds late: %v", lag)
		}
		now = late(&l, now.Add(2*time.Second), 70, time.Second, off, transit)
		if lag, _, _ = l.Most(now); lag != 4*time.Millisecond {
			t.Errorf("a minute later: %v", lag)
		}
		if _, _, told = l.Most(now.Add(time.Minute + time.Second)); told {
			t.Error("a minute without messages is told as if there were some")
		}
	}
}

func TestClocksThatDriftApartOrAreSetAreFollowed(t *testing.T) {
	from := time.Unix(1_800_000_000, 0)
	var l Lag
	now := from
	for i := range 24 * 360 { // a day in steps of ten seconds, 50 millionths fast or slow, for twelve hours each
		drift := time.Duration(i) * 500 * time.Microsecond
		if i > 12*360 {
			drift = time.Duration(24*360-i) * 500 * time.Microsecond
		}
		now = from.Add(time.Duration(i) * 10 * time.Second)
		l.Note(now.Add(time.Millisecond), now.Add(drift))
		if lag, _, told := l.Most(now); told && lag > 50*time.Millisecond {
			t.Fatalf("after %v: %v", now.Sub(from), lag)
		}
	}
	late(&l, now.Add(time.Second), 200, time.Second, -time.Minute, func(int) time.Duration { return 0 })
	if lag, _, _ := l.Most(now.Add(200 * time.Second)); lag < 55*time.Second {
		t.Errorf("an engine's clock that was set back: %v", lag)
	}
	now = late(&l, now.Add(201*time.Second), 600, time.Second, -time.Minute, func(int) time.Duration { return 0 })
	if lag, _, told := l.Most(now); !told || lag != 0 {
		t.Errorf("ten minutes later: %v, %v", lag, told)
	}
}

func TestTooFewMessagesAndAbsurdTimesTellNothing(t *testing.T) {
	from := time.Unix(1_800_000_000, 0)
	var l Lag
	now := late(&l, from, lagMessages-1, time.Second, 0, func(int) time.Duration { return 0 })
	if _, _, told := l.Most(now); told {
		t.Error("told by too few")
	}
	late(&l, now, 100, time.Second, 0, func(int) time.Duration { return 25 * time.Hour })
	late(&l, now, 100, time.Second, 25*time.Hour, func(int) time.Duration { return 0 })
	if _, _, told := l.Most(now); told {
		t.Error("told by messages that are a day off")
	}
}

func TestAPeakOfLagIsToldForHalfAMinuteAtLeastAndAMinuteAtMost(t *testing.T) {
	const seed = 7
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	from := time.Unix(1_800_000_000, 0)
	for range 200 {
		var l Lag
		late(&l, from, 100, 100*time.Millisecond, 0, func(int) time.Duration { return 0 })
		peak := from.Add(time.Duration(10_000+random.IntN(60_000)) * time.Millisecond)
		for at := from.Add(10 * time.Second); at.Before(from.Add(140 * time.Second)); at = at.Add(time.Second) {
			delay := time.Duration(0)
			if d := at.Sub(peak); d >= 0 && d < time.Second {
				delay = 3 * time.Second
			}
			l.Note(at, at.Add(-delay))
			since := at.Sub(peak)
			lag, _, _ := l.Most(at)
			if since >= time.Second && since <= mostHalf && lag != 3*time.Second || since > 2*mostHalf+time.Second && lag != 0 {
				t.Fatalf("%v after a peak: %v", since, lag)
			}
		}
	}
}

func TestRecordedMessagesOfVLLMAreStampedInTheirOrder(t *testing.T) {
	for _, name := range []string{"vllm_live.jsonl", "vllm_bytes.jsonl", "vllm_report.jsonl"} {
		var last time.Time
		for _, m := range recording(t, name) {
			made, ok := Stamp(m.payload)
			if !ok || made.Before(last) || made.Year() < 2025 {
				t.Errorf("%s %d: %v, %v after %v", name, m.seq, made, ok, last)
			}
			last = made
		}
	}
}
