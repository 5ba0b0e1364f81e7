package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world drives a fleet at random and keeps a second, simple account of what is in flight.
type world struct {
	t        *testing.T
	rand     *rand.Rand
	f        *Fleet
	now      time.Time
	ever     []*Worker
	open     []*Reservation
	closed   []*Reservation // some of those released, to be released and used again
	inFlight map[*Worker]int
	vacant   []int // slots of workers that are gone
}

func TestAMillionRandomStepsEndWithEveryCountZero(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := &world{
		t:        t,
		rand:     rand.New(rand.NewPCG(seed, 1)),
		f:        New(Options{EjectFor: 50 * time.Millisecond, EjectMax: time.Second}),
		now:      time.Unix(1_700_000_000, 0),
		inFlight: map[*Worker]int{},
	}
	for step := range 1_000_000 {
		w.step()
		if step%97 == 0 {
			w.check()
		}
		if t.Failed() {
			t.Fatalf("after step %d of seed %d", step, seed)
		}
	}
	w.rand.Shuffle(len(w.open), func(i, j int) { w.open[i], w.open[j] = w.open[j], w.open[i] })
	for _, r := range w.open {
		w.now = w.now.Add(time.Millisecond)
		r.Release(w.now, Outcome(w.rand.IntN(4)))
	}
	for _, o := range w.ever {
		empty(t, o)
	}
}

// empty fails unless a worker owes exactly nothing.
func empty(t *testing.T, w *Worker) {
	t.Helper()
	o := &w.owed
	got := fmt.Sprint(o.inFlight, o.prefilling+int(o.heavy), o.contextTokens, o.pendingTokens, o.uniqueTokens, o.booked, len(o.shared), w.generated.Load())
	if got != "0 0 0 0 0 0s 0 0" || o.queue != (list{}) || o.silent != (list{}) || len(w.breaker.probes) > 0 {
		t.Errorf("worker %s/%d still owes %s, queue %v, silent %v, probe %v", w.ID, w.Incarnation, got, o.queue, o.silent, w.breaker.probes)
	}
}

func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.rand.IntN(4_000_000)))
	switch n := w.rand.IntN(1000); {
	case n < 12:
		w.churn(n)
	case n < 420 && len(w.open) < 200:
		w.reserve()
	case n < 560:
		if r := w.any(w.open); r != nil {
			r.FirstToken(w.now)
		}
	case n < 660:
		if r := w.any(w.open); r != nil {
			r.Generated(w.rand.IntN(20))
		}
	case n < 940:
		w.release()
	case n < 960:
		w.fault()
	case n < 970:
		if o := w.worker(); o != nil {
			o.Succeeded(w.now)
		}
	case n < 975:
		if o := w.worker(); o != nil {
			o.Busy(w.now, time.Duration(w.rand.IntN(1000))*time.Millisecond)
		}
	case n < 990:
		w.observe()
	default:
		w.again()
	}
}

// churn adds, drains, removes and restarts workers, and frees the slots of those that are gone.
func (w *world) churn(n int) {
	id := fmt.Sprintf("w%d", w.rand.IntN(8))
	gone := func(o *Worker) {
		if !o.Gone() {
			w.t.Errorf("%s left the fleet and is not gone", o.ID)
		}
		w.vacant = append(w.vacant, o.Slot)
	}
	switch n % 6 {
	case 0, 1, 2:
		before := w.f.Lookup(id)
		if o, err := w.f.Add(id, "http://"+id, w.now); err == nil && before == nil {
			w.ever = append(w.ever, o)
			o.SetInfo(Info{Models: []Model{{ID: "m" + id[1:2]}, {ID: "all"}}, KVTokensMax: 50_000, SlotsMax: 32})
		}
	case 3:
		w.f.Drain(id)
	case 4:
		if o, err := w.f.Remove(id); err == nil {
			gone(o)
		}
	case 5:
		if old := w.f.Lookup(id); old != nil {
			o, err := w.f.Restart(id, w.now)
			if err != nil || o == old || o.InFlight() != 0 {
				w.t.Errorf("restart of %s: %v, in flight %d", id, err, o.InFlight())
			}
			w.ever = append(w.ever, o)
			gone(old)
		}
	}
	if len(w.vacant) > 0 && w.rand.IntN(2) == 0 {
		w.f.SlotFree(w.vacant[0])
		w.vacant = w.vacant[1:]
	}
}

