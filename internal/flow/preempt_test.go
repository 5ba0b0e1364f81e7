package flow

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestOnlyYoungUnsentWorkOfALowerPreemptibleClassGivesWay(t *testing.T) {
	o := roomy()
	o.PreemptTimesMax = 1
	q, now := queue(t, o), time.Unix(1e9, 0)
	run := func(class int, spent, left float64, change func(*Run)) Run {
		it := &Item{Line: "m", Class: class, Seconds: spent + left}
		if err := q.Push(now, it, 0); err != nil {
			t.Fatal(err)
		}
		if q.Pop(now, free) != it {
			t.Fatal("not taken")
		}
		it.taken = now.Add(-time.Duration(spent * float64(time.Second)))
		r := Run{Item: it, Spent: spent, Left: left}
		if change != nil {
			change(&r)
		}
		return r
	}
	waits := &Item{Line: "m", Class: 0, StartBy: now.Add(2 * time.Second), Seconds: 1}
	if err := q.Push(now, waits, 0); err != nil {
		t.Fatal(err)
	}
	q.Cancel(now, waits) // it has its limits now, and is not popped below
	runs := []Run{
		run(0, 1, 50, nil), // of its own class
		run(1, 1, 50, nil), // not preemptible
		run(2, 1, 50, func(r *Run) { r.Item.times = 1 }),
		run(2, 1, 50, func(r *Run) { r.Item.StartBy = now.Add(30 * time.Second) }), // could not begin again in time
		run(2, 9, 1, nil), // done soon by itself
		run(2, 1, 50, func(r *Run) { q.Settle(r.Item, 1) }), // done
		run(2, 4, 50, nil), // may
		run(2, 3, 50, nil), // may, and least is lost
		run(2, 3, 70, nil), // came later
	}
	if got := q.GiveWay(now, waits, slices.Clone(runs[:6])); len(got) != 0 {
		t.Errorf("%+v give way, want none", got)
	}
	got := q.GiveWay(now, waits, slices.Clone(runs))
	if want := []Run{runs[7], runs[8], runs[6]}; !slices.Equal(got, want) {
		t.Errorf("%+v give way, want %+v", got, want)
	}
}

func TestWorkThatIsTakenBackKeepsItsPlaceAndIsChargedForNothing(t *testing.T) {
	q, now := queue(t, roomy()), time.Unix(1e9, 0)
	push := func(name, tenant string, at time.Time) *Item {
		it := &Item{Line: "m", Owner: name, Tenant: tenant, Class: 2, Seconds: 10, Prefill: 1, WaitMax: time.Minute}
		if err := q.Push(at, it, 0); err != nil {
			t.Fatal(err)
		}
		return it
	}
	a := push("a", "x", now)
	if q.Pop(now, free) != a {
		t.Fatal("not taken")
	}
	push("b", "x", now)
	push("c", "y", now)
	later := now.Add(50 * time.Second)
	if !q.TakeBack(later, a, 7.5) || q.TakeBack(later, a, 7.5) || q.Cancel(later, a) {
		t.Error("taken back not at all, or twice")
	}
	if err := q.Push(later, a, 0); err == nil || q.Waiting() != 2 {
		t.Errorf("what was taken back was pushed anew: %v", err)
	}
	if !q.Requeue(later, a) || q.Requeue(later, a) {
		t.Error("put back not at all, or twice")
	}
	if times, wasted := a.Preempted(); times != 1 || wasted != 7.5 {
		t.Errorf("preempted %d times, %v s wasted", times, wasted)
	}
	if got := a.leaves.Sub(later); got != time.Minute {
		t.Errorf("it leaves after %v, want its minute from when it was taken back", got)
	}
	if a.band.oldest != a {
		t.Error("it is not the oldest any more")
	}
	if s := q.Stats(later).Classes[2]; s.Preempted != 1 || s.WastedSeconds != 7.5 {
		t.Errorf("%+v", s)
	}
	if got := drained(q, later); got != "cab" && got != "acb" {
		t.Errorf("%s, want a before b, and c not behind both", got)
	}
	push("d", "x", later)
	a.Line = "n" // where the others are that could serve it
	if !q.Retry(later, a) || a.times != 1 || q.Stats(later).Classes[2].Preempted != 1 || a.account != a.band.accounts["x"] || drained(q, later) != "ad" || len(q.lines) != 2 {
		t.Error("an item that its worker failed did not come again, or counts as having given way")
	}
}

