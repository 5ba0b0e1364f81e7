package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// fleetOf is a fleet of n workers of one model.
func fleetOf(t *testing.T, n int, o Options) (f *Fleet, all []*Worker) {
	f = New(o)
	for i := range n {
		w := add(t, f, fmt.Sprint("w", i))
		w.SetInfo(Info{Models: []Model{{ID: "m"}}, At: start})
		all = append(all, w)
	}
	return f, all
}

// serve has a worker answer n requests, of which every badEvery-th fails; 0: none.
func serve(f *Fleet, w *Worker, n, badEvery, ms int) {
	for i := range n {
		r := f.Reserve(w, Need{}, at(ms))
		if badEvery > 0 && (i+1)%badEvery == 0 {
			r.Fault(at(ms), ServerError)
			r.Release(at(ms), Failed)
			continue
		}
		r.Succeeded(at(ms))
		r.Release(at(ms), Succeeded)
	}
}

func TestAWorkerThatFailsEveryThirdRequestIsPutOutThoughItNeverHasARun(t *testing.T) {
	f, all := fleetOf(t, 4, Options{Window: 30 * time.Second})
	for i := range 10 {
		for _, w := range all[1:] {
			serve(f, w, 3, 0, 100*i)
		}
		serve(f, all[0], 3, 3, 100*i)
	}
	e, out := all[0].Ejection()
	if !out || e.Cause != Outlying || !strings.HasSuffix(e.Why, ": server_error") || !strings.Contains(e.Why, "answers failed in 30s, of its peers' 0 of ") || e.Until.Sub(e.Since) != time.Second {
		t.Errorf("out %v: %+v", out, e)
	}
	for _, w := range all[1:] {
		if !w.Standing() {
			t.Errorf("%s is out too", w.ID)
		}
	}
}

func TestWhereAllFailAlikeNobodyIsAnOutlier(t *testing.T) {
	f, all := fleetOf(t, 4, Options{Window: 30 * time.Second})
	for i := range 40 {
		for _, w := range all {
			serve(f, w, 3, 3, 100*i)
		}
	}
	if f.Ejections() > 0 {
		t.Errorf("%d ejections", f.Ejections())
	}
}

func TestOutliersAreAShareOfTheFleetAtMost(t *testing.T) {
	for _, c := range []struct {
		workers, bad int
		share        float64
		out          int
	}{{2, 1, 0.3, 1}, {3, 2, 0.3, 1}, {10, 3, 0.3, 3}, {10, 4, 0.2, 2}, {10, 3, 0.01, 1}} {
		f, all := fleetOf(t, c.workers, Options{Window: 30 * time.Second, OutShareMax: c.share})
		for i := range 100 {
			for n, w := range all {
				if n >= c.bad {
					serve(f, w, 3, 0, i)
				} else if w.Standing() {
					serve(f, w, 3, 3, i)
				}
			}
		}
		out := 0
		for _, w := range all {
			if !w.Standing() {
				out++
			}
		}
		if out != c.out {
			t.Errorf("%d of %d failing, share %v: %d are out, want %d", c.bad, c.workers, c.share, out, c.out)
		}
	}
}

func TestAnOutliersGoodAnswersUnderWayDoNotBringItBack(t *testing.T) {
	f, all := fleetOf(t, 2, Options{Window: 30 * time.Second})
	late := f.Reserve(all[0], Need{}, at(0))
	serve(f, all[1], 60, 0, 0)
	serve(f, all[0], 60, 3, 0)
	late.Succeeded(at(1))
	late.Release(at(1), Succeeded)
	if all[0].State() != "ejected" {
		t.Fatalf("it is %s", all[0].State())
	}
	serve(f, all[0], 1, 0, 1000)
	if all[0].State() != "ready" {
		t.Errorf("a good probe left it %s", all[0].State())
	}
}

func TestSeveralGoodAnswersCloseABreakerThatWantsThem(t *testing.T) {
	f, all := fleetOf(t, 2, Options{Probes: 3})
	w := all[0]
	out(f, w, at(0))
	var probes []*Reservation
	for range 5 {
		probes = append(probes, f.Reserve(w, Need{Streamed: true}, at(1000)))
	}
	for i, r := range probes {
		if r.Probe() != (i < 3) {
			t.Errorf("request %d is a probe: %v", i, r.Probe())
		}
	}
	probes[0].FirstToken(at(1001))
	probes[0].Succeeded(at(1002)) // counts once
	probes[0].Release(at(1002), Succeeded)
	probes[1].Release(at(1003), Cancelled)
	if w.State() != "probing" || !w.ProbeDue(at(1004)) {
		t.Errorf("after one good answer of three, %s, due %v", w.State(), w.ProbeDue(at(1004)))
	}
	again := f.Reserve(w, Need{}, at(1004))
	if w.ProbeDue(at(1004)) || !again.Probe() {
		t.Error("the cancelled probe's place is not free, or two are")
	}
	again.Release(at(1005), Succeeded)
	probes[2].FirstToken(at(1006))
	if w.State() != "ready" {
		t.Errorf("after three good answers it is %s", w.State())
	}
}

