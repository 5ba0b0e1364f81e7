package fleet

import (
	"slices"
	"testing"
	"time"
)

// pair is a fleet of two workers of one model.
func pair(t *testing.T) (f *Fleet, a, b *Worker) {
	f = New(Options{})
	a, b = add(t, f, "a"), add(t, f, "b")
	for _, w := range f.Workers() {
		w.SetInfo(Info{Models: []Model{{ID: "m"}}, At: start})
	}
	return f, a, b
}

func out(f *Fleet, w *Worker, now time.Time) {
	for range 3 {
		f.Fault(w, now, Reset)
	}
}

func TestThreeFaultsInARowPutAWorkerOut(t *testing.T) {
	f, a, _ := pair(t)
	if _, _, ok := a.LastFault(); ok {
		t.Error("a fault before the first")
	}
	for i, want := range []bool{false, false, true, false} {
		if got := f.Fault(a, at(i), ServerError); got != want {
			t.Errorf("fault %d ejected: %v", i+1, got)
		}
	}
	if a.Healthy(at(1001)) || a.State() != "ejected" || !a.Healthy(at(1002)) || f.Ejections() != 1 {
		t.Errorf("state %s, ejections %d", a.State(), f.Ejections())
	}
	if kind, when, ok := a.LastFault(); kind != ServerError || when != at(3) || !ok {
		t.Errorf("last fault %s at %v", kind, when)
	}
}

func TestASuccessEndsARunOfFaults(t *testing.T) {
	f, a, _ := pair(t)
	for i := range 20 {
		f.Fault(a, at(i), Timeout)
		f.Fault(a, at(i), Timeout)
		a.Succeeded(at(i))
	}
	if !a.Healthy(at(20)) || a.State() != "ready" {
		t.Error(a.State())
	}
}

func TestOnlyOneProbeIsOutAtATime(t *testing.T) {
	f, a, _ := pair(t)
	out(f, a, at(0))
	if f.Reserve(a, Need{}, at(500)).Probe() {
		t.Error("a probe before the time is up")
	}
	if !a.ProbeDue(at(1000)) {
		t.Error("no probe is due")
	}
	probe := f.Reserve(a, Need{Streamed: true}, at(1000))
	if !probe.Probe() || a.Healthy(at(1001)) || a.ProbeDue(at(1001)) || a.State() != "probing" {
		t.Errorf("probe %v, state %s", probe.Probe(), a.State())
	}
	if f.Reserve(a, Need{}, at(1001)).Probe() {
		t.Error("two probes at once")
	}
	if a.Healthy(at(60_999)) || !a.ProbeDue(at(61_000)) {
		t.Error("a probe that is silent for a minute is waited for less, or longer")
	}
	second := f.Reserve(a, Need{}, at(61_000))
	if !second.Probe() || a.ProbeDue(at(61_001)) {
		t.Error("the second probe is none, or a third is due with it")
	}
	probe.Release(at(61_002), Cancelled)
	if a.ProbeDue(at(61_003)) {
		t.Error("the end of the first probe freed the place of the second")
	}
	second.Release(at(61_004), Succeeded)
	if a.State() != "ready" {
		t.Error(a.State())
	}
}

func TestAProbesEndDecides(t *testing.T) {
	cases := map[string]struct {
		end   func(f *Fleet, r *Reservation)
		state string
		due   int // ms after which the next probe is due; 0: none is
	}{
		"success":                {func(f *Fleet, r *Reservation) { r.Release(at(1100), Succeeded) }, "ready", 0},
		"first token":            {func(f *Fleet, r *Reservation) { r.FirstToken(at(1100)) }, "ready", 0},
		"client left":            {func(f *Fleet, r *Reservation) { r.Release(at(1100), Cancelled) }, "ejected", 1100},
		"client's mistake":       {func(f *Fleet, r *Reservation) { r.Release(at(1100), Refused) }, "ejected", 1100},
		"failed, told by both":   {func(f *Fleet, r *Reservation) { r.Fault(at(1100), Reset); r.Release(at(1100), Failed) }, "ejected", 3100},
		"failed, the other way":  {func(f *Fleet, r *Reservation) { r.Release(at(1100), Failed); r.Fault(at(1100), Reset) }, "ejected", 3100},
		"failed, only released":  {func(f *Fleet, r *Reservation) { r.Release(at(1100), Failed) }, "ejected", 3100},
		"failed, never released": {func(f *Fleet, r *Reservation) { r.Fault(at(1100), Reset) }, "ejected", 3100},
	}
	for name, c := range cases {
		f, a, _ := pair(t)
		out(f, a, at(0))
		c.end(f, f.Reserve(a, Need{Streamed: true}, at(1000)))
		if a.State() != c.state {
			t.Errorf("%s: %s, want %s", name, a.State(), c.state)
		}
		if c.due > 0 && (a.ProbeDue(at(c.due-1)) && c.due > 1100 || !a.ProbeDue(at(c.due))) {
			t.Errorf("%s: the next probe is not due at +%d ms", name, c.due)
		}
	}
}

