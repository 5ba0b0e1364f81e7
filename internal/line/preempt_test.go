package line

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/heavy"
)

// preempting lets interactive requests take the place of batch work after a second.
func preempting(o *Options) {
	o.Classes[0].PreemptAfter = time.Second
}

// preempt is who is placed for whom, such as "chat for a b"; "" nobody.
func (r *rig) preempt() string {
	e, back := r.l.Preempt(r.now)
	if e == nil {
		return ""
	}
	if e.Err != nil {
		r.t.Errorf("%s was placed, and not: %v", r.entries[e].name, e.Err)
	}
	names := r.entries[e].name + " for"
	for _, b := range back {
		names += " " + r.entries[b].name
		if !b.GaveWay() || b.Recallable() {
			r.t.Errorf("%s gave way: %v, may again: %v", r.entries[b].name, b.GaveWay(), b.Recallable())
		}
	}
	return names
}

func (r *rig) returns(t *trip) { r.l.Return(r.now, &t.entry) }

func TestWorkGivesWayOnlyWhenAClassAboveHasWaitedForLong(t *testing.T) {
	r := newRig(t, 1, 1, preempting)
	batch := r.come("batch", 2, 20_000, false)
	r.after(100 * time.Millisecond)
	chat := r.come("chat", 0, 100, true)
	r.after(999 * time.Millisecond)
	if got := r.preempt(); got != "" {
		t.Errorf("too early: %s", got)
	}
	if due, _ := r.l.Due(); due.Sub(r.now) > calmFor {
		t.Errorf("looked at again in %v", due.Sub(r.now))
	}
	r.after(calmFor)
	if got := r.next(); got != "" {
		t.Errorf("%shad a turn without room", got)
	}
	if got := r.preempt(); got != "chat for batch" || chat.entry.Waited != 999*time.Millisecond+calmFor {
		t.Errorf("%q after %v", got, chat.entry.Waited)
	}
	if l := r.workers[0].Load(r.now); l.InFlight != 1 || l.KVHeldTokens != 100 {
		t.Errorf("the worker owes %+v", l)
	}
	r.returns(batch)
	if got := r.next(); got != "" {
		t.Errorf("%shad a turn without room", got)
	}
	r.after(time.Second)
	r.over(chat)
	if got := r.next(); got != "batch " || batch.entry.Waited != time.Second || batch.placed != 2 {
		t.Errorf("%shad a turn after %v", got, batch.entry.Waited)
	}
	if times, wasted := batch.entry.Item.Preempted(); times != 1 || wasted <= 0 || wasted > 1.2 {
		t.Errorf("gave way %d times, %.3f s wasted", times, wasted)
	}
	r.over(batch)
	r.empty()
}

