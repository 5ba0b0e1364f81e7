package fleet

import (
	"testing"
	"time"
)

// told is a pair whose workers' telemetry came until 0 and stopped there.
func told(t *testing.T) (f *Fleet, a, b *Worker) {
	f, a, b = pair(t)
	for _, w := range f.Workers() {
		w.Observe(Counts{Has: HasRunning, At: at(0)})
	}
	return f, a, b
}

// silentAt asks every second, as failing telemetry does, and returns the second at which w was put out; -1 for never within two minutes.
func silentAt(f *Fleet, w *Worker, each func(second int)) int {
	for s := range 120 {
		if each != nil {
			each(s)
		}
		if f.Silent(w, at(1000*s)) {
			return s
		}
	}
	return -1
}

func TestAWorkerWhoseTelemetryStoppedIsPutOutWhenItsAnswersAreLongOverdue(t *testing.T) {
	for name, c := range map[string]struct {
		need Need
		from int
		to   int
	}{
		"a short prefill":            {Need{PrefillSeconds: 0.1, Streamed: true}, 6, 7},
		"a prefill of two seconds":   {Need{PrefillSeconds: 2, Streamed: true}, 10, 11},
		"a prefill of ten":           {Need{PrefillSeconds: 10, Streamed: true}, 50, 52},
		"an answer of eight seconds": {Need{PrefillSeconds: 1, DecodeSeconds: 8}, 45, 47},
		"nobody knows how long":      {Need{}, 6, 7},
	} {
		f, a, _ := told(t)
		f.Reserve(a, c.need, at(0))
		if s := silentAt(f, a, nil); s < c.from || s > c.to {
			t.Errorf("%s: put out after %d seconds, want %d to %d", name, s, c.from, c.to)
		}
	}
}

func TestAStreamThatStandsStillBesideDeadTelemetryPutsItsWorkerOut(t *testing.T) {
	f, a, _ := told(t)
	r := f.Reserve(a, Need{PrefillSeconds: 0.1, Streamed: true}, at(0))
	r.FirstToken(at(100))
	if s := silentAt(f, a, func(s int) {
		if s <= 20 {
			r.Generated(1)
		}
	}); s < 25 || s > 28 {
		t.Errorf("the stream stood still from second 20 on; put out at %d", s)
	}
}

func TestSilenceProvesNothing(t *testing.T) {
	booked := Need{PrefillSeconds: 0.1, Streamed: true}
	for name, prepare := range map[string]func(f *Fleet, a *Worker) (each func(int)){
		"with nothing in flight": func(*Fleet, *Worker) func(int) { return nil },
		"where telemetry never came": func(f *Fleet, a *Worker) func(int) {
			a.observed = false
			f.Reserve(a, booked, at(0))
			return nil
		},
		"where only the GPUs' exporter told": func(f *Fleet, a *Worker) func(int) {
			a.Observe(Counts{Has: HasGPU | HasGPUMemory, At: at(0)})
			f.Reserve(a, booked, at(0))
			return nil
		},
		"while telemetry is fresh": func(f *Fleet, a *Worker) func(int) {
			f.Reserve(a, booked, at(0))
			return func(s int) { a.counts.At = at(1000 * s) }
		},
		"while another stream gives tokens": func(f *Fleet, a *Worker) func(int) {
			stream := f.Reserve(a, booked, at(0))
			stream.FirstToken(at(100))
			f.Reserve(a, booked, at(200))
			return func(int) { stream.Generated(1) }
		},
		"while other answers end": func(f *Fleet, a *Worker) func(int) {
			f.Reserve(a, booked, at(0))
			return func(s int) { f.Reserve(a, Need{}, at(1000*s)).Release(at(1000*s), Succeeded) }
		},
		"while telemetry's answers are no use": func(f *Fleet, a *Worker) func(int) {
			f.Reserve(a, booked, at(0))
			return func(int) { a.Heard() }
		},
		"of the last one standing": func(f *Fleet, a *Worker) func(int) {
			f.Reserve(a, booked, at(0))
			out(f, f.Lookup("b"), at(0))
			return nil
		},
		"beside one that is gone from its address": func(f *Fleet, a *Worker) func(int) {
			f.Reserve(a, booked, at(0))
			f.Lookup("b").Unreachable()
			return nil
		},
	} {
		f, a, _ := told(t)
		if s := silentAt(f, a, prepare(f, a)); s >= 0 {
			t.Errorf("%s: put out after %d seconds", name, s)
		}
	}
}

func TestAnyByteBringsASilentWorkerBackAtOnce(t *testing.T) {
	for name, byteOf := range map[string]func(a *Worker, r *Reservation){
		"a token":               func(_ *Worker, r *Reservation) { r.Generated(1) },
		"a first token":         func(_ *Worker, r *Reservation) { r.FirstToken(at(20_000)) },
		"the head of a reply":   func(_ *Worker, r *Reservation) { r.Heard() },
		"an end":                func(_ *Worker, r *Reservation) { r.Release(at(20_000), Succeeded) },
		"a scrape":              func(a *Worker, _ *Reservation) { a.Observe(Counts{At: at(20_000)}) },
		"word of what it is":    func(a *Worker, _ *Reservation) { a.SetInfo(Info{Models: a.info.Models, At: at(20_000)}) },
		"a word that it's busy": func(a *Worker, _ *Reservation) { a.Busy(at(20_000), time.Millisecond) },
	} {
		f, a, _ := told(t)
		r := f.Reserve(a, Need{PrefillSeconds: 0.1, Streamed: true}, at(0))
		if silentAt(f, a, nil) < 0 || a.State() != "ejected" || a.Healthy(at(20_000)) || a.Standing() || f.Ejections() != 1 {
			t.Fatalf("%s: it is %s", name, a.State())
		}
		if a.InFlight() != 1 {
			t.Errorf("%s: what waited there was taken away", name)
		}
		byteOf(a, r)
		if !a.Healthy(at(20_001)) || a.State() != "ready" || !a.Standing() {
			t.Errorf("%s does not bring it back: it is %s", name, a.State())
		}
	}
}

func TestASilentWorkerIsTriedOnceInTheLongestEjection(t *testing.T) {
	f, a, _ := told(t)
	f.Reserve(a, Need{PrefillSeconds: 0.1, Streamed: true}, at(0))
	s := silentAt(f, a, nil)
	due := s + int(f.opts.EjectMax/time.Second)
	if a.ProbeDue(at(1000*due-1)) || !a.ProbeDue(at(1000*due)) {
		t.Error("it is tried sooner or later than after EjectMax")
	}
	probe := f.Reserve(a, Need{Streamed: true}, at(1000*due))
	if !probe.Probe() || a.Healthy(at(1000*due+1)) || a.State() != "probing" {
		t.Errorf("it is %s while it is tried", a.State())
	}
	probe.Release(at(1000*due+5000), Cancelled)
	if a.Healthy(at(1000*due + 5001)) {
		t.Error("a client that gave up sends the next one to the same silence")
	}
	again := f.Reserve(a, Need{Streamed: true}, at(1000*(2*due)))
	if !again.Probe() {
		t.Fatal("it is never tried again")
	}
	again.FirstToken(at(1000*(2*due) + 1))
	if a.State() != "ready" || len(a.breaker.probes) > 0 {
		t.Errorf("its first token leaves it %s", a.State())
	}
}
