package fleet

import (
	"math"
	"sync"
	"testing"
	"time"
)

var start = time.Unix(1_700_000_000, 0)

// at is a moment that many milliseconds after the start.
func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func one(t *testing.T) (*Fleet, *Worker) {
	t.Helper()
	f := New(Options{})
	return f, add(t, f, "a")
}

func add(t *testing.T, f *Fleet, id string) *Worker {
	t.Helper()
	w, err := f.Add(id, "http://"+id, start)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wantLoad(t *testing.T, w *Worker, now time.Time, want Load) {
	t.Helper()
	got := w.Load(now)
	if math.Abs(got.QueuedSeconds-want.QueuedSeconds) < 1e-9 {
		got.QueuedSeconds = want.QueuedSeconds
	}
	if want.KVFreeTokens == 0 {
		want.KVFreeTokens = -1
	}
	if got != want {
		t.Errorf("load at +%v\n got %+v\nwant %+v", now.Sub(start), got, want)
	}
}

func TestAReservationMovesWithItsRequestsPhases(t *testing.T) {
	f, w := one(t)
	r := f.Reserve(w, Need{PromptTokens: 900, CachedTokens: 300, PrefillSeconds: 0.1, Streamed: true}, at(0))
	wantLoad(t, w, at(0), Load{InFlight: 1, Prefilling: 1, ContextTokens: 900, PendingTokens: 600, QueuedSeconds: 0.1, KVHeldTokens: 900})
	if clean, elapsed := r.FirstToken(at(80)); !clean || elapsed != 80*time.Millisecond {
		t.Errorf("first token: clean %v, elapsed %v", clean, elapsed)
	}
	r.Generated(40)
	r.Generated(2)
	wantLoad(t, w, at(90), Load{InFlight: 1, ContextTokens: 942, KVHeldTokens: 942})
	if !r.Release(at(180), Succeeded) {
		t.Error("the first release did nothing")
	}
	wantLoad(t, w, at(200), Load{ResidenceSeconds: 0.18})
}

func TestAReleasedReservationNeverCountsTwice(t *testing.T) {
	f, w := one(t)
	kept := f.Reserve(w, Need{PromptTokens: 10, Streamed: true}, at(0))
	r := f.Reserve(w, Need{PromptTokens: 900, PrefillSeconds: 0.1}, at(0))
	r.Release(at(1), Cancelled)
	for range 3 {
		if r.Release(at(2), Failed) {
			t.Error("released twice")
		}
		r.Generated(5)
		r.FirstToken(at(3))
	}
	if l := w.Load(at(3)); l.InFlight != 1 || l.ContextTokens != 10 {
		t.Errorf("load %+v", l)
	}
	kept.Release(at(4), Succeeded)
	empty(t, w)
}

func TestAReservationOutlivesItsWorkerAndNeverTouchesASuccessor(t *testing.T) {
	for _, leave := range []string{"remove", "restart"} {
		f, old := one(t)
		r := f.Reserve(old, Need{PromptTokens: 500, Streamed: true}, at(0))
		var next *Worker
		if leave == "remove" {
			f.Remove("a")
			next = add(t, f, "a")
		} else {
			next, _ = f.Restart("a", at(5))
		}
		if next == old || next.Slot == old.Slot || next.Incarnation == old.Incarnation || f.Lookup("a") != next {
			t.Errorf("%s: successor %+v of %+v", leave, next, old)
		}
		f.Reserve(next, Need{PromptTokens: 7}, at(6))
		r.FirstToken(at(7))
		r.Generated(9)
		r.Release(at(8), Succeeded)
		empty(t, old)
		if l := next.Load(at(9)); l.InFlight != 1 || l.ContextTokens != 7 {
			t.Errorf("%s: the successor's load is %+v", leave, l)
		}
	}
}

func TestASlotIsReusedOnlyAfterTheIndexForgotIt(t *testing.T) {
	f := New(Options{})
	a, _ := add(t, f, "a"), add(t, f, "b")
	f.SlotFree(a.Slot) // in use: nothing happens
	f.Remove("a")
	if c := add(t, f, "c"); c.Slot != 2 {
		t.Errorf("slot %d was given while the index still knew it", c.Slot)
	}
	f.SlotFree(a.Slot)
	if d := add(t, f, "d"); d.Slot != a.Slot {
		t.Errorf("slot %d, want the forgotten %d", d.Slot, a.Slot)
	}
}

func TestAddingRefusesWhatIsThereAndRevivesWhatDrains(t *testing.T) {
	f, w := one(t)
	for _, c := range [][2]string{{"a", "http://a"}, {"a", "http://other"}, {"b", "http://a"}, {"", "http://x"}, {"x", ""}} {
		if _, err := f.Add(c[0], c[1], start); err == nil {
			t.Errorf("adding %q at %q worked", c[0], c[1])
		}
	}
	f.Drain("a")
	if _, err := f.Add("a", "http://elsewhere", start); err == nil {
		t.Error("a draining id was taken to another address")
	}
	again, err := f.Add("a", "http://a", start)
	if again != w || err != nil || w.Draining() {
		t.Errorf("re-added: %v %v draining %v", again, err, w.Draining())
	}
	if f.Drain("z") == nil {
		t.Error("drained nobody")
	}
	if _, err := f.Remove("z"); err == nil {
		t.Error("removed nobody")
	}
	if _, err := f.Restart("z", start); err == nil {
		t.Error("restarted nobody")
	}
}

func TestWorkersKeepTheirOrderAndTheSliceACallerGot(t *testing.T) {
	f := New(Options{})
	add(t, f, "a")
	add(t, f, "b")
	got := f.Workers()
	add(t, f, "c")
	f.Remove("a")
	f.Restart("b", start)
	if got[0].ID != "a" || got[1].ID != "b" || got[1].Gone() == false {
		t.Error("a slice handed out was changed")
	}
	if now := f.Workers(); len(now) != 2 || now[0].ID != "b" || now[1].ID != "c" || now[0] == got[1] {
		t.Errorf("workers %v", now)
	}
}

func TestQueuedRunsDownToAQuarterThenHoldsThenGrows(t *testing.T) {
	f, w := one(t)
	f.Reserve(w, Need{PrefillSeconds: 0.1, Streamed: true}, at(0))
	f.Reserve(w, Need{PrefillSeconds: 0.04, Streamed: true}, at(10))
	for _, c := range []struct {
		ms   int
		want float64
	}{{10, 0.13}, {50, 0.09}, {60, 0.08}, {100, 0.065}, {110, 0.075}, {1100, 1.065}} {
		if got := w.Load(at(c.ms)).QueuedSeconds; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("queued at +%d ms is %.3f s, want %.3f", c.ms, got, c.want)
		}
	}
}