func TestUrgentNamesWhoWouldBeTooLateOrWaitedForLong(t *testing.T) {
	o := roomy()
	o.Classes[0].PreemptAfter = 3 * time.Second
	w := newWorld(t, o, 1, 8)
	for range 12 {
		w.come(&Item{Line: "m", Tenant: "a", Class: 1, Seconds: 1}, 1)
	}
	w.after(6.5)
	soon := &Item{Line: "m", Tenant: "b", Class: 1, Seconds: 1, StartBy: w.now.Add(1500 * time.Millisecond)}
	urgent := func() (all []*Item) {
		w.q.Urgent(w.now, func(it *Item) bool { all = append(all, it); return true })
		return all
	}
	w.come(soon, 1)
	top := &Item{Line: "m", Tenant: "c", Class: 0, Seconds: 1}
	w.come(top, 1)
	if got := urgent(); !slices.Contains(got, soon) || slices.Contains(got, top) {
		t.Errorf("%d urgent", len(got))
	}
	w.now = w.now.Add(3 * time.Second)
	if got := urgent(); len(got) == 0 || got[0] != top {
		t.Errorf("%d urgent, the top class is not the first", len(got))
	}
}

// TestBatchWorkIsTakenBackAndFinishedExactlyOnce runs interactive requests among batch jobs that hold every lane for long.
func TestBatchWorkIsTakenBackAndFinishedExactlyOnce(t *testing.T) {
	o := roomy()
	o.Classes[0].PreemptAfter, o.PreemptTimesMax = 200*time.Millisecond, 50
	w := newWorld(t, o, 4, 12)
	r := rand.New(rand.NewPCG(12, 12))
	for range 40 {
		w.come(&Item{Line: "m", Tenant: "batch", Class: 2, Seconds: 20, Prefill: 5}, 20)
	}
	wasted := 0.0
	preempt := func() {
		w.q.Urgent(w.now, func(it *Item) bool {
			runs := make([]Run, len(w.running))
			for i, r := range w.running {
				left := r.ends.Sub(w.now).Seconds()
				runs[i] = Run{Item: r.it, Spent: r.seconds - left, Left: left}
			}
			runs = w.q.GiveWay(w.now, it, runs)
			if len(runs) == 0 {
				return true
			}
			back := runs[0]
			wasted += back.Spent
			w.running = slices.DeleteFunc(w.running, func(r run) bool { return r.it == back.Item })
			w.lanes++
			w.q.TakeBack(w.now, back.Item, back.Spent)
			w.q.Take(w.now, it)
			w.start(it)
			w.q.Requeue(w.now, back.Item)
			return false
		})
	}
	for range 600 {
		w.come(&Item{Line: "m", Tenant: "chat", Class: 0, Seconds: 0.5, Prefill: 0.1}, 0.5)
		for range 10 {
			w.after(0.1 * r.Float64())
			preempt()
		}
	}
	w.after(1000)
	finished := w.service["batch"] / 20
	most := slices.Max(w.waited["chat"])
	if finished != 40 || most > 0.5 {
		t.Errorf("%.2f of 40 jobs finished once; chat waited up to %.1f s, though batch work may be taken back after 0.2 s", finished, most)
	}
	s := w.q.Stats(w.now).Classes[2]
	t.Logf("taken back %d times, %.1f s wasted; chat waited up to %.2f s", s.Preempted, wasted, most)
	if wasted == 0 || s.WastedSeconds < wasted-1e-6 || s.WastedSeconds > wasted+1e-6 {
		t.Errorf("%.3f s wasted, %.3f s counted", wasted, s.WastedSeconds)
	}
}

func TestAClassThatIsOwedATurnAndHasNoRoomHoldsUpNobodyAbove(t *testing.T) {
	q, now := queue(t, roomy()), time.Unix(1e9, 0)
	push := func(class int, heavy bool) *Item {
		it := &Item{Line: "m", Class: class, Seconds: 1, Heavy: heavy}
		if err := q.Push(now, it, 0); err != nil {
			t.Fatal(err)
		}
		return it
	}
	batch, heavy := push(2, false), push(2, true)
	now = now.Add(time.Minute)
	urgent := push(0, false)
	push(1, false)
	batch.band.credit = 10
	for _, c := range []struct {
		verdict Verdict
		asked   []*Item // in their order, where none has room
	}{
		{ClassFull, []*Item{batch, heavy, urgent}},
		{KindFull, []*Item{batch, heavy}},
		{LineFull, []*Item{batch}},
		{QueueFull, []*Item{batch}},
	} {
		var asked []*Item
		q.Pop(now, func(it *Item) Verdict {
			asked = append(asked, it)
			return c.verdict
		})
		if !slices.Equal(asked, c.asked) {
			t.Errorf("verdict %d: %d were asked, want %d", c.verdict, len(asked), len(c.asked))
		}
	}
	got := q.Pop(now, func(it *Item) Verdict {
		if it.Class == 2 {
			return ClassFull
		}
		return Placed
	})
	if got != urgent {
		t.Errorf("%+v was placed, want the most urgent", got)
	}
}