func TestEjectionsGrowToTheirBoundAndAreForgiven(t *testing.T) {
	f, a, _ := pair(t)
	now := at(0)
	out(f, a, now)
	var lasts []time.Duration
	for range 8 {
		e, _ := a.Ejection()
		lasts = append(lasts, e.Until.Sub(now))
		now = e.Until
		f.Reserve(a, Need{}, now).Release(now, Failed)
	}
	s := time.Second
	if want := []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}; !slices.Equal(lasts, want) {
		t.Errorf("ejections of %v, want %v", lasts, want)
	}
	again := func(well, want time.Duration) {
		t.Helper()
		a.Succeeded(now)
		now = now.Add(well)
		out(f, a, now)
		if e, _ := a.Ejection(); e.Until.Sub(now) != want {
			t.Errorf("after %v of good service: out for %v, want %v", well, e.Until.Sub(now), want)
		}
	}
	again(10*s, 60*s)
	again(61*s, s)
}

func TestTheLastWorkerOfAModelIsNeverPutOut(t *testing.T) {
	f, a, b := pair(t)
	b.SetInfo(Info{Models: []Model{{ID: "m"}, {ID: "only-b"}}, At: start})
	out(f, b, at(0))
	if !b.Standing() {
		t.Error("the only worker of only-b was put out")
	}
	b.SetInfo(Info{Models: []Model{{ID: "m"}}})
	out(f, a, at(1))
	out(f, b, at(2))
	if a.Standing() || !b.Standing() {
		t.Errorf("a %s, b %s", a.State(), b.State())
	}
	a.Succeeded(at(3))
	if !f.Fault(b, at(4), Reset) {
		t.Error("b fails on and another stands now: it should be out")
	}
	g, lone := one(t)
	for range 20 {
		g.Fault(lone, at(0), RefusedConnection)
	}
	if !lone.Healthy(at(0)) {
		t.Error("the last worker standing was put out")
	}
}

func TestADrainingOrDownWorkerDoesNotCountAsStanding(t *testing.T) {
	f, a, b := pair(t)
	f.Drain("b")
	out(f, a, at(0))
	if !a.Standing() {
		t.Error("put out beside a draining one")
	}
	f.Add("b", b.URL, at(1))
	f.Fault(a, at(1), Reset)
	if a.Standing() {
		t.Error("another stands, and it was not put out")
	}
}

func TestBackPressureIsNoFault(t *testing.T) {
	_, a, _ := pair(t)
	for i := range 50 {
		a.Busy(at(i), time.Second)
	}
	if !a.Healthy(at(50)) || !a.IsBusy(at(1000)) || a.IsBusy(at(1050)) {
		t.Errorf("state %s", a.State())
	}
	a.Busy(at(2000), 0)
	if !a.IsBusy(at(2999)) || a.IsBusy(at(3000)) {
		t.Error("without Retry-After it is busy for Options.BusyFor")
	}
	a.Busy(at(4000), time.Hour)
	if a.IsBusy(at(4000 + 30_000)) {
		t.Error("Retry-After is believed beyond Options.BusyMax")
	}
}

func TestNobodyAnsweringKeepsRequestsAwayOnlyBeforeTheFirstAnswer(t *testing.T) {
	f, w := one(t)
	if w.State() != "unknown" || !w.Healthy(at(0)) || w.Ready(at(0)) {
		t.Errorf("new: %s", w.State())
	}
	w.SetInfo(Info{Models: []Model{{ID: "configured"}}})
	w.Unreachable()
	if w.State() != "down" || w.Healthy(at(0)) {
		t.Errorf("never answered: %s", w.State())
	}
	if w.Reachable(); w.State() != "unknown" || !w.Healthy(at(0)) || !w.Ready(at(0)) {
		t.Errorf("somebody is there, and it is %s", w.State())
	}
	w.Unreachable()
	answers := map[string]func(){
		"info": func() { w.SetInfo(Info{At: at(0)}) }, "counts": func() { w.Observe(Counts{}) },
		"traffic": func() { w.Succeeded(at(0)) }, "busy": func() { w.Busy(at(0), 0) },
	}
	for name, answer := range answers {
		answer()
		w.Unreachable()
		if w.State() != "down" || w.Ready(at(0)) || w.Standing() || !w.Healthy(at(0)) {
			t.Errorf("after an answer (%s), then none, with nothing in flight: %s, ready %v, standing %v, healthy %v", name, w.State(), w.Ready(at(0)), w.Standing(), w.Healthy(at(0)))
		}
		r := f.Reserve(w, Need{}, at(0))
		if w.State() != "ready" || !w.Ready(at(0)) || !w.Standing() {
			t.Errorf("with a request in flight traffic is the better judge, and it is %s", w.State())
		}
		r.Release(at(0), Cancelled)
		if answer(); w.State() != "ready" || !w.Ready(at(0)) {
			t.Errorf("after an answer (%s) it is %s", name, w.State())
		}
		w.health.answered, w.health.down = false, true
	}
}

func TestCapsComeFromTheWorkerThenTheFleetThenTheEngine(t *testing.T) {
	f, w := one(t)
	want := func(n int) {
		t.Helper()
		if w.InFlightMax() != n {
			t.Errorf("cap %d, want %d", w.InFlightMax(), n)
		}
	}
	want(0)
	w.SetInfo(Info{SlotsMax: 4})
	want(8)
	f.opts.InFlightMax = 5
	want(5)
	w.SetInFlightMax(3)
	want(3)
	next, _ := f.Restart("a", at(0))
	if next.InFlightMax() != 3 {
		t.Error("a restart lost the worker's own cap")
	}
}

func TestFaultsHaveNames(t *testing.T) {
	for k, want := range map[Fault]string{RefusedConnection: "refused", ServerError: "server_error", 99: "unknown"} {
		if k.String() != want {
			t.Errorf("%d is %q", k, k)
		}
	}
}