func TestTheNextInTheQueueRunsDownFromTheFirstTokenBeforeIt(t *testing.T) {
	f, w := one(t)
	first := f.Reserve(w, Need{PrefillSeconds: 0.1, Streamed: true}, at(0))
	f.Reserve(w, Need{PrefillSeconds: 0.1, Streamed: true}, at(0))
	first.FirstToken(at(300))
	if got := w.Load(at(320)).QueuedSeconds; math.Abs(got-0.08) > 1e-9 {
		t.Errorf("queued %.3f, want 0.080", got)
	}
}

func TestOnlyAPrefillThatWasAloneIsClean(t *testing.T) {
	alone := func(f *Fleet, w *Worker) *Reservation { return f.Reserve(w, Need{Streamed: true}, at(0)) }
	cases := map[string]struct {
		arrange func(f *Fleet, w *Worker) *Reservation
		want    bool
	}{
		"alone": {alone, true},
		"beside a decoding one": {func(f *Fleet, w *Worker) *Reservation {
			alone(f, w).FirstToken(at(1))
			return alone(f, w)
		}, true},
		"behind another": {func(f *Fleet, w *Worker) *Reservation { alone(f, w); return alone(f, w) }, false},
		"joined":         {func(f *Fleet, w *Worker) *Reservation { r := alone(f, w); alone(f, w); return r }, false},
		"joined by one that left": {func(f *Fleet, w *Worker) *Reservation {
			r := alone(f, w)
			alone(f, w).Release(at(1), Cancelled)
			return r
		}, false},
		"not streamed": {func(f *Fleet, w *Worker) *Reservation { return f.Reserve(w, Need{}, at(0)) }, false},
		"behind strangers": {func(f *Fleet, w *Worker) *Reservation {
			w.Observe(Counts{Running: 4, Waiting: 4, Has: HasRunning | HasWaiting, At: at(0)})
			return alone(f, w)
		}, false},
	}
	for name, c := range cases {
		f, w := one(t)
		r := c.arrange(f, w)
		if clean, _ := r.FirstToken(at(50)); clean != c.want {
			t.Errorf("%s: clean %v", name, clean)
		}
		if clean, _ := r.FirstToken(at(60)); clean {
			t.Errorf("%s: a second first token is clean", name)
		}
	}
}