func TestOneProbeThatFailsBeginsAnew(t *testing.T) {
	f, all := fleetOf(t, 2, Options{Probes: 3})
	w := all[0]
	out(f, w, at(0))
	a, b := f.Reserve(w, Need{Streamed: true}, at(1000)), f.Reserve(w, Need{Streamed: true}, at(1000))
	a.FirstToken(at(1001))
	if !a.Fault(at(1002), Reset) { // its stream breaks after all
		t.Error("a probe whose stream breaks does not put its worker out again")
	}
	b.FirstToken(at(1003))
	if e, out := w.Ejection(); !out || e.Until != at(3002) || !e.Since.Equal(at(2)) && !e.Since.Equal(at(0)) || w.State() != "ejected" || !strings.Contains(e.Why, "reset") {
		t.Errorf("%v %+v, %s", out, e, w.State())
	}
	serve(f, w, 2, 0, 3002)
	if w.Standing() {
		t.Error("good answers of before the failure count")
	}
	serve(f, w, 1, 0, 3003)
	if !w.Standing() {
		t.Error("three good answers do not suffice")
	}
}

func TestWhereItIsStrictTheLastOneStandingIsPutOut(t *testing.T) {
	for _, strict := range []bool{false, true} {
		f, all := fleetOf(t, 1, Options{Strict: strict})
		out(f, all[0], at(0))
		if all[0].Standing() == strict {
			t.Errorf("strict %v: it stands: %v", strict, all[0].Standing())
		}
	}
}

func TestCanariesTryWorkersInPlaceOfClients(t *testing.T) {
	f, all := fleetOf(t, 2, Options{Canaries: true})
	w := all[0]
	out(f, w, at(0))
	if w.Healthy(at(2000)) || w.ProbeDue(at(2000)) {
		t.Error("a client's request is to try it")
	}
	if r := f.Reserve(w, Need{}, at(2000)); !r.Probe() {
		t.Error("a canary does not try it")
	} else {
		r.Release(at(2001), Refused)
	}
	w.TryByClients()
	if !w.ProbeDue(at(2002)) {
		t.Error("nobody tries one that has no use for canaries")
	}
}

func TestASlowStartIsFromTheFirstAnswerAndFromEachReturn(t *testing.T) {
	f := New(Options{SlowStart: 10 * time.Second})
	w, other := add(t, f, "a"), add(t, f, "b")
	rising := func(ms int, want float64) {
		t.Helper()
		if got := w.Rising(at(ms)); got != want {
			t.Errorf("after %d ms its part is %v, want %v", ms, got, want)
		}
	}
	w.Loading()
	if w.State() != "loading" || w.Healthy(at(0)) || w.Ready(at(0)) || w.Standing() {
		t.Errorf("a loading worker is %s", w.State())
	}
	w.SetInfo(Info{Models: []Model{{ID: "m"}}, At: at(60_000)})
	other.SetInfo(w.Info())
	if p := add(t, f, "c"); p.Rising(start) != 1 {
		t.Error("of a fleet that starts as a whole one rises")
	}
	rising(60_000, 0)
	rising(65_000, 0.5)
	rising(70_000, 1)
	w.Succeeded(at(71_000))
	rising(71_000, 1)
	out(f, w, at(80_000))
	serve(f, w, 1, 0, 90_000)
	rising(91_000, 0.1)
	w, _ = f.Restart("a", at(200_000))
	rising(205_000, 0.5)
}

func TestAWorkerThatCallsItselfUnwellTwiceIsPutOutUnlessItsStreamsMove(t *testing.T) {
	f, all := fleetOf(t, 2, Options{})
	w := all[0]
	stream := f.Reserve(w, Need{Streamed: true}, at(0))
	stream.FirstToken(at(1))
	for i := range 5 {
		stream.Generated(1)
		if f.Sick(w, at(1000*i), "GET /health: status 503") {
			t.Fatal("put out while its stream moves")
		}
	}
	if !f.Sick(w, at(6000), "GET /health: status 503") {
		t.Fatal("its stream stopped, and it says twice that it is unwell")
	}
	if e, _ := w.Ejection(); e.Cause != Unwell || e.Why != "GET /health: status 503" || w.Healthy(at(7000)) {
		t.Errorf("%+v", e)
	}
	if f.Sick(w, at(50_000), "GET /health: status 503"); w.Healthy(at(100_000)) || !w.Healthy(at(110_000)) {
		t.Error("it is tried while it calls itself unwell, or never when it says nothing more")
	}
	stream.Generated(1)
	if w.State() != "ready" {
		t.Errorf("its stream moves again, and it is %s", w.State())
	}
	f.Sick(w, at(120_000), "x")
	f.Sick(w, at(121_000), "x")
	if w.Standing() {
		t.Error("it stands")
	}
	if w.Well(at(122_000)); !w.Standing() {
		t.Error("it is well and does not stand")
	}
	if out(f, all[1], at(123_000)); f.Sick(w, at(124_000), "x") || f.Sick(w, at(125_000), "x") {
		t.Error("the last one standing was put out")
	}
}

func TestAFaultThatTheRequestIsToBlameForIsTakenBack(t *testing.T) {
	f, all := fleetOf(t, 2, Options{Window: 30 * time.Second})
	for i := range 60 {
		f.Fault(all[0], at(i), ServerError)
		all[0].Absolve(at(i))
		serve(f, all[1], 1, 0, i)
	}
	if !all[0].Standing() {
		e, _ := all[0].Ejection()
		t.Errorf("out: %+v", e)
	}
	f.Fault(all[0], at(100), Reset)
	f.Fault(all[0], at(100), Reset)
	if !f.Fault(all[0], at(100), Reset) {
		t.Error("three of its own do not put it out")
	}
}