func TestNothingGivesWayToItsEqualsOrWhereItWasKept(t *testing.T) {
	for _, c := range []struct {
		name   string
		class  int // of what runs
		waits  int // of what waits
		change func(*Options)
		do     func(*rig, *trip)
		want   string
	}{
		{"batch before chat", 2, 0, nil, nil, "waits for runs"},
		{"standard is not preemptible", 1, 0, nil, nil, ""},
		{"of the same class", 2, 2, func(o *Options) { o.Classes[2].PreemptAfter = time.Second }, nil, ""},
		{"no class waits for so long", 2, 1, nil, nil, ""},
		{"preemption is off", 2, 0, func(o *Options) { o.Classes[2].Preemptible = false }, nil, ""},
		{"a byte went out", 2, 0, nil, func(r *rig, x *trip) { r.l.Keep(&x.entry) }, ""},
		{"never", 2, 0, func(o *Options) { o.PreemptTimesMax = 0 }, nil, ""},
		{"nobody ends it", 2, 0, nil, func(r *rig, x *trip) { r.l.still(&x.entry) }, ""},
	} {
		r := newRig(t, 1, 1, func(o *Options) {
			if preempting(o); c.change != nil {
				c.change(o)
			}
		})
		runs := r.come("runs", c.class, 20_000, false)
		r.come("waits", c.waits, 100, true)
		r.after(1100 * time.Millisecond)
		if c.do != nil {
			c.do(r, runs)
		}
		if got := r.preempt(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestThatGivesWayWhichIsLeastWastedAndMakesEnoughRoom(t *testing.T) {
	three := func(o *Options) {
		preempting(o)
		o.Classes[1].Preemptible = true
	}
	t.Run("the youngest of the least urgent class", func(t *testing.T) {
		r := newRig(t, 2, 2, three)
		r.come("old", 2, 5000, false)
		r.after(300 * time.Millisecond)
		r.come("older than the standard one", 2, 5000, false)
		r.after(100 * time.Millisecond)
		r.come("standard", 1, 5000, false)
		r.come("standard too", 1, 5000, false)
		r.come("chat", 0, 100, true)
		r.after(1100 * time.Millisecond)
		if got := r.preempt(); got != "chat for older than the standard one" {
			t.Error(got)
		}
	})
	t.Run("by what it holds", func(t *testing.T) {
		r := newRig(t, 1, 100, preempting) // there are slots enough: KV memory is short
		r.come("large", 2, 60_000, false)
		r.s.FirstToken(&r.named("large").course, r.now)
		r.after(200 * time.Millisecond)
		for i := range 4 {
			x := r.come(fmt.Sprint("small ", i), 2, 9_000, false)
			r.s.FirstToken(&x.course, r.now)
		}
		r.come("chat", 0, 30_000, true)
		r.after(1100 * time.Millisecond)
		// 4,000 tokens are free; three small ones make 31,000, and waste less than the large one.
		if got := r.preempt(); strings.Count(got, "small") != 3 || strings.Contains(got, "large") {
			t.Error(got)
		}
	})
	t.Run("what is superfluous stays", func(t *testing.T) {
		r := newRig(t, 1, 100, preempting)
		large := r.come("large", 2, 90_000, false)
		r.s.FirstToken(&large.course, r.now)
		small := r.come("small", 2, 1_000, false)
		r.s.FirstToken(&small.course, r.now)
		r.come("chat", 0, 50_000, true)
		r.after(1100 * time.Millisecond)
		if got := r.preempt(); got != "chat for large" {
			t.Error(got)
		}
	})
}

func TestThatGivesWayWhichIsInTheWay(t *testing.T) {
	t.Run("only on a worker that could take it", func(t *testing.T) {
		r := newRig(t, 2, 1, preempting)
		r.come("on one", 2, 5000, false)
		r.come("on the other", 2, 5000, false)
		x := r.trip("chat", 0, 100)
		x.req.Only = r.named("on one").on.ID
		r.enter(x)
		r.after(1100 * time.Millisecond)
		if got := r.preempt(); got != "chat for on one" {
			t.Error(got)
		}
	})
	t.Run("the lane of a heavy prefill", func(t *testing.T) {
		r := newRig(t, 1, 100, func(o *Options) {
			preempting(o)
			o.Heavy = heavy.Rule{Seconds: 0.5}
		})
		for i := range 5 {
			r.over(r.come(fmt.Sprint("known ", i), 2, 1000, false))
			r.after(time.Second)
		}
		r.come("light batch", 2, 100, false)
		r.come("heavy batch", 2, 40_000, false)
		r.come("heavy chat", 0, 40_000, true)
		r.after(1100 * time.Millisecond)
		if got := r.preempt(); got != "heavy chat for heavy batch" {
			t.Error(got)
		}
	})
}

func (r *rig) named(name string) *trip {
	for _, x := range r.entries {
		if x.name == name {
			return x
		}
	}
	r.t.Fatalf("there is no %s", name)
	return nil
}

func TestWorkThatIsAsGoodAsDoneIsWaitedFor(t *testing.T) {
	r := newRig(t, 1, 1, preempting)
	batch := r.come("batch", 2, 20_000, false)
	_, _, whole := batch.course.Reservation().Progress(r.now)
	r.after(time.Duration((whole - 1.2) * float64(time.Second)))
	r.come("chat", 0, 100, true)
	r.after(1050 * time.Millisecond) // 0.15 s are left
	if got := r.preempt(); got != "" {
		t.Errorf("%s", got)
	}
	r.after(300 * time.Millisecond) // it is overdue: nobody knows when it ends
	if got := r.preempt(); got != "chat for batch" {
		t.Errorf("%q", got)
	}
}

func TestWhoGaveWayAsOftenAsMayBeIsLeftAlone(t *testing.T) {
	r := newRig(t, 1, 1, preempting)
	batch := r.come("batch", 2, 20_000, false)
	for i := range 3 {
		chat := r.come(fmt.Sprint("chat ", i), 0, 100, true)
		r.after(1100 * time.Millisecond)
		got := r.preempt()
		if (got != "") != (i < 2) {
			t.Errorf("round %d: %q", i, got)
		}
		if got == "" {
			r.over(batch)
			r.next()
			r.over(chat)
			break
		}
		r.returns(batch)
		r.after(time.Second)
		r.over(chat)
		if got := r.next(); got != "batch " {
			t.Fatalf("%shad a turn", got)
		}
	}
	r.empty()
}

func TestAClientThatLeavesAfterItsWorkGaveWayLeavesNothing(t *testing.T) {
	for _, returned := range []bool{false, true} {
		r := newRig(t, 1, 1, preempting)
		batch := r.come("batch", 2, 20_000, false)
		chat := r.come("chat", 0, 100, true)
		r.after(1100 * time.Millisecond)
		if got := r.preempt(); got == "" {
			t.Fatal("nothing gave way")
		}
		if r.over(batch); returned { // which is late, and changes nothing
			r.returns(batch)
			if !r.l.Cancel(r.now, &batch.entry.Item) {
				t.Error("it did not wait")
			}
		}
		r.over(chat)
		if got := r.next(); got != "" {
			t.Errorf("%shad a turn", got)
		}
		r.empty()
	}
}

// TestACrowdOfBatchWorkIsFinishedExactlyOnce runs chats at random among batch jobs that fill all workers for long.
func TestACrowdOfBatchWorkIsFinishedExactlyOnce(t *testing.T) {
	const seed = 21
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, seed))
	r := newRig(t, 3, 4, func(o *Options) {
		preempting(o)
		o.TenantRoom, o.SecondsMax = 1e6, 1e9
	})
	ends, longest := map[*trip]time.Time{}, time.Duration(0)
	began := func(x *trip) {
		took := 200 * time.Millisecond
		if x.entry.Item.Class == 2 {
			took = 20 * time.Second
		} else {
			longest = max(longest, x.entry.Waited)
		}
		ends[x] = r.now.Add(took)
	}
	finished := map[string]int{}
	for step := range 40_000 {
		if step < 40 || step < 30_000 && chance.IntN(30) == 0 {
			name, class, tokens := "batch", 2, 4000
			if step >= 40 {
				name, class, tokens = "chat", 0, 200
			}
			if x := r.trip(fmt.Sprint(name, " ", step), class, tokens); !r.enter(x) {
				began(x)
			}
		}
		for x, at := range ends {
			if !at.After(r.now) {
				delete(ends, x)
				finished[x.name]++
				r.over(x)
			}
		}
		for e := r.l.Next(r.now); e != nil; e = r.l.Next(r.now) {
			began(r.entries[e])
		}
		for e, back := r.l.Preempt(r.now); e != nil; e, back = r.l.Preempt(r.now) {
			began(r.entries[e])
			for _, b := range back {
				delete(ends, r.entries[b])
				r.l.Return(r.now, b)
			}
		}
		r.after(10 * time.Millisecond)
	}
	for _, x := range r.entries {
		if finished[x.name] != 1 {
			t.Errorf("%s was finished %d times", x.name, finished[x.name])
		}
	}
	s := r.l.Stats(r.now).Classes[2]
	t.Logf("%d gave way, %.1f s wasted; chats waited up to %v", s.Preempted, s.WastedSeconds, longest)
	if s.Preempted == 0 || s.WastedSeconds <= 0 || longest > 1500*time.Millisecond {
		t.Errorf("chats waited up to %v", longest)
	}
	r.empty()
}

func TestWithoutPreemptibleWorkNobodyIsLookedFor(t *testing.T) {
	r := newRig(t, 1, 1, func(o *Options) { o.Classes[2].Preemptible = false })
	r.l.Sight.Room = func(*Entry) bool { t.Error("room was sought"); return false }
	r.come("batch", 2, 20_000, false)
	r.come("chat", 0, 100, true)
	r.after(20 * time.Second)
	if got := r.preempt(); got != "" || len(r.l.running) != 0 {
		t.Error(got)
	}
	if due, _ := r.l.Due(); due.Sub(r.now) != 10*time.Second {
		t.Errorf("due in %v: when its time is up", due.Sub(r.now))
	}
}

func TestWorkOnAWorkerThatIsGoneGivesWayToNobody(t *testing.T) {
	r := newRig(t, 2, 1, preempting)
	a, b := r.come("a", 2, 5000, false), r.come("b", 2, 5000, false)
	if _, err := r.f.Remove(a.on.ID); err != nil {
		t.Fatal(err)
	}
	r.come("chat", 0, 100, true)
	r.after(1100 * time.Millisecond)
	if got := r.preempt(); !strings.HasSuffix(got, " b") || b.on.Load(r.now) == (fleet.Load{}) {
		t.Error(got)
	}
}