func TestWhatOthersTookIsNoPrefill(t *testing.T) {
	for _, c := range []struct {
		others float64
		ms     int
		want   time.Duration
		clean  bool
	}{{0.01, 100, 90 * time.Millisecond, true}, {0.03, 40, 20 * time.Millisecond, true}, {0.051, 160, 109 * time.Millisecond, false}} {
		f, w := one(t)
		r := f.Reserve(w, Need{PrefillSeconds: 0.1, OthersSeconds: c.others, Streamed: true}, at(0))
		if clean, got := r.FirstToken(at(c.ms)); clean != c.clean || got != c.want {
			t.Errorf("others %v s of %d ms: %v, clean %v; want %v, %v", c.others, c.ms, got, clean, c.want, c.clean)
		}
	}
}

func TestAnswersThatAreNotStreamedChangePhaseByPrediction(t *testing.T) {
	f, w := one(t)
	f.Reserve(w, Need{PromptTokens: 100, PrefillSeconds: 0.1, DecodeSeconds: 1}, at(0))
	f.Reserve(w, Need{PromptTokens: 100, PrefillSeconds: 0.1, DecodeSeconds: 1}, at(0))
	wantLoad(t, w, at(50), Load{InFlight: 2, Prefilling: 2, ContextTokens: 200, PendingTokens: 200, QueuedSeconds: 0.15, KVHeldTokens: 200})
	wantLoad(t, w, at(120), Load{InFlight: 2, Prefilling: 1, ContextTokens: 200, PendingTokens: 100, QueuedSeconds: 0.08, KVHeldTokens: 200})
	wantLoad(t, w, at(900), Load{InFlight: 2, ContextTokens: 200, KVHeldTokens: 200})
	// More than twice its predicted time and the slack without a sign of life: it hangs.
	wantLoad(t, w, at(5200), Load{InFlight: 2, ContextTokens: 200, KVHeldTokens: 200, QueuedSeconds: 2.75})
}

func TestAFirstTokenProvesThePrefillsBeforeIt(t *testing.T) {
	f, w := one(t)
	f.Reserve(w, Need{PromptTokens: 100, PrefillSeconds: 9, DecodeSeconds: 1}, at(0))
	f.Reserve(w, Need{PromptTokens: 50, PrefillSeconds: 9, Streamed: true}, at(0)).FirstToken(at(100))
	if l := w.Load(at(100)); l.Prefilling != 0 || l.QueuedSeconds != 0 {
		t.Errorf("load %+v", l)
	}
}

func TestStrangersAreWhatTheEngineCountsBeyondOurs(t *testing.T) {
	both := HasRunning | HasWaiting
	cases := []struct {
		name             string
		ours             int
		c                Counts
		running, waiting int
	}{
		{"all ours", 10, Counts{Running: 6, Waiting: 4, OursBefore: 10, Has: both}, 0, 0},
		{"fewer than ours", 10, Counts{Running: 6, OursBefore: 10, Has: both}, 0, 0},
		{"all foreign", 0, Counts{Running: 50, Waiting: 10, Has: both}, 50, 10},
		{"half foreign", 10, Counts{Running: 10, Waiting: 10, OursBefore: 10, Has: both}, 5, 5},
		{"ended since", 0, Counts{Running: 8, OursBefore: 8, Has: both}, 0, 0},
		{"began since", 8, Counts{Running: 8, OursBefore: 0, Has: both}, 0, 0},
		{"not reported", 0, Counts{Running: 8, Waiting: 8}, 0, 0},
	}
	for _, c := range cases {
		f, w := one(t)
		for range c.ours {
			f.Reserve(w, Need{Streamed: true}, at(0))
		}
		c.c.At = at(0)
		w.Observe(c.c)
		l := w.Load(at(1))
		if l.ForeignRunning != c.running || l.ForeignWaiting != c.waiting || l.ForeignKnown != (c.c.Has != 0) {
			t.Errorf("%s: %d running, %d waiting, known %v; want %d, %d", c.name, l.ForeignRunning, l.ForeignWaiting, l.ForeignKnown, c.running, c.waiting)
		}
		if l := w.Load(at(6000)); l.ForeignKnown || l.ForeignRunning+l.ForeignWaiting != 0 {
			t.Errorf("%s: stale counts still known: %+v", c.name, l)
		}
	}
}