func (w *world) worker() *Worker {
	if all := w.f.Workers(); len(all) > 0 {
		return all[w.rand.IntN(len(all))]
	}
	return nil
}

func (w *world) any(of []*Reservation) *Reservation {
	if len(of) == 0 {
		return nil
	}
	return of[w.rand.IntN(len(of))]
}

func (w *world) reserve() {
	o := w.worker()
	if o == nil {
		return
	}
	prompt := w.rand.IntN(5000)
	r := w.f.Reserve(o, Need{
		PromptTokens: prompt, CachedTokens: w.rand.IntN(prompt + 10), PrefillSeconds: w.rand.Float64() / 10,
		Heavy: w.rand.IntN(5) == 0, DecodeSeconds: w.rand.Float64(), Streamed: w.rand.IntN(3) > 0, SharedKey: uint64(w.rand.IntN(5)),
	}, w.now)
	w.open = append(w.open, r)
	w.inFlight[o]++
}

func (w *world) release() {
	if len(w.open) == 0 {
		return
	}
	i := w.rand.IntN(len(w.open))
	r := w.open[i]
	if !r.Release(w.now, Outcome(w.rand.IntN(4))) {
		w.t.Errorf("the first release of a reservation on %s did nothing", r.Worker().ID)
	}
	w.inFlight[r.Worker()]--
	w.open = slices.Delete(w.open, i, i+1)
	if len(w.closed) < 500 {
		w.closed = append(w.closed, r)
	} else {
		w.closed[w.rand.IntN(len(w.closed))] = r
	}
}

// again uses a reservation that was released before: nothing may change.
func (w *world) again() {
	r := w.any(w.closed)
	if r == nil {
		return
	}
	before := r.Worker().Load(w.now)
	r.Generated(7)
	clean, _ := r.FirstToken(w.now)
	if clean || r.Release(w.now, Succeeded) || r.Worker().Load(w.now) != before {
		w.t.Errorf("a released reservation on %s still counts: %+v, then %+v", r.Worker().ID, before, r.Worker().Load(w.now))
	}
}

func (w *world) fault() {
	o := w.worker()
	if o == nil {
		return
	}
	last := o.Standing() && w.f.lastStanding(o)
	w.f.Fault(o, w.now, ServerError)
	if last && !o.Standing() {
		w.t.Errorf("%s was the last one standing of a model and was put out", o.ID)
	}
}

func (w *world) observe() {
	o := w.worker()
	if o == nil {
		return
	}
	o.Observe(Counts{
		Running: w.rand.IntN(20), Waiting: w.rand.IntN(10), KVUsage: w.rand.Float64()*1.2 - 0.1, OursBefore: w.rand.IntN(20),
		Has: Has(w.rand.IntN(32)), At: w.now,
	})
}

// check compares what the fleet says of the latest instances with the simple account; no gauge is ever below zero, no slot is given twice.
func (w *world) check() {
	slots := map[int]bool{}
	for _, o := range w.f.Workers() {
		if slots[o.Slot] || slices.Contains(w.vacant, o.Slot) || o.Slot >= w.f.Slots() {
			w.t.Errorf("slot %d is given twice, or before it was freed", o.Slot)
		}
		slots[o.Slot] = true
	}
	for _, o := range w.ever[max(0, len(w.ever)-30):] {
		l := o.Load(w.now)
		if l.InFlight != w.inFlight[o] {
			w.t.Errorf("%s has %d in flight, want %d", o.ID, l.InFlight, w.inFlight[o])
		}
		if l.Prefilling < 0 || l.Prefilling > l.InFlight || l.ContextTokens < 0 || l.PendingTokens < 0 || l.QueuedSeconds < 0 ||
			l.ForeignRunning < 0 || l.ForeignWaiting < 0 || l.KVHeldTokens < 0 || l.KVFreeTokens < -1 || l.ResidenceSeconds < 0 {
			w.t.Errorf("%s has a count below zero: %+v", o.ID, l)
		}
		if slices.ContainsFunc(o.breaker.probes, func(r *Reservation) bool { return r.phase == released || o.breaker.cause == NotOut }) {
			w.t.Errorf("%s waits for a probe that ended", o.ID)
		}
	}
}