func TestASharedPrefixTakesRoomOnce(t *testing.T) {
	f, w := one(t)
	w.SetInfo(Info{KVTokensMax: 20_000})
	var rs []*Reservation
	for range 5 {
		rs = append(rs, f.Reserve(w, Need{PromptTokens: 9000, CachedTokens: 8000, SharedKey: 77, Streamed: true}, at(0)))
	}
	if l := w.Load(at(0)); l.KVHeldTokens != 13_000 || l.KVFreeTokens != 7000 || l.ContextTokens != 45_000 || !w.HoldsShared(77) {
		t.Errorf("load %+v", l)
	}
	for i, r := range rs {
		r.Release(at(i), Succeeded)
	}
	empty(t, w)
	if w.HoldsShared(77) || w.HoldsShared(0) {
		t.Error("a prefix is shared with nobody")
	}
}

func TestKVRoomCountsWhatStrangersHold(t *testing.T) {
	f, w := one(t)
	w.SetInfo(Info{KVTokensMax: 10_000})
	f.Reserve(w, Need{PromptTokens: 3000, Streamed: true}, at(0))
	held := func(c Counts, want int) {
		t.Helper()
		c.At, c.Has = at(0), c.Has|HasKVUsage
		w.Observe(c)
		if l := w.Load(at(0)); l.KVHeldTokens != want {
			t.Errorf("held %d, want %d", l.KVHeldTokens, want)
		}
	}
	held(Counts{KVUsage: 0.5}, 5000)
	held(Counts{KVUsage: 0.2}, 2000)             // our own sum overstates: blocks are shared
	held(Counts{KVUsage: 0.2, Waiting: 1}, 3000) // but with one waiting it counts what that will need
	held(Counts{KVUsage: 7}, 10_000)
	held(Counts{KVUsage: -1}, 0)
}

func TestGeneratedNeedsNoLockAndLeavesNothingBehind(t *testing.T) {
	f, w := one(t)
	for round := range 50 {
		rs := make([]*Reservation, 8)
		for i := range rs {
			rs[i] = f.Reserve(w, Need{PromptTokens: 5, Streamed: true}, at(round))
		}
		var streams sync.WaitGroup
		for _, r := range rs {
			streams.Go(func() {
				for range 200 {
					r.Generated(3)
				}
			})
		}
		for _, r := range rs {
			if l := w.Load(at(round)); l.ContextTokens < 0 {
				t.Errorf("context %d", l.ContextTokens)
			}
			r.Release(at(round), Succeeded)
		}
		streams.Wait()
	}
	empty(t, w)
}

func TestPredictionsThatAreNoTimeAreBounded(t *testing.T) {
	f, w := one(t)
	for _, s := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300} {
		f.Reserve(w, Need{PrefillSeconds: s, DecodeSeconds: s, PromptTokens: -5, CachedTokens: 9}, at(0))
	}
	if q := w.Load(at(0)).QueuedSeconds; q != 2*bookedSecondsMax {
		t.Errorf("queued %v s", q)
	}
}

func BenchmarkLoad(b *testing.B) {
	f := New(Options{})
	w, _ := f.Add("a", "http://a", start)
	for range 20 {
		f.Reserve(w, Need{PromptTokens: 900, PrefillSeconds: 0.1, Streamed: true}, at(0))
	}
	for b.Loop() {
		w.Load(at(10))
	}
}

func TestARequestIsAloneOnlyWhileNobodyElseEverWas(t *testing.T) {
	now := time.Unix(0, 0)
	f := New(DefaultOptions())
	w, err := f.Add("a", "http://a", now)
	if err != nil {
		t.Fatal(err)
	}
	first := f.Reserve(w, Need{PromptTokens: 10}, now)
	if !first.Alone() {
		t.Error("the only request is not alone")
	}
	second := f.Reserve(w, Need{PromptTokens: 10}, now)
	second.Release(now, Succeeded)
	if first.Alone() || second.Alone() {
		t.Error("a request that was joined, or that joined, is taken to be alone")
	}
	first.Release(now, Succeeded)
	if third := f.Reserve(w, Need{PromptTokens: 10}, now); !third.Alone() {
		t.Error("a request on a worker that is idle again is not alone")
	}
}
